"""A batch of training environments: commands, pushes, observations, rewards, falls.

Everything is an array over environments; only resets, commands and pushes handle a single one.
"""

from dataclasses import dataclass

import numpy as np

from sim2real_deploy.policy.terms import BatchInput
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.robots.geometry import heading
from sim2real_deploy.training.config import TrainingConfig
from sim2real_deploy.training.curriculum import TerrainCurriculum
from sim2real_deploy.training.ground import SCAN
from sim2real_deploy.training.height_maps import HeightMaps
from sim2real_deploy.training.observation import Observer
from sim2real_deploy.training.physics import Array64, BatchPhysics
from sim2real_deploy.training.pushes import Pushes
from sim2real_deploy.training.randomisation import AdaptiveWidth
from sim2real_deploy.training.rewards import REWARDS, Array, Flags, Snapshot
from sim2real_deploy.training.swings import Swings
from sim2real_deploy.training.symmetry import joint_mirror
from sim2real_deploy.training.terrain import ALONG_X

CONTACT_FORCE = 1.0  # N
SPARE = 0.06  # m: extra drop height on terrain, so that no foot starts inside the ground
RANGE_MARGIN = 0.03  # rad kept from the ends of a joint's range, as on the robot
TURNED = 0.3  # rad: largest initial heading error on terrain that is walked along x
FASTEST_TURN = 0.8  # rad/s: largest wz that corrects the heading there
EDGE = 0.7  # m from the end of a tile at which an episode ends
MISSED = slice(0, 3)  # in the critic's input: error of vx, vy, wz (reached minus commanded),
MISSED_SCALE = 4.0  # scaled so that the actor takes notice
GROUND_SCALE = 5.0  # of heights (m)
SLOPE_SCALE = 2.0
NEVER = -(10**9)  # control steps


@dataclass(frozen=True, slots=True)
class HiddenValue:
    """A randomised value that a robot cannot measure. The critic gets (value - middle) * scale, and
    the actor learns to estimate it."""

    middle: float
    scale: float  # gives it a spread of about 0.4, like the other inputs
    unit: str = "1"


HIDDEN = {
    "friction": HiddenValue(0.8, 2.0),
    "payload": HiddenValue(0.0, 0.3, "kg"),
    "motor_strength": HiddenValue(1.0, 5.0),
    "delay": HiddenValue(0.01, 50.0, "s"),
}


@dataclass(slots=True)
class Outcome:
    """The result of one step of all environments."""

    observation: Array
    privileged: Array
    reward: Array
    fell: Flags
    timed_out: Flags


class Environment:
    def __init__(self, config: TrainingConfig, robot: RobotSpec, count: int, seed: int):
        self.config, self.robot, self.count = config, robot, count
        self.rng = np.random.default_rng(seed)
        self.physics = BatchPhysics(config, robot, count, seed)
        self.drawn = self.physics.drawn
        self.width = AdaptiveWidth(config.randomisation.width, config.randomisation.width.start)
        wide = config.randomisation.push_width
        self.pushes = Pushes(count, AdaptiveWidth(wide, wide.start) if wide else self.width)
        self.terrain = TerrainCurriculum(config.terrain, count)
        self._uneven = ~self.terrain.on("flat")
        along = [kind.kind in ALONG_X for kind in config.terrain.kinds]
        self._along = np.array(along)[self.terrain.kind]
        self._way = np.zeros((count, 2))  # world xy: the direction to walk on such terrain
        self.observer = Observer(config, robot, count)
        self._maps = None
        if self.observer.grid is not None:
            errors, rate_hz = config.randomisation.height_scan, config.control.rate_hz
            self._maps = HeightMaps(self.observer.grid, errors, rate_hz, count)
        self.default = robot.stand_pose
        self._sideways = np.float32(joint_mirror(robot, config.symmetry).signs < 0)
        self._offsets = np.array([config.gait.offsets[leg] for leg in robot.legs], np.float32)
        self._radius = float(self.physics.plain[0].geom(robot.foot_names[0]).size[0])
        self._episode = int(config.ppo.episode * config.control.rate_hz)
        oldest = np.ceil(config.randomisation.delay[1] * config.control.rate_hz)
        joints, legs = len(robot.joints), len(robot.legs)
        self._range = robot.position_low + RANGE_MARGIN, robot.position_high - RANGE_MARGIN
        self._beyond = np.zeros((count, joints), np.float32)
        self._targets = np.zeros((count, int(oldest) + 1, joints), np.float32)  # newest first
        self._applied = np.zeros((count, joints))
        self._actions = np.zeros((3, count, joints), np.float32)  # newest first
        self._dq = np.zeros((count, joints), np.float32)
        self._base_height = np.zeros(count, np.float32)
        self._foot_height, self._step_ahead = np.zeros((2, count, legs), np.float32)
        self._slope = np.zeros((count, 2), np.float32)
        self._scan = np.zeros((count, len(SCAN)), np.float32)
        self._contact = np.zeros((count, legs), bool)
        self._swings = Swings(count, legs)
        self.command = np.zeros((count, 3), np.float32)
        self.phase = np.zeros(count, np.float32)  # of the gait clock, 0 to 1
        self._fresh = np.ones(count, bool)  # no observation since the reset
        self._age = np.zeros(count, np.int64)  # control steps since the reset
        self._next_command, self._next_push = np.zeros((2, count), np.int64)
        self._pushed = np.full(count, NEVER)  # the age at the last push
        self._error = np.zeros(count, np.float32)  # of the velocity, summed over the episode
        # m: the distance commanded in this episode, and how much of it was walked.
        self._commanded, self._walked = np.zeros((2, count))
        sums = ("steps", "finished", "fell", "judged", "succeeded", "pushes", "withstood")
        self.sums = dict.fromkeys((*sums, "length", "error_v", "error_w"), 0.0)
        self.reward_sums = dict.fromkeys(config.rewards | config.polish.rewards, 0.0)
        for env in range(count):
            self._reset(env)
        self._age = self.rng.integers(0, self._episode, count)  # spread the ends

    def step(self, action: Array) -> Outcome:
        control = self.config.control
        self._actions[2], self._actions[1] = self._actions[1], self._actions[0]
        self._actions[0] = np.clip(action, -control.action_clip, control.action_clip)
        wanted = self.default + control.action_scale * self._actions[0]
        target = np.clip(wanted, *self._range)
        self._beyond = np.abs(wanted - target).astype(np.float32)
        self._targets[:, 1:] = self._targets[:, :-1]
        self._targets[:, 0] = target - self.drawn.offset
        self.advance()
        snapshot = self._snapshot()
        reward = self._reward(snapshot)
        fell = self._fallen(snapshot)
        self._age += 1
        self.phase = (self.phase + 1 / (control.rate_hz * self.config.gait.period)) % 1.0
        out = np.abs(self.physics.position[:, :2]).max(1) > self.config.terrain.size / 2 - EDGE
        timed_out = ((self._age >= self._episode) | (out & self._uneven)) & ~fell
        for env in np.flatnonzero(fell | timed_out).tolist():
            self._finish(env, bool(fell[env]))
        for env in np.flatnonzero(self._age >= self._next_command).tolist():
            self._new_command(env)
        self._hold_heading()
        for env in np.flatnonzero(self._age >= self._next_push).tolist():
            self._push(env)
        observation, privileged = self.observe()
        return Outcome(observation, privileged, reward, fell, timed_out)

    def advance(self) -> None:
        """One control step of physics with delayed targets."""
        substeps = self.config.control.substeps
        late = np.round(self.drawn["delay"] / self.config.control.timestep).astype(np.int64)
        age = np.clip(-((np.arange(substeps) - late) // substeps), 0, self._targets.shape[1] - 1)
        targets = self._targets[np.arange(self.count)[:, None], age].astype(np.float64)
        self.physics.advance(targets)
        self._applied = targets[:, -1]

    def observe(self) -> tuple[Array, Array]:
        """The actor's input, with noise, and the critic's: noise-free, MISSED first, with more."""
        inputs = BatchInput(
            turning=self.physics.turning.astype(np.float32),
            gravity=self._gravity(),
            command=self.command,
            q=(self.physics.q - self.default).astype(np.float32),
            dq=self.physics.dq.astype(np.float32),
            action=self._actions[0],
            phase=self.phase,
            heights=self._true_heights(),
        )
        true = self.observer.values(inputs)
        inputs.q = inputs.q + self.drawn.offset.astype(np.float32)
        if self._maps is not None:
            base = self.physics.position[:, 2]
            known = inputs.heights, base, self._fresh, self.width.value, self.rng
            inputs.heights = self._maps.look(*known)
        frame = self.observer.noisy(self.observer.values(inputs), self.width.value, self.rng)
        observation = self.observer.remember(frame, self._fresh)
        self._fresh[:] = False
        velocity = self.physics.in_body(self.physics.velocity)
        moving = np.stack([*velocity.T[:2], self.physics.turning[:, 2]], 1)
        hidden = [(self.drawn[name] - one.middle) * one.scale for name, one in HIDDEN.items()]
        parts = [
            MISSED_SCALE * (moving - self.command),
            velocity[:, 2:],
            GROUND_SCALE * self._foot_height,
            GROUND_SCALE * self._step_ahead,
            SLOPE_SCALE * self._slope,
            self._base_height[:, None],
            *hidden,
            true,
            self._contact,
            GROUND_SCALE * self._scan,
        ]
        return observation, np.concatenate(parts, 1, dtype=np.float32)

    @property
    def felt(self) -> slice:
        """The part of the critic's input that the actor learns to estimate: velocity error, foot
        clearance, steps ahead, slope, height, and last the values in HIDDEN."""
        return slice(0, MISSED.stop + 1 + 2 * len(self.robot.legs) + 2 + 1 + len(HIDDEN))

    def steering(self, gain: float) -> Array:
        """Matrix from estimates to corrections of the observation: a robot that is too fast sees a
        lower command."""
        columns, scale = self.observer.newest("velocity_command")
        shift = np.zeros((self.felt.stop, self.observer.size), np.float32)
        shift[range(MISSED.stop), columns] = -gain / MISSED_SCALE * scale
        return shift

    def _true_heights(self) -> Array:
        physics = self.physics
        if self._maps is None:
            return np.zeros((self.count, 0), np.float32)
        return self._maps.true(physics.ground, physics.tile, physics.position, physics.forward())

    def _gravity(self) -> Array:
        roll, pitch = self.drawn["gravity_tilt"].T
        down = np.stack([pitch, -roll, -np.ones(self.count)], 1)
        return self.physics.in_body(down / np.linalg.norm(down, axis=1, keepdims=True))

    def _snapshot(self) -> Snapshot:
        physics, control, gait = self.physics, self.config.control, self.config.gait
        knee_height = self._feel_ground()
        self._contact = physics.sensed("touch")[..., 0] > CONTACT_FORCE
        self._swings.note(self._foot_height, self._contact)
        velocity = physics.in_body(physics.velocity)
        dq, last_dq = physics.dq.astype(np.float32), self._dq
        self._dq = dq
        strength = self.drawn.strength
        wanted = control.kp * (self._applied - physics.q) - control.kd * dq
        torque = strength * self.drawn.gain * wanted
        limit = self.robot.torque_limit * strength
        up = physics.in_body(np.tile([0.0, 0.0, 1.0], (self.count, 1)))
        calm = ~self.command.any(1) & (np.hypot(velocity[:, 0], velocity[:, 1]) < gait.calm_speed)
        lean = up[:, :2] - self._slope / np.hypot(1.0, np.linalg.norm(self._slope, axis=1))[:, None]
        calm &= np.linalg.norm(lean, axis=1) < np.sin(gait.calm_tilt)
        return Snapshot(
            command=self.command,
            velocity=velocity,
            turning=physics.turning.astype(np.float32),
            up=up,
            lean=lean.astype(np.float32),
            q=(physics.q - self.default).astype(np.float32),
            sideways=self._sideways,
            dq=dq,
            dq_share=np.float32(np.abs(dq) / self.robot.velocity_limit),
            ddq=(dq - last_dq) * control.rate_hz,
            torque=np.clip(torque, -limit, limit).astype(np.float32),
            action=self._actions[0],
            last_action=self._actions[1],
            action_before=self._actions[2],
            contact=self._contact,
            foot_height=self._foot_height,
            step_ahead=self._step_ahead,
            swing_height=self._swings.height,
            swing_ended=self._swings.ended,
            foot_speed=np.float32(np.linalg.norm(physics.sensed("velocity")[..., :2], axis=-1)),
            base_height=self._base_height,
            knee_height=knee_height,
            beyond_range=self._beyond,
            phase=(self.phase[:, None] + self._offsets) % 1.0,
            uneven=self._uneven,
            calm=np.asarray(calm),
            recovering=self._age < self._pushed + gait.recovery * control.rate_hz,
        )

    def _feel_ground(self) -> Array:
        """Look up the ground under each robot; returns the height of the knees above it."""
        physics, ground = self.physics, self.physics.ground
        feet, knees = physics.sensed("position"), physics.sensed("knee")
        forward = physics.forward()
        across = np.stack([-forward[:, 1], forward[:, 0]], 1)
        way = self.command[:, :1] * forward + self.command[:, 1:2] * across
        way = way / np.maximum(np.linalg.norm(way, axis=1, keepdims=True), 0.1)
        under = ground.height(physics.tile, feet[..., :2])
        scan = ground.scan(physics.tile, physics.position[:, :2], forward)
        level = under.mean(1)
        self._foot_height = (feet[..., 2] - self._radius - under).astype(np.float32)
        self._step_ahead = ground.step_ahead(physics.tile, feet[..., :2], way).astype(np.float32)
        self._base_height = (physics.position[:, 2] - level).astype(np.float32)
        self._slope = ground.slope(scan).astype(np.float32)
        self._scan = (scan - level[:, None]).astype(np.float32)
        knee_ground = ground.height(physics.tile, knees[..., :2])
        self._note_progress(forward, across)
        return np.asarray(knees[..., 2] - knee_ground, np.float32)

    def _note_progress(self, forward: Array64, across: Array64) -> None:
        """Add up the commanded distance and how much of it was walked; extra speed adds nothing."""
        velocity = self.physics.velocity[:, :2]
        moving = np.stack([(velocity * forward).sum(1), (velocity * across).sum(1)], 1)
        wanted = np.linalg.norm(self.command[:, :2], axis=1)
        along = (moving * self.command[:, :2]).sum(1) / np.maximum(wanted, 1e-6)
        self._commanded += wanted / self.config.control.rate_hz
        self._walked += np.minimum(along, wanted) * (wanted > 0) / self.config.control.rate_hz

    def _reward(self, snapshot: Snapshot) -> Array:
        total = np.zeros(self.count, np.float32)
        for name, weight in self.config.rewards.items():
            part = weight * REWARDS[name](snapshot, self.config)
            self.reward_sums[name] += float(part.sum())
            total += part
        error = np.hypot(*(snapshot.velocity[:, :2] - snapshot.command[:, :2]).T)
        turning_error = np.abs(snapshot.turning[:, 2] - snapshot.command[:, 2])
        self._error += error
        self.sums["steps"] += self.count
        self.sums["error_v"] += float(error.sum())
        self.sums["error_w"] += float(turning_error.sum())
        return np.asarray(np.maximum(total, 0) / self.config.control.rate_hz, np.float32)

    def _fallen(self, snapshot: Snapshot) -> Flags:
        limits = self.config.fall
        fallen = snapshot.base_height < limits.base_height
        fallen |= snapshot.up[:, 2] < np.cos(limits.tilt)
        fallen |= (snapshot.knee_height < limits.knee_height).any(1)
        return np.asarray(fallen)

    def _finish(self, env: int, fell: bool) -> None:
        age = int(self._age[env])
        tracked = bool(self._error[env] < self.config.commands.tracked * age)
        self.sums["finished"] += 1
        self.sums["fell"] += fell
        if not self._uneven[env]:  # the randomisation is judged on flat ground only
            self.sums["judged"] += 1
            self.sums["succeeded"] += tracked and not fell
        self._end_push(env, fell)
        self.sums["length"] += age
        self.terrain.finish(
            env, fell, float(self._walked[env]), float(self._commanded[env]), self.rng
        )
        self._reset(env)

    def _reset(self, env: int) -> None:
        rng, joints = self.rng, len(self.default)
        self.drawn.draw(env, self.config.randomisation, self.width.value, rng)
        self.physics.rebuild(env, self.terrain.tile(env))
        yaw, at = rng.uniform(-np.pi, np.pi), (0.0, 0.0)
        if self._along[env]:
            way = rng.choice([0.0, np.pi])
            self._way[env] = np.cos(way), np.sin(way)
            yaw, at = way + rng.uniform(-TURNED, TURNED), (rng.uniform(-0.15, 0.15), 0.0)
        self.physics.place(
            env,
            height=self.robot.base_height + rng.uniform(0.0, 0.05) + SPARE * self._uneven[env],
            attitude=np.array([*rng.uniform(-0.1, 0.1, 2), yaw]),
            q=self.default + rng.uniform(-0.15, 0.15, joints),
            speed=rng.uniform(-0.3, 0.3, 6),
            at=at,
        )
        self._targets[env] = self.default
        self._actions[:, env] = self._dq[env] = self._slope[env] = self._scan[env] = 0
        self._base_height[env] = self._foot_height[env] = self._step_ahead[env] = 0
        self._walked[env] = self._commanded[env] = self._error[env] = self._age[env] = 0
        self._contact[env] = False
        self._swings.reset(env)
        self.phase[env] = rng.uniform()
        self._fresh[env] = True
        self._new_command(env)
        self._next_push[env] = self._steps(self.config.randomisation.push_every)
        self._pushed[env] = NEVER

    def _steps(self, seconds: tuple[float, float]) -> int:
        return int(self.rng.uniform(*seconds) * self.config.control.rate_hz)

    def _new_command(self, env: int) -> None:
        wanted = self.config.commands
        low, high = zip(wanted.vx, wanted.vy, wanted.wz, strict=True)
        shares = np.cumsum([wanted.standing, wanted.only_vx, wanted.only_vy, wanted.only_wz])
        kept = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)]
        kind = int(np.searchsorted(shares, self.rng.uniform()))
        self.command[env] = self.rng.uniform(low, high) * kept[kind]
        if self._along[env]:
            self.command[env] = self.rng.uniform(*wanted.along), 0.0, 0.0
        self._next_command[env] = self._age[env] + self._steps(wanted.every)

    def _hold_heading(self) -> None:
        """On terrain that is walked along x, wz corrects the heading."""
        forward, way = self.physics.forward(), self._way
        sine = forward[:, 0] * way[:, 1] - forward[:, 1] * way[:, 0]
        turned = np.arctan2(sine, (forward * way).sum(1))
        wz = np.clip(self.config.commands.hold_heading * turned, -FASTEST_TURN, FASTEST_TURN)
        self.command[self._along, 2] = wz[self._along]

    def _end_push(self, env: int, fell: bool) -> None:
        """Count the last push, if there was one; as robustness, on flat ground only."""
        if self.pushes.ended(env, fell) and not self._uneven[env]:
            self.sums["pushes"] += 1
            self.sums["withstood"] += not fell

    def _push(self, env: int) -> None:
        ranges = self.config.randomisation
        self._end_push(env, fell=False)
        motion = float(np.arctan2(self.command[env, 1], self.command[env, 0]))
        speed, angle = self.pushes.draw(env, ranges, motion, self.rng)
        if self._uneven[env]:
            speed *= self.config.terrain.pushes
        angle += heading(self.physics.quaternion[env])
        self.physics.velocity[env, :2] += speed * np.array([np.cos(angle), np.sin(angle)])
        self._pushed[env] = self._age[env]
        self._next_push[env] = self._age[env] + self._steps(ranges.push_every)
