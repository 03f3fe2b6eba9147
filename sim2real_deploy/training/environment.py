"""Many robots in one batch: commands, randomised physics, observations, rewards, falls.

Everything is an array over environments; only a reset looks at a single one. Physics is
`mujoco.rollout` with one model for each environment, on one thread: workers are processes.
"""

import copy
from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt
from mujoco import rollout

from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.training import randomisation
from sim2real_deploy.training.config import TrainingConfig
from sim2real_deploy.training.curriculum import TerrainCurriculum
from sim2real_deploy.training.model import spawn_height, training_model
from sim2real_deploy.training.observation import Observer, Sight
from sim2real_deploy.training.randomisation import AdaptiveWidth, Drawn
from sim2real_deploy.training.rewards import REWARDS, Array, Flags, Snapshot
from sim2real_deploy.training.symmetry import joint_mirror

STATE = mujoco.mjtState.mjSTATE_FULLPHYSICS
QPOS, QVEL = 1, 8  # where position begins in a state vector, and joints after it; time is first
CONTACT_FORCE = 1.0  # N
TRACKED = 0.25  # m/s, mean error of an episode that counts as well tracked
MOTION = 0.1  # rad/s over which joint friction turns from one direction to the other


@dataclass(slots=True)
class Outcome:
    """What one step of all environments gives to the learner."""

    observation: Array
    privileged: Array
    reward: Array
    fell: Flags
    timed_out: Flags


class Environment:
    def __init__(self, config: TrainingConfig, robot: RobotSpec, count: int, seed: int):
        self.config, self.robot, self.count = config, robot, count
        self.rng = np.random.default_rng(seed)
        self.width = AdaptiveWidth(config.randomisation.width, config.randomisation.width.start)
        self.terrain = TerrainCurriculum(config.terrain, count)
        self.plain = [training_model(robot, config, level, seed) for level in config.terrain.levels]
        self._spawn = [
            spawn_height(level, config.terrain.size, seed) for level in config.terrain.levels
        ]
        model = self.plain[0]
        self.models = [copy.copy(model) for _ in range(count)]
        self._model_level = np.zeros(count, np.int64)
        self._data = mujoco.MjData(model)
        self._rollout = rollout.Rollout(nthread=1)
        self._sensors = {
            (leg, name): model.sensor(f"{leg}_{name}").adr[0]
            for leg in robot.legs
            for name in ("touch", "position", "velocity", "knee")
        }
        joints = len(robot.joints)
        self._arms = QPOS + 7  # joints in the state vector
        self._base_speed = QPOS + model.nq
        self._joint_speed = self._base_speed + 6
        substeps = config.control.substeps
        self._state = np.zeros((count, substeps, mujoco.mj_stateSize(model, STATE)))
        self._sensed = np.zeros((count, substeps, model.nsensordata))
        self._now = np.zeros((count, self._state.shape[2]))
        self.drawn = Drawn(count, joints, model.nbody)
        self.observer = Observer(config, robot)
        self.default = robot.stand_pose.astype(np.float32)
        mirror = joint_mirror(robot, config.symmetry)
        self._sideways = (mirror.signs < 0).astype(np.float32)
        self._offsets = np.array([config.gait.offsets[leg] for leg in robot.legs], np.float32)
        self._radius = float(model.geom(robot.foot_names[0]).size[0])
        self._oldest = int(
            np.ceil(config.randomisation.delay[1] / config.control.timestep / substeps)
        )
        self._targets = np.zeros((count, self._oldest + 1, joints), np.float32)
        self._delay = np.zeros(count, np.int64)  # in physics steps
        self.command = np.zeros((count, 3), np.float32)
        self._phase = np.zeros(count, np.float32)
        self._age = np.zeros(count, np.int64)  # control steps since the reset
        self._next_command = np.zeros(count, np.int64)
        self._next_push = np.zeros(count, np.int64)
        self._error = np.zeros(count, np.float32)  # of the velocity, summed over the episode
        self._actions = np.zeros((3, count, joints), np.float32)  # newest first
        self._dq = np.zeros((count, joints), np.float32)
        self.sums = dict.fromkeys(
            ("steps", "finished", "fell", "length", "error_v", "error_w"), 0.0
        )
        self.reward_sums = dict.fromkeys(config.rewards, 0.0)
        for who in range(count):
            self._reset(who)
        self._age = self.rng.integers(
            0, self._episode, count
        )  # so that they do not all end at once

    @property
    def _episode(self) -> int:
        return int(self.config.ppo.episode * self.config.control.rate_hz)

    def _steps(self, seconds: tuple[float, float]) -> int:
        return int(self.rng.uniform(*seconds) * self.config.control.rate_hz)

    def _reset(self, who: int) -> None:
        rng, level = self.rng, self.terrain.level[who]
        plain = self.plain[level]
        if self._model_level[who] != level:
            self.models[who] = copy.copy(plain)
            self._model_level[who] = level
        ranges = self.config.randomisation
        self.drawn.draw(who, ranges, self.width.value, rng)
        randomisation.apply(
            self.models[who], plain, self._data, self.drawn, who, self.config.control
        )
        self._delay[who] = round(self.drawn["delay"][who, 0] / self.config.control.timestep)
        yaw = rng.uniform(-np.pi, np.pi)
        tilted = rng.uniform(-0.1, 0.1, 2)
        state = self._now[who]
        state[:] = 0
        state[QPOS + 2] = self._spawn[level] + self.robot.base_height + rng.uniform(0.0, 0.05)
        mujoco.mju_euler2Quat(state[QPOS + 3 : QPOS + 7], np.array([*tilted, yaw]), "xyz")
        joints = len(self.default)
        state[self._arms : self._arms + joints] = self.default + rng.uniform(-0.15, 0.15, joints)
        state[self._base_speed : self._base_speed + 6] = rng.uniform(-0.3, 0.3, 6)
        self._targets[who] = self.default
        self._actions[:, who] = 0
        self._dq[who] = 0
        self._phase[who] = rng.uniform()
        self._age[who] = 0
        self._error[who] = 0
        self._new_command(who)
        self._next_push[who] = self._steps(ranges.push_every)

    def _new_command(self, who: int) -> None:
        wanted, rng = self.config.commands, self.rng
        command = np.array(
            [rng.uniform(*wanted.vx), rng.uniform(*wanted.vy), rng.uniform(*wanted.wz)]
        )
        shares = [wanted.standing, wanted.only_vx, wanted.only_vy, wanted.only_wz]
        keep = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]])
        self.command[who] = command * keep[np.searchsorted(np.cumsum(shares), rng.uniform())]
        self._next_command[who] = self._age[who] + self._steps(wanted.every)

    def observe(self) -> tuple[Array, Array]:
        """What the actor sees, noisy, and what the critic sees, true and more of it."""
        joints = len(self.default)
        sight = Sight(
            turning=self._now[:, self._base_speed + 3 : self._base_speed + 6].astype(np.float32),
            gravity=self._gravity(),
            command=self.command,
            q=(self._now[:, self._arms : self._arms + joints] - self.default).astype(np.float32),
            dq=self._now[:, self._joint_speed :].astype(np.float32),
            action=self._actions[0],
            phase=self._phase,
        )
        true = self.observer.values(sight)
        sight.q = sight.q + self.drawn["joint_offset"].astype(np.float32)
        seen = self.observer.noisy(self.observer.values(sight), self.width.value, self.rng)
        facts = [
            self._velocity(),
            self._heights,
            self._contact,
            *(
                self.drawn[name][:, :1] / reach
                for name, reach in (("friction", 1.0), ("payload", 4.0), ("motor_strength", 1.0))
            ),
            self._delay[:, None] / 4.0,
        ]
        return seen, np.concatenate([true, *facts], 1, dtype=np.float32)

    def _velocity(self) -> Array:
        world = self._now[:, self._base_speed : self._base_speed + 3]
        return rotate_back(self._now[:, QPOS + 3 : QPOS + 7], world)

    def _gravity(self) -> Array:
        roll, pitch = self.drawn["gravity_tilt"].T
        down = np.stack([pitch, -roll, -np.ones(self.count)], 1)
        down /= np.linalg.norm(down, axis=1, keepdims=True)
        return rotate_back(self._now[:, QPOS + 3 : QPOS + 7], down)

    def step(self, action: Array) -> Outcome:
        control = self.config.control
        self._actions[2], self._actions[1] = self._actions[1], self._actions[0]
        self._actions[0] = np.clip(action, -control.action_clip, control.action_clip)
        target = self.default + control.action_scale * self._actions[0]
        self._targets[:, 1:] = self._targets[:, :-1]
        self._targets[:, 0] = target - self.drawn["joint_offset"]
        self.advance()
        snapshot = self._snapshot()
        reward = self._reward(snapshot)
        fell = self._fallen(snapshot)
        self._age += 1
        self._phase = (self._phase + 1 / (control.rate_hz * self.config.gait.period)) % 1.0
        edge = self.config.terrain.size / 2 - 0.7
        outside = (self._model_level > 0) & (np.abs(self._now[:, QPOS : QPOS + 2]).max(1) > edge)
        timed_out = ((self._age >= self._episode) | outside) & ~fell
        for who in np.flatnonzero(fell | timed_out).tolist():
            self._finish(who, bool(fell[who]))
        for who in np.flatnonzero(self._age >= self._next_command).tolist():
            self._new_command(who)
        self._push(np.flatnonzero(self._age >= self._next_push))
        observation, privileged = self.observe()
        return Outcome(observation, privileged, reward, fell, timed_out)

    def advance(self) -> None:
        """One control step of physics towards the targets in force."""
        substeps, joints = self.config.control.substeps, len(self.default)
        late = self._delay[:, None] - np.arange(substeps)
        age = np.clip(-(-late // substeps), 0, self._oldest)
        control = self._targets[np.arange(self.count)[:, None], age].astype(np.float64)
        dq = self._now[:, self._joint_speed : self._joint_speed + joints]
        drag = self.drawn["joint_friction"] * np.tanh(dq / MOTION) / self.config.control.kp
        control -= drag[:, None]
        self._rollout.rollout(
            self.models,
            [self._data],
            self._now,
            control,
            skip_checks=True,
            nstep=substeps,
            state=self._state,
            sensordata=self._sensed,
        )
        self._now[:] = self._state[:, -1]
        self._applied = control[:, -1]

    def _snapshot(self) -> Snapshot:
        control, joints = self.config.control, len(self.default)
        sensed = self._sensed[:, -1]

        def by_leg(name: str, size: int) -> npt.NDArray[np.float64]:
            places = [self._sensors[leg, name] for leg in self.robot.legs]
            return np.stack([sensed[:, a : a + size] for a in places], 1)

        foot = by_leg("position", 3)[..., 2] - self._radius
        ground = foot.min(1, keepdims=True)
        knee = by_leg("knee", 3)[..., 2] - ground
        height = self._now[:, QPOS + 2] - ground[:, 0]
        self._heights = np.concatenate([height[:, None], foot - ground], 1, dtype=np.float32)
        self._contact = by_leg("touch", 1)[..., 0] > CONTACT_FORCE
        velocity = self._velocity()
        turning = self._now[:, self._base_speed + 3 : self._base_speed + 6].astype(np.float32)
        up = np.zeros((self.count, 3))
        up[:, 2] = 1
        q = self._now[:, self._arms : self._arms + joints]
        dq = self._now[:, self._joint_speed :].astype(np.float32)
        strength = self.drawn["motor_strength"]
        torque = strength * (control.kp * (self._applied - q) - control.kd * dq)
        limit = self.robot.torque_limit * strength
        standing = np.asarray(~self.command.any(1))
        speed = np.hypot(velocity[:, 0], velocity[:, 1])
        snapshot = Snapshot(
            command=self.command,
            velocity=velocity,
            turning=turning,
            up=rotate_back(self._now[:, QPOS + 3 : QPOS + 7], up),
            q=(q - self.default).astype(np.float32),
            sideways=self._sideways,
            dq=dq,
            ddq=(dq - self._dq) * control.rate_hz,
            torque=np.clip(torque, -limit, limit).astype(np.float32),
            action=self._actions[0],
            last_action=self._actions[1],
            action_before=self._actions[2],
            contact=self._contact,
            foot_height=self._heights[:, 1:],
            foot_speed=np.linalg.norm(by_leg("velocity", 3)[..., :2], axis=-1).astype(np.float32),
            base_height=height.astype(np.float32),
            knee_height=knee.astype(np.float32),
            phase=(self._phase[:, None] + self._offsets) % 1.0,
            standing=standing,
            calm=standing & (speed < self.config.gait.calm_speed),
        )
        self._dq = dq
        return snapshot

    def _reward(self, snapshot: Snapshot) -> Array:
        total = np.zeros(self.count, np.float32)
        for name, weight in self.config.rewards.items():
            part = weight * REWARDS[name](snapshot, self.config)
            self.reward_sums[name] += float(part.sum())
            total += part
        error = np.hypot(*(snapshot.velocity[:, :2] - snapshot.command[:, :2]).T)
        self._error += error
        self.sums["steps"] += self.count
        self.sums["error_v"] += float(error.sum())
        self.sums["error_w"] += float(np.abs(snapshot.turning[:, 2] - snapshot.command[:, 2]).sum())
        return np.asarray(np.maximum(total, 0) / self.config.control.rate_hz, np.float32)

    def _fallen(self, snapshot: Snapshot) -> Flags:
        limits = self.config.fall
        fallen = snapshot.base_height < limits.base_height
        fallen |= snapshot.up[:, 2] < np.cos(limits.tilt)
        fallen |= (snapshot.knee_height < limits.knee_height).any(1)
        return np.asarray(fallen)

    def _finish(self, who: int, fell: bool) -> None:
        age = int(self._age[who])
        self.sums["finished"] += 1
        self.sums["fell"] += fell
        self.sums["length"] += age
        tracked = self._error[who] < TRACKED * age
        self.terrain.finish(who, fell, bool(tracked), self.rng)
        self._reset(who)

    def _push(self, who: npt.NDArray[np.int64]) -> None:
        angle = self.rng.uniform(-np.pi, np.pi, len(who))
        speed = self.drawn["push_speed"][who, 0]
        self._now[who, self._base_speed] += speed * np.cos(angle)
        self._now[who, self._base_speed + 1] += speed * np.sin(angle)
        for one in who:
            self._next_push[one] = self._age[one] + self._steps(
                self.config.randomisation.push_every
            )

    def start(self) -> tuple[Array, Array]:
        """The first observations; contacts and heights are those of the default pose."""
        self._heights = np.zeros((self.count, 1 + len(self.robot.legs)), np.float32)
        self._contact = np.zeros((self.count, len(self.robot.legs)), bool)
        return self.observe()


def rotate_back(quaternion: npt.NDArray[np.float64], vector: npt.NDArray[np.float64]) -> Array:
    """World vectors in the frames of bodies whose attitudes are w, x, y, z rows."""
    w, axis = quaternion[:, :1], -quaternion[:, 1:]
    twice = 2.0 * np.cross(axis, vector)
    return np.asarray(vector + w * twice + np.cross(axis, twice), np.float32)
