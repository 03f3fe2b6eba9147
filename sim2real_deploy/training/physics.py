"""Many robots' physics in one batch: a model and a state for each, stepped by `mujoco.rollout`.

One thread: the workers of a run are processes. What is read most (place, attitude, speeds,
joints) are views into the batch's state, so writing to them moves the robots.
"""

import copy

import mujoco
import numpy as np
import numpy.typing as npt
from mujoco import rollout

from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.robots.geometry import to_body_rows
from sim2real_deploy.training import randomisation
from sim2real_deploy.training.config import TrainingConfig
from sim2real_deploy.training.ground import Ground
from sim2real_deploy.training.learned import open_actuator, open_delta
from sim2real_deploy.training.model import training_model
from sim2real_deploy.training.nominal import load_nominal
from sim2real_deploy.training.randomisation import Drawn
from sim2real_deploy.training.rewards import Array
from sim2real_deploy.training.terrain import make_tiles
from sim2real_deploy.twin.per_joint import per_joint

Array64 = npt.NDArray[np.float64]

STATE = mujoco.mjtState.mjSTATE_FULLPHYSICS
SENSORS = {"touch": 1, "position": 3, "velocity": 3, "knee": 3}  # of each leg: how many numbers
FREE_Q, FREE_V = 7, 6  # coordinates of a free trunk


class BatchPhysics:
    def __init__(self, config: TrainingConfig, robot: RobotSpec, count: int, seed: int):
        self._control = config.control
        tiles = make_tiles(config.terrain, seed)
        boxes = max(len(tile.boxes) for tile in tiles)
        self.nominal = load_nominal(config.twin, robot)
        self.plain = [training_model(robot, config, self.nominal, tile, boxes) for tile in tiles]
        self.ground = Ground(tiles)
        model = self.plain[0]
        self.models = [copy.copy(model) for _ in range(count)]
        self.tile = np.zeros(count, np.int64)  # which one each model has
        gain = per_joint(config.control.gain, robot, "control.gain", otherwise=1.0)
        self.drawn = Drawn(count, len(robot.joints), model.nbody, self.nominal, gain)
        self._actuator = open_actuator(robot, config.control, self.nominal, self.drawn)
        self._delta = open_delta(robot, self.nominal)
        self._data = mujoco.MjData(model)
        self._rollout = rollout.Rollout(nthread=1)
        steps = self._actuator.steps if self._actuator else config.control.substeps
        self._states = np.zeros((count, steps, mujoco.mj_stateSize(model, STATE)))
        self._sensed = np.zeros((count, steps, model.nsensordata))
        self.state = np.zeros((count, self._states.shape[2]))
        q, v = 1, 1 + model.nq  # time comes first
        self.poses = self.state[:, q:v]
        self.position = self.state[:, q : q + 3]
        self.quaternion = self.state[:, q + 3 : q + FREE_Q]
        self.q = self.state[:, q + FREE_Q : v]
        self.velocity = self.state[:, v : v + 3]  # in the world
        self.turning = self.state[:, v + 3 : v + FREE_V]  # in the trunk's own frame
        self.dq = self.state[:, v + FREE_V : v + model.nv]
        self._places = {
            name: [model.sensor(f"{leg}_{name}").adr[0] for leg in robot.legs] for name in SENSORS
        }

    def rebuild(self, env: int, tile: int) -> None:
        """Give one robot its terrain and the values drawn for it."""
        plain = self.plain[tile]
        if self.tile[env] != tile:
            self.models[env] = copy.copy(plain)
            self.tile[env] = tile
        randomisation.apply(self.models[env], plain, self._data, self.drawn, env, self._control)
        if self._actuator:
            self._actuator.rebuilt(env, self.models[env])

    def place(
        self,
        env: int,
        height: float,
        attitude: Array64,
        q: Array64,
        speed: Array64,
        at: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        """Place a robot above the highest ground near it; attitude is roll, pitch, yaw."""
        self.state[env] = 0
        ground = self.ground.highest(int(self.tile[env]), *at)
        self.position[env] = *at, ground + height
        mujoco.mju_euler2Quat(self.quaternion[env], attitude, "xyz")
        self.q[env] = q
        self.velocity[env] = speed[:3]
        self.turning[env] = speed[3:]

    def advance(self, targets: Array64) -> None:
        """One control step; targets: robots x physics steps x joints."""
        if self._delta:
            moving = self.q, self.dq, self.turning, self.quaternion
            targets = self._delta.shift(targets, *moving)
        steps = self._states.shape[1]
        for first in range(0, targets.shape[1], steps):
            now = targets[:, first : first + steps]
            if self._actuator:
                now = self._actuator.shift(now, self.q, self.dq)
            self._roll(now)

    def _roll(self, targets: Array64) -> None:
        self._rollout.rollout(
            self.models,
            [self._data],
            self.state,
            targets,
            skip_checks=True,
            nstep=targets.shape[1],
            state=self._states,
            sensordata=self._sensed,
        )
        self.state[:] = self._states[:, -1]

    def sensed(self, name: str) -> Array64:
        """A sensor of every leg: robots x legs x numbers. It lags the state by a physics step."""
        now, size = self._sensed[:, -1], SENSORS[name]
        return np.stack([now[:, at : at + size] for at in self._places[name]], 1)

    def forward(self) -> Array64:
        """Where each robot faces on the map: robots x 2."""
        w, x, y, z = self.quaternion.T
        yaw = np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
        return np.stack([np.cos(yaw), np.sin(yaw)], 1)

    def in_body(self, vectors: Array64) -> Array:
        """World vectors, a row for each robot, as its trunk sees them."""
        return to_body_rows(self.quaternion, vectors).astype(np.float32)
