"""How the trunk is held: free, clamped to a stand, or hanging from four ropes, legs in the air."""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from sim2real_deploy.configfile import Strict
from sim2real_deploy.twin.model import BASE

_CLAMPED = 1e6  # kg and kg m^2; with far more MuJoCo's solver does not converge on dry friction
_CLAMP_DAMPING = 1e9  # Ns/m and Nms/rad: the robot's weight moves it by micrometres in minutes
_CORNERS = [(x, y) for x in (0.2, -0.2) for y in (0.06, -0.06)]  # m, where the ropes are tied
_ABOVE = 0.05  # m above the trunk's centre
_ROPE = 0.6  # m
_SWAY_DAMPING = 2.0  # Ns/m and Nms/rad of ropes and straps


class Mount(Strict):
    kind: Literal["free", "fixed", "hung"] = "free"
    roll: float = Field(default=0.0, ge=-1, le=1)  # rad, of the trunk as it is held
    pitch: float = Field(default=0.0, ge=-1, le=1)
    height: float = Field(default=0.8, gt=0, le=5)  # m: the feet are off the ground

    @property
    def pose(self) -> npt.NDArray[np.float64]:
        """x, y, z and w, x, y, z of the held trunk."""
        r, p = self.roll / 2, self.pitch / 2
        turn = np.cos(p) * np.cos(r), np.cos(p) * np.sin(r), np.sin(p) * np.cos(r)
        return np.array((0, 0, self.height, *turn, -np.sin(p) * np.sin(r)))

    def add(self, spec: Any) -> None:
        """Add ropes, each with its length in the intended pose."""
        if self.kind != "hung":
            return
        for number, (x, y) in enumerate(_CORNERS):
            at = np.array((x, y, _ABOVE))
            spec.body(BASE).add_site(name=f"rope_{number}", pos=at, group=5)
            above = self._in_world(at) + np.array((0, 0, _ROPE))
            top = spec.worldbody.add_site(name=f"beam_{number}", pos=above, group=5)
            rope = spec.add_tendon(name=f"rope_{number}", limited=True, range=[0, _ROPE])
            rope.wrap_site(top.name)
            rope.wrap_site(f"rope_{number}")

    def hold(self, model: Any) -> None:
        """Clamp the compiled model's trunk, or slow its swinging."""
        if self.kind == "fixed":
            model.dof_armature[:6] = _CLAMPED
            model.dof_damping[:6] = _CLAMP_DAMPING
        elif self.kind == "hung":
            model.dof_damping[:6] = _SWAY_DAMPING

    def _in_world(self, at: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        w, axis = self.pose[3], self.pose[4:]
        turn = 2 * np.cross(axis, at)
        return np.asarray(at + w * turn + np.cross(axis, turn) + self.pose[:3])
