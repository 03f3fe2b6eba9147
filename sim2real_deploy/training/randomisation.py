"""What differs from episode to episode: drawn from the config's ranges, put into a MuJoCo model.

How much of each range is in force adapts to how well the policy does (`AdaptiveWidth`).
"""

from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from sim2real_deploy.training.config import Control, Randomisation, Width
from sim2real_deploy.training.nominal import Nominal
from sim2real_deploy.twin.model import BASE

Array = npt.NDArray[np.float64]

# What a value is where nothing is randomised; the ranges of the config are widened from here.
NOMINAL = {
    "friction": 0.8,
    "restitution": 0.0,
    "payload": 0.0,
    "link_mass": 1.0,
    "centre_of_mass": 0.0,
    "motor_strength": 1.0,
    "kp": 1.0,
    "kd": 1.0,
    "joint_damping": 1.0,
    "joint_friction": 1.0,
    "armature": 1.0,
    "joint_offset": 0.0,
    "delay": 0.0,
    "gravity_tilt": 0.0,
}
CONTACT_TIME = 0.02  # s, MuJoCo's own softness of contacts


@dataclass(slots=True)
class AdaptiveWidth:
    """Widens the ranges while the policy succeeds, narrows them while it fails."""

    settings: Width
    value: float
    finished: float = 0.0
    succeeded: float = 0.0

    def count(self, finished: float, succeeded: float) -> None:
        self.finished += finished
        self.succeeded += succeeded
        if self.finished < self.settings.episodes:
            return
        success = self.succeeded / self.finished
        if success > self.settings.widen_above:
            self.value = min(1.0, self.value + self.settings.step)
        elif success < self.settings.narrow_below:
            self.value = max(self.settings.least, self.value - self.settings.step)
        self.finished = self.succeeded = 0.0


class Drawn:
    """The randomised values of every environment, one row each."""

    def __init__(
        self, count: int, joints: int, bodies: int, nominal: Nominal, gain: Array | float = 1.0
    ):
        """`gain` multiplies kp and kd, all alike or joint by joint."""
        self.gain = np.broadcast_to(np.float64(gain), (joints,))
        self.nominal = NOMINAL | {"delay": nominal.delay}
        self._strength, self._offset = nominal.strength, nominal.offset
        wide = {
            "link_mass": bodies,
            "centre_of_mass": 3,
            "joint_damping": joints,
            "joint_friction": joints,
            "armature": joints,
            "joint_offset": joints,
            "kp": joints,
            "kd": joints,
            "gravity_tilt": 2,
        }
        self.values = {
            name: np.full((count, wide.get(name, 1)), nominal)
            for name, nominal in self.nominal.items()
        }

    @property
    def strength(self) -> Array:
        """Of every joint: the twin's, times what was drawn."""
        return self.values["motor_strength"] * self._strength

    @property
    def offset(self) -> Array:
        """Of every joint's reading (rad): the twin's, and what was drawn beside it."""
        return self.values["joint_offset"] + self._offset

    def __getitem__(self, name: str) -> Array:
        return self.values[name]

    def draw(self, env: int, ranges: Randomisation, width: float, rng: np.random.Generator) -> None:
        """Triangular: most draws are near the nominal value, where tracking matters most."""
        for name, values in self.values.items():
            low, high = getattr(ranges, name)
            middle = min(max(self.nominal[name], low), high)
            least, most = middle + width * (low - middle), middle + width * (high - middle)
            if least < most:
                values[env] = rng.triangular(least, middle, most, values.shape[1])
            else:
                values[env] = middle


def apply(model: Any, plain: Any, data: Any, drawn: Drawn, env: int, control: Control) -> None:
    """Apply one environment's values to `model`, a copy of `plain`."""
    base = model.body(BASE).id
    dofs = slice(6, None)
    floor = model.geom_bodyid == 0
    model.geom_friction[floor, 0] = drawn["friction"][env, 0]
    model.geom_solref[floor] = CONTACT_TIME, 1.0 - drawn["restitution"][env, 0]
    scale = drawn["link_mass"][env]
    model.body_mass[:] = plain.body_mass * scale
    loaded = model.body_mass[base] + drawn["payload"][env, 0]
    model.body_inertia[:] = plain.body_inertia * scale[:, None]
    model.body_inertia[base] *= loaded / model.body_mass[base]
    model.body_mass[base] = loaded
    model.body_ipos[base] = plain.body_ipos[base] + drawn["centre_of_mass"][env]
    model.dof_damping[dofs] = plain.dof_damping[dofs] * drawn["joint_damping"][env]
    model.dof_armature[dofs] = plain.dof_armature[dofs] * drawn["armature"][env]
    model.dof_frictionloss[dofs] = plain.dof_frictionloss[dofs] * drawn["joint_friction"][env]
    strength = drawn.strength[env]
    model.actuator_gainprm[:, 0] = control.kp * drawn.gain * drawn["kp"][env] * strength
    model.actuator_biasprm[:, 1] = -model.actuator_gainprm[:, 0]
    model.actuator_biasprm[:, 2] = -control.kd * drawn.gain * drawn["kd"][env] * strength
    model.actuator_forcerange[:] = plain.actuator_forcerange * strength[:, None]
    roll, pitch = drawn["gravity_tilt"][env]
    model.opt.gravity[:] = np.array([pitch, -roll, -1.0]) * 9.81
    mujoco.mj_setConst(model, data)
