"""Everything that shapes a trained policy, as data: config/training/<name>.yaml."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from sim2real_deploy import configfile, paths
from sim2real_deploy.configfile import Strict
from sim2real_deploy.policy.contract import Range, Term
from sim2real_deploy.twin.per_joint import PerJoint, within

CLOCK = "gait_phase"  # the observation term that must keep the gait's period


class Control(Strict):
    rate_hz: float = Field(gt=0, le=500)
    substeps: int = Field(ge=1, le=50)
    kp: float = Field(gt=0)
    kd: float = Field(ge=0)
    # Times kp and kd, by joint: for motors of another strength than those that a policy knows.
    gain: Annotated[PerJoint, within(0.5, 2.0)] = 1.0
    action_scale: float = Field(gt=0)
    action_clip: float = Field(gt=0)

    @property
    def timestep(self) -> float:
        return 1.0 / self.rate_hz / self.substeps


class Gait(Strict):
    """The clock the policy sees and the footfalls it is rewarded for."""

    period: float = Field(gt=0)
    stance: float = Field(gt=0, lt=1)
    offsets: dict[str, float]  # by leg, as a share of the period
    swing_height: float = Field(ge=0)
    clearance: float = Field(default=0.0, ge=0)  # m: mean height of swinging feet that is wanted
    on_terrain: float = Field(ge=0, le=1)  # how much of the reward for footfalls counts there
    calm_speed: float = Field(ge=0)
    calm_tilt: float = Field(gt=0)
    # s after a push, for which footfalls, swing height and power do not count
    recovery: float = Field(default=0.0, ge=0)


class Symmetry(Strict):
    """Which legs a left-right mirror swaps, and which joints it turns the other way."""

    swap: dict[str, str]
    negate: tuple[str, ...]  # endings of joint names


class Commands(Strict):
    vx: Range
    vy: Range
    wz: Range
    every: Range
    standing: float = Field(ge=0, le=1)
    only_vx: float = Field(ge=0, le=1)
    only_vy: float = Field(ge=0, le=1)
    only_wz: float = Field(ge=0, le=1)
    tracked: float = Field(gt=0)  # m/s: the mean error below which an episode may be a success
    along: Range  # vx on terrain that is walked along one way: stairs, gaps, obstacles
    hold_heading: float = Field(ge=0)  # 1/s: wz there, by how far it has turned from its way

    @model_validator(mode="after")
    def _shares(self) -> "Commands":
        total = self.standing + self.only_vx + self.only_vy + self.only_wz
        if total > 1:
            raise ValueError(f"the shares standing, only_vx, only_vy and only_wz sum to {total:g}")
        return self


class Shape(Strict):
    tracking_wide: float = Field(gt=0)
    tracking_narrow: float = Field(gt=0)
    tracking_shares: tuple[float, float, float]  # of wide bell, narrow bell and slope
    tracking_reach: float = Field(gt=0)
    base_height: float = Field(gt=0)
    knee_height: float = Field(gt=0)


class Fall(Strict):
    """An episode ends below these heights (above the lowest foot) or beyond this tilt."""

    base_height: float
    tilt: float = Field(gt=0)
    knee_height: float


class Width(Strict):
    """Adaptive randomisation: the share of each range in force, 0 to 1."""

    start: float = Field(ge=0, le=1)
    least: float = Field(ge=0, le=1)
    step: float = Field(gt=0, le=1)
    widen_above: float = Field(ge=0, le=1)
    narrow_below: float = Field(ge=0, le=1)
    episodes: int = Field(gt=0)  # or pushes, between two decisions


class HeightErrors(Strict):
    """The errors of a height map, for a policy that observes one."""

    noise: float = Field(default=0.0, ge=0)  # m, one standard deviation of each point
    delay: Range = (0.0, 0.0)  # s from measurement to use
    holes: float = Field(default=0.0, ge=0, lt=1)  # share of points that hold their last value
    period: float = Field(default=0.02, gt=0)  # s between two maps


class Randomisation(Strict):
    width: Width
    friction: Range
    restitution: Range
    payload: Range
    link_mass: Range
    centre_of_mass: Range
    motor_strength: Range
    kp: Range
    kd: Range
    joint_damping: Range
    joint_friction: Range
    armature: Range
    joint_offset: Range
    delay: Range
    gravity_tilt: Range
    push_speed: Range
    push_every: Range
    push_sideways: float = Field(ge=0, le=1)  # share of pushes from the left or the right
    # Share of the others that come from where most of them end in a fall.
    push_weakest: float = Field(default=0.0, ge=0, le=1)
    # The share of push_speed in force, by how many are withstood; else it is `width`.
    push_width: Width | None = None
    noise: dict[str, float]  # by observation term, before its scale
    height_scan: HeightErrors = HeightErrors()

    @model_validator(mode="after")
    def _ordered(self) -> "Randomisation":
        for name, value in self:
            if isinstance(value, tuple) and value[0] > value[1]:
                raise ValueError(f"{name}: {value[0]} is above {value[1]}")
        return self


class TerrainKind(Strict):
    """One kind of terrain and its levels, from easy to hard."""

    kind: Literal["flat", "rough", "slope", "stairs", "stairs_down", "obstacles", "gaps"]
    share: float = Field(gt=0)  # of the environments
    # Roughness, rise per metre of a slope, a stair's riser, an obstacle's height, a gap's depth.
    levels: tuple[float, ...] = Field(min_length=1)


class Promotion(Strict):
    """Share of the commanded way above or below which an environment changes its level."""

    promote_above: float = Field(gt=0)
    demote_below: float = Field(ge=0)
    least_way: float = Field(ge=0)  # m: with a shorter commanded way an episode does not count


class Terrain(Strict):
    size: float = Field(gt=2)
    kinds: tuple[TerrainKind, ...] = Field(min_length=1)
    promotion: Promotion
    pushes: float = Field(ge=0, le=1)  # of the speed that pushes have on flat ground
    start: float = Field(default=0.0, ge=0, le=1)  # 0: at the lowest level of each kind, 1: highest

    @model_validator(mode="after")
    def _flat_first(self) -> "Terrain":
        if self.kinds[0].kind != "flat":
            raise ValueError("kinds: the first must be flat: there robustness is judged")
        return self


class NetworkConfig(Strict):
    hidden: tuple[int, ...] = Field(min_length=1)
    feeling: tuple[int, ...] = Field(min_length=1)  # hidden layers of the estimator
    critic: tuple[int, ...] = ()  # hidden layers of the critic, else those of the actor
    steering_gain: float = Field(ge=0)  # command correction per estimated velocity error
    exported_gain: float = Field(ge=0)  # the same in the exported policy
    steering_reach: float = Field(ge=0)  # m/s, rad/s: larger errors are pushes, and clipped
    initial_std: float = Field(gt=0)
    warm_start: str | None = None  # a policy with the same layers or smaller ones
    final_std: float = Field(gt=0)  # at most, at the end of the run


class Polish(Strict):
    """What changes once the robot walks: from scratch, these rewards teach standing still."""

    begin: float = Field(ge=0, le=1)  # share of the run
    rewards: dict[str, float]
    tracking_shares: tuple[float, float, float]
    push_speed: Range
    push_every: Range
    push_sideways: float = Field(ge=0, le=1)


class Ppo(Strict):
    workers: int = Field(ge=1)
    environments: int = Field(ge=1)
    steps: int = Field(ge=1)
    epochs: int = Field(ge=1)
    minibatches: int = Field(ge=1)
    gamma: float = Field(gt=0, lt=1)
    lam: float = Field(ge=0, le=1)
    clip: float = Field(gt=0)
    entropy: float = Field(ge=0)
    target_kl: float = Field(gt=0)
    actor_rate: Range
    critic_rate: float = Field(gt=0)
    gradient_norm: float = Field(gt=0)
    episode: float = Field(gt=0)
    anneal_from: float = Field(ge=0, le=1)
    critic_first: int = Field(default=0, ge=0)  # iterations before the actor of a warm start learns


class Judging(Strict):
    """How checkpoints are judged by the gate while training goes on."""

    set: str  # of scenarios, in config/scenario_sets.yaml
    trials: int = Field(ge=1)
    every: float = Field(gt=0)  # s
    patience: int | None = Field(default=None, ge=1)  # judgements without a better one, then stop


class TrainingConfig(Strict):
    name: str = Field(pattern="^[a-z][a-z0-9_]*$")
    robot: str
    twin: str  # the robot that randomisation starts from: a name in config/twins, or a file
    steps: int = Field(gt=0)
    control: Control
    observation: tuple[Term, ...] = Field(min_length=1)
    gait: Gait
    symmetry: Symmetry
    commands: Commands
    rewards: dict[str, float]
    shape: Shape
    fall: Fall
    randomisation: Randomisation
    terrain: Terrain
    network: NetworkConfig
    ppo: Ppo
    polish: Polish
    judging: Judging | None = None

    @model_validator(mode="after")
    def _known(self) -> "TrainingConfig":
        from sim2real_deploy.training.rewards import REWARDS

        for name in (*self.rewards, *self.polish.rewards):
            if name not in REWARDS:
                raise ValueError(
                    f"rewards: there is no reward '{name}'; there are: {', '.join(sorted(REWARDS))}"
                )
        terms = {term.name for term in self.observation}
        for name in self.randomisation.noise:
            if name not in terms:
                raise ValueError(f"randomisation.noise: '{name}' is not an observation term")
        for term in self.observation:
            if term.name == CLOCK and term.params.get("period") != self.gait.period:
                raise ValueError(
                    f"observation: {CLOCK} has a period of {term.params.get('period')} s,"
                    f" gait.period is {self.gait.period} s; they must be the same"
                )
        return self

    def with_clock(self, period: float) -> "TrainingConfig":
        """The same with another gait period, in the footfalls and in what the policy sees."""
        observation = tuple(
            term.model_copy(update={"params": {**term.params, "period": period}})
            if term.name == CLOCK
            else term
            for term in self.observation
        )
        gait = self.gait.model_copy(update={"period": period})
        return self.model_copy(update={"observation": observation, "gait": gait})

    def at(self, done: float) -> "TrainingConfig":
        """The config in force when this share of the run is done."""
        polish = self.polish
        if done < polish.begin:
            return self
        pushes = {"push_speed", "push_every", "push_sideways"}
        shape = {"tracking_shares": polish.tracking_shares}
        changed = {
            "rewards": self.rewards | polish.rewards,
            "shape": self.shape.model_copy(update=shape),
            "randomisation": self.randomisation.model_copy(
                update={name: getattr(polish, name) for name in pushes}
            ),
        }
        return self.model_copy(update=changed)


def load_training(name: str | Path) -> TrainingConfig:
    """A config by its name in config/training, or by the path of a file of that form."""
    path = Path(name)
    if path.suffix != ".yaml":
        path = paths.config_file(f"training/{name}.yaml")
    return configfile.load(path, TrainingConfig)
