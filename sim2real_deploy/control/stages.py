"""Stages of deployment: limits of speed, torque and joint range, read from stages.yaml."""

from enum import Enum
from pathlib import Path

from pydantic import Field, model_validator

from sim2real_deploy import configfile, paths
from sim2real_deploy.configfile import Strict
from sim2real_deploy.errors import Refusal


class Adapts(str, Enum):
    """What adaptation may correct."""

    NONE = "none"
    STRENGTH = "strength"  # gains
    MRAC = "mrac"  # feed-forward torque
    VELOCITY = "velocity"  # the velocity command
    ALL = "all"

    def within(self, most: "Adapts") -> bool:
        return self in (Adapts.NONE, most) or most is Adapts.ALL


class PlanarLimit(Strict):
    """The largest magnitude of each axis."""

    vx: float = Field(gt=0, le=5)
    vy: float = Field(gt=0, le=5)
    wz: float = Field(gt=0, le=10)


class Stage(Strict):
    description: str
    velocity: PlanarLimit
    acceleration: PlanarLimit
    torque_fraction: float = Field(gt=0, le=1)
    joint_margin: float = Field(ge=0, le=0.5)
    joint_velocity_fraction: float = Field(gt=0, le=1)
    joint_step: float = Field(gt=0, le=1)
    recovery: bool  # may it get up by itself after a fall? Its legs sweep the space around it
    adaptation: Adapts = Adapts.NONE  # the most that may be enabled


class Stages(Strict):
    default: str
    stages: dict[str, Stage]

    @model_validator(mode="after")
    def _default_is_there(self) -> "Stages":
        if self.default not in self.stages:
            raise ValueError(f"default: there is no stage '{self.default}'")
        return self


def load_stage(name: str = "", file: Path | None = None) -> Stage:
    """A stage by name; the file's default if no name is given."""
    source = file or paths.config_file("stages.yaml")
    stages = configfile.load(source, Stages)
    stage = stages.stages.get(name or stages.default)
    if stage is None:
        raise Refusal(f"stage '{name}': not in {source}; there are: {', '.join(stages.stages)}")
    return stage


def default_stage() -> str:
    return configfile.load(paths.config_file("stages.yaml"), Stages).default


def stages_up_to(name: str) -> list[str]:
    """This stage and all below it, lowest first, as ordered in the file."""
    load_stage(name)
    names = list(configfile.load(paths.config_file("stages.yaml"), Stages).stages)
    return names[: names.index(name) + 1]
