"""What a twin is made of: motors, sensors, trunk, power, buses.

The defaults describe a perfect robot, so the twin `ideal` is empty and any other lists only its
differences. The figures of real robots are in config/twins (`twin/files.py`).
"""

import math
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from sim2real_deploy.configfile import Strict
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.per_joint import PerJoint, per_joint, times, within


class Heat(Strict):
    """A winding as one thermal mass: heated by torque squared, cooling to ambient."""

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
    """A `PerJoint` value is one number for all joints or one for each."""

    strength: Annotated[PerJoint, within(0.01, 1.5)] = 1.0  # delivered over commanded torque
    weak: dict[str, float] = Field(default_factory=dict)  # by joint: a share of that strength
    delay: Annotated[PerJoint, within(0.0, 0.1)] = 0.0  # s, from a board's receipt of a command
    lag: Annotated[PerJoint, within(0.0, 0.2)] = 0.0  # s, first-order, from command to torque
    # Nms/rad, torque that a board adds along the velocity while it damps (kd above 0).
    speed_feed: Annotated[PerJoint, within(0.0, 0.5)] = 0.0
    # Nm, constant torque that a board adds while it drives (kp or kd above 0).
    torque_bias: Annotated[PerJoint, within(-2.0, 2.0)] = 0.0
    # Nm/rad and Nms/rad: a board cuts kp and kd off to whole steps of this; 0: as sent.
    gain_step: Annotated[PerJoint, within(0.0, 1.0)] = 0.0
    # Fractions of the joint's velocity limit: full torque up to the first, none from the second.
    torque_speed: tuple[float, float] | None = None
    # Of rotor and gear (kg m^2), and viscous (Nms/rad); None: the model's own.
    armature: Annotated[PerJoint, within(0.0, 1.0)] | None = None
    damping: Annotated[PerJoint, within(0.0, 10.0)] | None = None
    friction: Annotated[PerJoint, within(0.0, 5.0)] = 0.0  # Nm, dry
    stribeck: Annotated[PerJoint, within(0.0, 5.0)] = 0.0  # Nm, additional dry friction at rest
    stribeck_speed: float = Field(default=0.1, gt=0)  # rad/s over which it fades
    # rad of motion after a reversal over which dry friction builds up (Dahl); 0: at once.
    presliding: Annotated[PerJoint, within(0.0, 0.1)] = 0.0
    backlash: Annotated[PerJoint, within(0.0, 0.2)] = 0.0  # rad, full play of the gear
    heat: Heat = Heat()

    @model_validator(mode="after")
    def _ordered(self) -> "Motors":
        if self.torque_speed and not 0 < self.torque_speed[0] < self.torque_speed[1]:
            raise ValueError("torque_speed: the two fractions must be above 0 and rise")
        if any(not 0 < share <= 1 for share in self.weak.values()):
            raise ValueError("weak: a share is above 0, to 1")
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_not_there(self, usual: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out terms that are zero and were added after gate results had been stored: the
        digest of a twin without them stays the same, and with it those results."""
        content: dict[str, Any] = usual(self)
        for name in ("speed_feed", "torque_bias", "gain_step", "presliding"):
            if not getattr(self, name):
                content.pop(name, None)
        return content

    def strengths(self, robot: RobotSpec) -> npt.NDArray[np.float64]:
        """The strength of each joint."""
        shares = per_joint(self.weak, robot, "motors.weak", otherwise=1.0)
        return per_joint(self.strength, robot, "motors.strength") * shares

    def scaled(self, strength: float, friction: float) -> "Motors":
        """The same motors with scaled dry friction and strength, at most that of the data sheet."""
        changed = {"strength": times(self.strength, strength, most=1.0)}
        return self.model_copy(update=changed | {"friction": times(self.friction, friction)})


class Encoders(Strict):
    """White noise of each reading, one standard deviation; and its systematic errors."""

    position: float = Field(default=0.0, ge=0)  # rad
    velocity: float = Field(default=0.0, ge=0)  # rad/s
    torque: float = Field(default=0.0, ge=0)  # Nm
    offset: Annotated[PerJoint, within(-0.5, 0.5)] = 0.0  # rad, reading minus true position
    speed_gain: Annotated[PerJoint, within(0.5, 2.0)] = 1.0  # reading over true velocity
    speed_offset: Annotated[PerJoint, within(-0.5, 0.5)] = 0.0  # rad/s, reading at rest
    torque_gain: Annotated[PerJoint, within(0.1, 3.0)] = 1.0  # reported over delivered torque

    @model_serializer(mode="wrap")
    def _without_zero_offset(self, usual: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """As in Motors: keep the digest of twins that are older than this term."""
        content: dict[str, Any] = usual(self)
        if not self.speed_offset:
            content.pop("speed_offset", None)
        return content


class Trunk(Strict):
    """How the trunk differs from the model's."""

    mass: float = Field(default=0.0, ge=-20, le=50)  # kg, added
    com: tuple[float, float, float] = (0.0, 0.0, 0.0)  # m, shift of the centre of mass
    inertia: float = Field(default=1.0, gt=0, le=10)  # times the model's


class Imu(Strict):
    gyro: float = Field(default=0.0, ge=0)  # rad/s, white noise, one standard deviation
    accelerometer: float = Field(default=0.0, ge=0)  # m/s^2, white noise as well
    gyro_bias: float = Field(default=0.0, ge=0)  # rad/s, standard deviation of the initial bias
    gyro_drift: float = Field(default=0.0, ge=0)  # rad/s per root second: random walk of the bias


class Power(Strict):
    resistance: float = Field(default=0.0, ge=0, le=5)  # Ohm: voltage sag per ampere
    capacity: float = Field(default=8.0, gt=0)  # Ah
    charge: float = Field(default=1.0, gt=0, le=1)  # of the pack, when the twin starts
    idle: float = Field(default=1.2, ge=0)  # A, what the electronics draw
    copper: float = Field(default=1.0, ge=0)  # W lost in a motor per Nm^2 it holds


class Bus(Strict):
    """What happens to messages on the way; resolved to whole wire periods of the twin."""

    delay: float = Field(default=0.0, ge=0, le=1)  # s
    jitter: float = Field(default=0.0, ge=0, le=1)  # s, added, uniform from 0 to this
    loss: float = Field(default=0.0, ge=0, lt=1)  # probability of never arriving
    duplication: float = Field(default=0.0, ge=0, lt=1)  # probability of arriving twice

    def wait(self, rate_hz: float) -> float:
        """s until a message is taken: it waits for the next wire period."""
        return math.ceil((self.delay + self.jitter / 2) * rate_hz - 1e-9) / rate_hz

    def without_chance(self) -> "Bus":
        return Bus(delay=self.delay + self.jitter / 2)


class NetworkFile(Strict):
    """A learned network that belongs to a twin (`sim2real learn`, `twin/networks.py`)."""

    file: str  # beside the twin's own file
    digest: str


class Learned(Strict):
    """Learned residuals of the physics."""

    actuator: NetworkFile | None = None  # torque and dry friction beyond the identified motor's
    action: NetworkFile | None = None  # change of the joint targets, for the simulator alone


class Imperfections(Strict):
    motors: Motors = Motors()
    encoders: Encoders = Encoders()
    trunk: Trunk = Trunk()
    imu: Imu = Imu()
    power: Power = Power()
    command_bus: Bus = Bus()  # from the computer to the motors
    state_bus: Bus = Bus()  # and back
    learned: Learned = Learned()
    command_timeout: float = Field(default=0.2, ge=0)  # s without a good command; 0: never damps

    def without_chance(self) -> "Imperfections":
        """The same robot without randomness: no noise, and every message after the mean delay. For
        step-by-step comparison with a recording."""
        quiet = {"position": 0.0, "velocity": 0.0, "torque": 0.0}
        return self.model_copy(
            update={
                "encoders": self.encoders.model_copy(update=quiet),
                "imu": Imu(),
                "command_bus": self.command_bus.without_chance(),
                "state_bus": self.state_bus.without_chance(),
            }
        )
