"""How far the twin is from a perfect robot: named presets in config/twin.yaml.

The defaults here are the perfect robot, so the preset `ideal` says nothing and every other one
says exactly in what it is worse.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from sim2real_deploy import configfile, paths
from sim2real_deploy.configfile import Strict
from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots import RobotSpec


class Heat(Strict):
    """A winding as one thermal mass: heated by torque squared, cooled towards the air."""

    ambient: float = Field(default=25.0, ge=-20, le=60)  # degrees C
    start: float = Field(default=25.0, ge=-20, le=150)  # degrees C, when the twin starts
    rate: float = Field(default=0.0, ge=0)  # degrees C a second at the joint's full torque
    cooling: float = Field(default=300.0, gt=0)  # s, time constant towards ambient
    derate_from: float = Field(default=90.0)  # degrees C: full torque up to here,
    derate_to: float = Field(default=115.0)  # falling to none here

    @model_validator(mode="after")
    def _ordered(self) -> "Heat":
        if not self.derate_from < self.derate_to:
            raise ValueError("derate_from must be below derate_to")
        return self


class Motors(Strict):
    strength: float = Field(default=1.0, gt=0, le=1.5)  # delivered torque by commanded torque
    weak: dict[str, float] = Field(default_factory=dict)  # by joint: a share of that strength
    lag: float = Field(default=0.0, ge=0, le=0.2)  # s, first-order, from command to torque
    # Fractions of the joint's velocity limit: full torque up to the first, none from the second.
    torque_speed: tuple[float, float] | None = None
    friction: float = Field(default=0.0, ge=0, le=5)  # Nm, dry
    backlash: float = Field(default=0.0, ge=0, le=0.2)  # rad, full play of the gear
    heat: Heat = Heat()

    @model_validator(mode="after")
    def _ordered(self) -> "Motors":
        if self.torque_speed and not 0 < self.torque_speed[0] < self.torque_speed[1]:
            raise ValueError("torque_speed: the two fractions must be above 0 and rise")
        if any(not 0 < share <= 1 for share in self.weak.values()):
            raise ValueError("weak: a share is above 0, to 1")
        return self

    def strengths(self, robot: RobotSpec) -> npt.NDArray[np.float64]:
        """Of each joint."""
        unknown = [name for name in self.weak if name not in robot.joint_names]
        if unknown:
            raise Refusal(f"motors.weak: {robot.name} has no joint {', '.join(unknown)}")
        return np.array([self.strength * self.weak.get(name, 1.0) for name in robot.joint_names])


class Encoders(Strict):
    """White noise of each reading, one standard deviation."""

    position: float = Field(default=0.0, ge=0)  # rad
    velocity: float = Field(default=0.0, ge=0)  # rad/s
    torque: float = Field(default=0.0, ge=0)  # Nm


class Imu(Strict):
    gyro: float = Field(default=0.0, ge=0)  # rad/s, white noise, one standard deviation
    accelerometer: float = Field(default=0.0, ge=0)  # m/s^2, likewise
    gyro_bias: float = Field(default=0.0, ge=0)  # rad/s, spread of the bias at the start
    gyro_drift: float = Field(default=0.0, ge=0)  # rad/s per root second: the bias's random walk


class Power(Strict):
    resistance: float = Field(default=0.0, ge=0, le=5)  # Ohm: the pack's voltage sag by current
    capacity: float = Field(default=8.0, gt=0)  # Ah
    charge: float = Field(default=1.0, gt=0, le=1)  # of the pack, when the twin starts
    idle: float = Field(default=1.2, ge=0)  # A, what the electronics draw
    copper: float = Field(default=1.0, ge=0)  # W lost in a motor per Nm^2 it holds


class Bus(Strict):
    """What happens to messages on the way. Steps of the twin are the finest grain of time."""

    delay: float = Field(default=0.0, ge=0, le=1)  # s
    jitter: float = Field(default=0.0, ge=0, le=1)  # s, added evenly from 0 to this
    loss: float = Field(default=0.0, ge=0, lt=1)  # probability of never arriving
    duplication: float = Field(default=0.0, ge=0, lt=1)  # probability of arriving twice


class Imperfections(Strict):
    motors: Motors = Motors()
    encoders: Encoders = Encoders()
    imu: Imu = Imu()
    power: Power = Power()
    command_bus: Bus = Bus()  # from the computer to the motors
    state_bus: Bus = Bus()  # and back
    command_timeout: float = Field(default=0.2, gt=0)  # s without a good command until damping


class TwinConfig(Strict):
    presets: dict[str, Imperfections]


def load_imperfections(preset: str = "default", file: Path | None = None) -> Imperfections:
    path = file or paths.config_file("twin.yaml")
    presets = configfile.load(path, TwinConfig).presets
    if preset not in presets:
        known = ", ".join(presets)
        raise Refusal(f"{path}: there is no preset '{preset}'; there are: {known}")
    return presets[preset]
