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
Vector = npt.NDArray[np.float64]


class Reference(Strict):
    """Nominal figures; what is estimated is compared with them."""

    robot: str
    strength: PerLegJoint  # reported torque by torque asked for, joint by joint down a leg
    supported_kg: float = Field(gt=0)  # mean weight on the feet as joint torques show it
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
        if len(leg.joints) != len(reference.strength):
            raise Refusal(
                f"{path}: strength: {len(reference.strength)} values, leg {name} of {spec.name} "
                f"has {len(leg.joints)} joints"
            )
    return reference
