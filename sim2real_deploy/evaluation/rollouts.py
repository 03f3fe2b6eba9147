"""A policy in the imperfect twin, under a command and whatever makes it hard: what came of it.

The model is not the one training uses: full collision geometry, torques from a 500 Hz PD law,
motors with lag, friction and play, noisy sensors, late and lost messages.
"""

from dataclasses import dataclass, field

import mujoco
import numpy as np
import numpy.typing as npt

from sim2real_deploy.control.controller import Controller
from sim2real_deploy.control.modes import Event, Mode
from sim2real_deploy.control.stages import load_stage
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.bundle import Bundle
from sim2real_deploy.safety.chain import CLEAR
from sim2real_deploy.twin.config import Imperfections
from sim2real_deploy.twin.disturbances import Push
from sim2real_deploy.twin.floors import Floor
from sim2real_deploy.twin.model import BASE
from sim2real_deploy.twin.robot import BaseTruth, Truth, TwinRobot
from sim2real_deploy.wire.in_process import InProcessLink

Vector = npt.NDArray[np.float64]

STAGE = "field"  # all the speed that a policy was trained for
STAND_UP_S = 6.0  # the longest it may take
SEEN_EVERY = 10  # ticks of the wire between two looks at what really happens
SETTLE_S = 3.0  # after the command is given, before anything is judged
FALLEN_HEIGHT, FALLEN_TILT = 0.5, 1.0  # of the height it stands at; rad
PUSH_S = 0.05  # short: a kick, not a shove


@dataclass(frozen=True, slots=True)
class Trial:
    """One condition. Pushes come from all sides in turn, each worth a speed of the whole robot."""

    name: str
    command: tuple[float, float, float]
    seconds: float = 20.0
    floor: Floor = field(default_factory=Floor)
    payload: float = 0.0  # kg on the trunk
    delay: float = 0.0  # s, added to each command
    strength: float = 1.0  # of the motors, on top of the twin's own
    push_speed: float = 0.0  # m/s
    push_every: float = 3.0  # s


@dataclass(frozen=True, slots=True)
class Result:
    fell: bool
    velocity: Vector  # vx, vy, wz, mean over the judged time, in the robot's heading
    error: Vector  # of vx, vy, wz: mean deviation of its one-second averages from the command
    tilt: float  # rad, the most
    torque: float  # the most, as a share of the joint's limit
    touched: tuple[str, ...]  # what else than feet touched anything
    contact: npt.NDArray[np.bool_]  # feet on the ground, one row per look


def imperfect(trial: Trial, base: Imperfections) -> Imperfections:
    """The twin's own imperfections made worse by what the trial says."""
    motors, bus = base.motors, base.command_bus
    return base.model_copy(
        update={
            "motors": motors.model_copy(update={"strength": motors.strength * trial.strength}),
            "command_bus": bus.model_copy(update={"delay": bus.delay + trial.delay}),
        }
    )


def roll_out(bundle: Bundle, trial: Trial, imperfections: Imperfections, seed: int) -> Result:
    """Stand up, walk, judge: the control code is the robot's own."""
    twin = TwinRobot(bundle.spec, trial.floor, imperfect(trial, imperfections), seed=seed)
    load(twin, trial.payload)
    drive = Drive(bundle, twin)
    drive.stand_and_walk()
    return Judge(drive, trial, seed).watch()


def load(twin: TwinRobot, payload: float) -> None:
    twin.model.body_mass[twin.model.body(BASE).id] += payload
    mujoco.mj_setConst(twin.model, mujoco.MjData(twin.model))


class Drive:
    """The controller on a twin in lockstep, under a supervisor that never objects."""

    def __init__(self, bundle: Bundle, twin: TwinRobot):
        self.twin, self.spec = twin, bundle.spec
        self.link = InProcessLink(bundle.spec, twin)
        self.controller = Controller(bundle.spec, load_stage(STAGE), bundle.open())
        self.controller.situation.sport_released = True
        self._period = 1 / bundle.spec.wire.rate_hz

    def tick(self) -> None:
        state = self.link.wait(self._period)
        command = self.controller.step(state, self.link.now_ns(), CLEAR)
        if command is not None:
            self.link.send(command)

    def walk_at(self, velocity: tuple[float, float, float]) -> None:
        self.controller.velocity.offer(*velocity, self.link.now_ns())

    def stand_and_walk(self) -> None:
        """Up and into the policy's hands; where there is a hoist, until it is off."""
        self.tick()
        for event, reached in ((Event.STAND, Mode.STANDING), (Event.WALK, Mode.WALKING)):
            decision = self.controller.request(event, self.link.now_ns())
            if not decision.accepted:
                raise Refusal(f"the twin would not {event.value}: {decision.words}")
            for _ in range(round(STAND_UP_S / self._period)):
                if self.controller.mode is reached:
                    break
                self.tick()
            else:
                raise Refusal(f"the twin did not come to {reached.words}: {self.controller.reason}")
        for _ in range(round(STAND_UP_S / self._period)):
            if self.twin.hoist is None or not self.twin.hoist.on:
                return
            self.tick()
        raise Refusal("the twin does not stand by itself: it leans into its hoist")


class Judge:
    def __init__(self, drive: Drive, trial: Trial, seed: int):
        self.drive, self.twin, self.trial = drive, drive.twin, trial
        self.rate_hz = drive.spec.wire.rate_hz / SEEN_EVERY
        self._rng = np.random.default_rng(seed)
        self._mass = float(self.twin.model.body_subtreemass[self.twin.model.body(BASE).id])

    def watch(self) -> Result:
        drive, trial, rate = self.drive, self.trial, self.drive.spec.wire.rate_hz
        truths: list[Truth] = []
        torque = 0.0
        next_push = trial.push_every
        fell = False
        for tick in range(round(trial.seconds * rate)):
            drive.walk_at(trial.command)
            drive.tick()
            if tick > SETTLE_S * rate:
                share = np.abs(self.twin.motors.torque) / drive.spec.torque_limit
                torque = max(torque, float(share.max()))
            if tick % SEEN_EVERY == 0:
                truths.append(self.twin.truth)
                fell = self._fallen(truths[-1])
                if fell:
                    break
            if trial.push_speed and tick / rate > next_push:
                self._push()
                next_push += trial.push_every
        return self._judge(truths, torque, fell)

    def _push(self) -> None:
        angle = self._rng.uniform(-np.pi, np.pi)
        force = self._mass * self.trial.push_speed / PUSH_S
        self.twin.push(
            Push(force=force, direction=(np.cos(angle), np.sin(angle), 0.0), duration=PUSH_S)
        )

    def _fallen(self, truth: Truth) -> bool:
        ground = float(self.twin.floor.height(*truth.position[:2]))
        low = truth.position[2] - ground < FALLEN_HEIGHT * self.drive.spec.base_height
        return bool(low or tilt(truth) > FALLEN_TILT)

    def _judge(self, truths: list[Truth], torque: float, fell: bool) -> Result:
        judged = truths[round(SETTLE_S * self.rate_hz) :] or truths
        velocity = np.array([heading_velocity(truth) for truth in judged])
        window = min(len(velocity), round(self.rate_hz))
        kernel = np.ones(window) / window
        smooth = np.stack([np.convolve(axis, kernel, "valid") for axis in velocity.T])
        return Result(
            fell=fell,
            velocity=velocity.mean(0),
            error=np.abs(smooth - np.array(self.trial.command)[:, None]).mean(1),
            tilt=max(tilt(truth) for truth in judged),
            torque=torque,
            touched=tuple(sorted({name for truth in judged for name in truth.contacts})),
            contact=np.array([truth.foot_force > 1.0 for truth in truths]),
        )


def tilt(truth: BaseTruth) -> float:
    _, x, y, _ = truth.quaternion
    return float(np.arccos(np.clip(1 - 2 * (x * x + y * y), -1, 1)))


def heading_velocity(truth: BaseTruth) -> Vector:
    """Forward, sideways and turning speed, as an onlooker above the robot sees them."""
    w, x, y, z = truth.quaternion
    yaw = np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    vx, vy, _ = truth.velocity
    forward = vx * np.cos(yaw) + vy * np.sin(yaw)
    left = vy * np.cos(yaw) - vx * np.sin(yaw)
    return np.array([forward, left, truth.rate[2]])
