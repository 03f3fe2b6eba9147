"""The robot that adaptation expects: config/adaptation/<robot>.yaml."""

from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from sim2real_deploy import configfile, paths
from sim2real_deploy.configfile import Strict
from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots import RobotSpec

PerLegJoint = tuple[Annotated[float, Field(gt=0, le=10)], ...]
NotNegative = tuple[Annotated[float, Field(ge=0, le=10)], ...]
Triple = tuple[float, float, float]
Vector = npt.NDArray[np.float64]


PER_LEG = ("strength", "friction", "damping", "armature", "links")  # one for each joint of a leg


class Link(Strict):
    """What a joint of a leg moves, in its own frame; y counts outwards."""

    mass: float = Field(ge=0, le=100)  # kg
    centre: Triple  # m, of mass
    inertia: Triple  # kg m^2, about the centre and the frame's axes


class Reference(Strict):
    """Nominal figures; what is estimated is compared with them. Lists go down a leg."""

    robot: str
    strength: PerLegJoint  # reported torque by torque asked for
    friction: NotNegative  # Nm, dry
    damping: NotNegative  # Nms/rad
    armature: NotNegative  # kg m^2
    links: tuple[Link, ...]
    mass_kg: float = Field(gt=0)  # of the whole robot
    supported_kg: float = Field(gt=0)  # what legs that stand have their torque from
    sources: dict[str, str]

    def strengths(self, spec: RobotSpec) -> Vector:
        """Of every joint, SDK order."""
        values = np.ones(spec.joint_count)
        for leg in spec.legs.values():
            for joint, value in zip(leg.joints, self.strength, strict=True):
                values[spec.joint_names.index(joint)] = value
        return values


def load_reference(spec: RobotSpec) -> Reference:
    path = paths.config_file(f"adaptation/{spec.name}.yaml")
    if not path.is_file():
        raise Refusal(
            f"adaptation: there is no {path} to compare {spec.name} with; use adaptation:=none"
        )
    reference = configfile.load(path, Reference)
    if not spec.legs or any(leg.geometry is None for leg in spec.legs.values()):
        raise Refusal(f"adaptation: {spec.name} has legs of unknown lengths; use adaptation:=none")
    for name, leg in spec.legs.items():
        for field in PER_LEG:
            count = len(getattr(reference, field))
            if len(leg.joints) != count:
                raise Refusal(
                    f"{path}: {field}: {count} values, leg {name} of {spec.name} has "
                    f"{len(leg.joints)} joints"
                )
    return reference
