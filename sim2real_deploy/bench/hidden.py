"""Random robots for identification to find, some with effects that its model lacks."""

from dataclasses import dataclass
from typing import Any, ClassVar

import mujoco
import numpy as np
import numpy.typing as npt

from sim2real_deploy.identify.figures import JointFigures, figures_of
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.config import Imperfections, Trunk
from sim2real_deploy.twin.files import load_imperfections
from sim2real_deploy.twin.mount import Mount
from sim2real_deploy.twin.per_joint import named
from sim2real_deploy.twin.physics import MujocoPhysics

Array = npt.NDArray[np.float64]

FREE = 6  # degrees of freedom of the trunk
LAGGING = 0.5  # share of the robots whose motors lag
MOST_MASS, MOST_COM = 2.0, 0.05  # kg (30 % of the trunk) and m, more or less than the model's
CALF_FRICTION = 2.0  # Nm, the most; hips and thighs half of it


@dataclass(frozen=True, slots=True)
class HiddenRobot:
    twin: Imperfections
    mount: Mount
    truth: JointFigures
    physics: type[MujocoPhysics] = MujocoPhysics
    term: str = ""  # effect that the fitted model lacks


class _Unmodelled(MujocoPhysics):
    """Adds `effect` to the torques at the joints in every physics step."""

    steps: ClassVar[int] = 2

    def step(self, count: int) -> None:
        for _ in range(count):
            self._data.qfrc_applied[FREE:] = self.effect(self._data)
            mujoco.mj_step(self._model, self._data)

    def effect(self, data: Any) -> Array:
        raise NotImplementedError


class LoadFriction(_Unmodelled):
    """Gear friction that grows with the load."""

    share: ClassVar[float] = 0.2

    def effect(self, data: Any) -> Array:
        load = np.abs(data.qfrc_actuator[FREE:])
        return np.asarray(-self.share * load * np.tanh(data.qvel[FREE:] / 0.05))


class SoftStop(_Unmodelled):
    """A rubber stop for the calves, well before the end of their range."""

    begins: ClassVar[float] = -1.7  # rad
    stiffness: ClassVar[float] = 20.0  # Nm/rad

    def effect(self, data: Any) -> Array:
        q = data.qpos[FREE + 1 :]
        is_calf = np.arange(len(q)) % 3 == 2
        return np.asarray(self.stiffness * np.maximum(self.begins - q, 0.0) * is_calf)


class Ripple(_Unmodelled):
    """Cogging torque of the motors."""

    size: ClassVar[float] = 0.6  # Nm
    periods: ClassVar[float] = 15.0  # per radian

    def effect(self, data: Any) -> Array:
        return np.asarray(self.size * np.sin(self.periods * data.qpos[FREE + 1 :]))


UNKNOWN = {
    "friction that grows with the load": LoadFriction,
    "stop": SoftStop,
    "ripple": Ripple,
}
SEEN_AT = {"stop": "calf_joint"}  # ending of the joints that have the term; else all do


def draw(robot: RobotSpec, seed: int, unknown: str = "") -> HiddenRobot:
    """A robot with random figures, within bounds that hold for every published one of its kind."""
    rng = np.random.default_rng(seed)
    start = load_imperfections("default", robot.name)
    nominal, joints = figures_of(start, robot), robot.joint_count

    most = np.where(np.arange(joints) % 3 == 2, CALF_FRICTION, CALF_FRICTION / 2)
    lag = rng.uniform(0.0, 0.03, joints) if rng.random() < LAGGING else np.zeros(joints)
    motors = start.motors.model_copy(
        update={
            "strength": named(robot, rng.uniform(0.6, 1.3, joints)),
            "delay": round(rng.uniform(0, 18)) * 1e-3,
            "lag": named(robot, lag),
            "armature": named(robot, nominal.armature * rng.uniform(0.3, 3.0, joints)),
            "damping": named(robot, rng.uniform(0.0, 1.0, joints)),
            "friction": named(robot, rng.uniform(0.0, 1.0, joints) * most),
        }
    )
    offset = named(robot, rng.uniform(-0.08, 0.08, joints))
    encoders = start.encoders.model_copy(update={"offset": offset})
    trunk = _trunk(rng)
    twin = start.model_copy(update={"motors": motors, "encoders": encoders, "trunk": trunk})
    roll, pitch = rng.uniform(-0.2, 0.2, 2).tolist()
    mount = Mount(kind="fixed", roll=roll, pitch=pitch)
    physics = UNKNOWN.get(unknown, MujocoPhysics)
    return HiddenRobot(twin, mount, figures_of(twin, robot), physics, unknown)


def _trunk(rng: np.random.Generator) -> Trunk:
    mass = float(rng.uniform(-MOST_MASS, MOST_MASS))
    return Trunk(mass=mass, com=tuple(rng.uniform(-MOST_COM, MOST_COM, 3).tolist()))


def draw_walker(robot: RobotSpec, seed: int) -> HiddenRobot:
    """Motor strength and delay as far as a policy can still walk, random mass and centre of mass of
    the trunk; everything else as in the shipped twin."""
    rng = np.random.default_rng(seed)
    start = load_imperfections("default", robot.name)
    strength = rng.uniform(0.8, 1.15, robot.joint_count)
    changes = {"strength": named(robot, strength), "delay": round(rng.uniform(0, 14)) * 1e-3}
    motors = start.motors.model_copy(update=changes)
    twin = start.model_copy(update={"motors": motors, "trunk": _trunk(rng)})
    return HiddenRobot(twin, Mount(), figures_of(twin, robot))
