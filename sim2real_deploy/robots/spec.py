"""RobotSpec: the facts about one robot, read from config/robots/<name>.yaml and checked."""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator

from sim2real_deploy import configfile, paths
from sim2real_deploy.configfile import Strict
from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots.state import Floats

# Motor slots in a message of each wire family; a robot uses the first ones.
MOTOR_SLOTS = {"go": 20, "hg": 35}

# Hard bounds that no robot file and no policy can widen. Gains above them are mistakes: a joint
# would reach full torque within FULL_TORQUE_RAD of its target.
FULL_TORQUE_RAD = 0.1
MOST_KD = 10.0  # Nms/rad; walking policies stay below 5 even on the largest joints
LEAST_DAMPING = 0.5  # Nms/rad: with less a leg is not braked
WHEEL_RAD = 1e5  # stands for no limit
HOTTEST_C = 110.0  # upper bound of the winding tiers: above, insulation and magnets are damaged


class Joint(Strict):
    """One motor and the joint it drives. Its index in the list is its index on the wire."""

    name: str
    position: tuple[float, float]  # rad, the range that may be commanded
    stops: tuple[float, float] | None = None  # rad, measured hard stops; None: the same range
    velocity: float = Field(gt=0, le=60)  # rad/s
    torque: float = Field(gt=0, le=400)  # Nm
    stand: float  # rad, the pose it stands in
    sit: float  # rad, the pose it lies down in
    kp: float = Field(ge=0)  # Nm/rad, for standing up and sitting down
    kd: float = Field(ge=0, le=MOST_KD)  # Nms/rad
    damping: float = Field(ge=LEAST_DAMPING, le=MOST_KD)  # Nms/rad, the only gain in damping mode
    wheel: bool = False  # turns without limits and is commanded by velocity

    @model_validator(mode="before")
    @classmethod
    def _endless(cls, content: Any) -> Any:
        if isinstance(content, dict) and content.get("wheel") is True:
            return {"position": (-WHEEL_RAD, WHEEL_RAD), **content}
        return content

    @model_validator(mode="after")
    def _ordered(self) -> "Joint":
        low, high = self.position
        if not low < high:
            raise ValueError(f"position: the lower limit {low} is not below the upper {high}")
        if self.wheel and self.kp:
            raise ValueError(f"kp: {self.kp}, but a wheel is commanded by velocity alone")
        if not self.wheel and (low < -7.0 or high > 7.0):
            raise ValueError(f"position: [{low}, {high}] is more than a turn to either side")
        first, last = self.stops or self.position
        if not (low - 0.3 <= first <= low and high <= last <= high + 0.3):
            raise ValueError(f"stops: [{first}, {last}] must enclose position by at most 0.3 rad")
        if self.kp > self.torque / FULL_TORQUE_RAD:
            raise ValueError(f"kp: {self.kp} is more than {self.torque / FULL_TORQUE_RAD:.4g}")
        for pose, value in (("stand", self.stand), ("sit", self.sit)):
            if not low <= value <= high:
                raise ValueError(f"{pose}: {value} is outside position [{low}, {high}]")
        return self


Vector3 = tuple[float, float, float]


class LegGeometry(Strict):
    """A leg as a chain of hinges; at zero angles all frames are parallel to the trunk's."""

    origins: tuple[Vector3, ...]  # m, of each joint in its parent's frame, the foot's centre last
    axes: tuple[Literal["x", "y", "z"], ...]
    foot_radius: float = Field(gt=0)  # m


class Leg(Strict):
    joints: tuple[str, ...]  # from the trunk down
    foot: str  # the foot's geom in the model
    geometry: LegGeometry | None = None  # without it there is no leg odometry

    @model_validator(mode="after")
    def _fits(self) -> "Leg":
        shape, joints = self.geometry, len(self.joints)
        if shape and (len(shape.axes), len(shape.origins)) != (joints, joints + 1):
            raise ValueError(f"geometry: {joints} axes and {joints + 1} origins are needed")
        return self


class Body(Strict):
    """A body connected to the base by hinges; at zero angles all frames are parallel."""

    joints: tuple[str, ...] = ()  # from the base outwards; none: the base itself
    axes: tuple[Literal["x", "y", "z"], ...] = ()

    @model_validator(mode="after")
    def _fits(self) -> "Body":
        if len(self.axes) != len(self.joints):
            raise ValueError(f"axes: {len(self.axes)} for {len(self.joints)} joints")
        return self


class Wire(Strict):
    family: Literal["go", "hg"]
    rate_hz: float = Field(gt=0)  # of both rt/lowstate and rt/lowcmd


class Temperature(Strict):
    """Motor winding temperature tiers, degrees C."""

    warn: float = Field(ge=20)
    derate: float
    sit: float
    stop: float = Field(le=HOTTEST_C)

    @model_validator(mode="after")
    def _ordered(self) -> "Temperature":
        if not self.warn < self.derate < self.sit < self.stop:
            raise ValueError("the tiers must rise: warn < derate < sit < stop")
        return self


class Battery(Strict):
    cells: int = Field(gt=0)
    full_v: float = Field(gt=0)
    empty_v: float = Field(gt=0)
    warn_percent: int = Field(ge=0, le=100)
    stop_percent: int = Field(ge=0, le=100)
    cell_imbalance_v: float = Field(gt=0)

    @model_validator(mode="after")
    def _ordered(self) -> "Battery":
        if not self.empty_v < self.full_v:
            raise ValueError(f"empty_v {self.empty_v} is not below full_v {self.full_v}")
        if not self.stop_percent < self.warn_percent:
            raise ValueError("stop_percent must be below warn_percent")
        return self


class RollFrame(Strict):
    """A pose of the roll from the back onto the belly: hip (outwards), thigh and calf, rad."""

    lower: Vector3  # legs on the side it rolls to
    upper: Vector3  # the others
    seconds: float = Field(gt=0, le=5)  # to reach it


def _joint_array(value_of: Callable[[Joint], float]) -> "cached_property[Floats]":
    """A property of the spec: one value per joint, read-only and made once."""

    def of(spec: "RobotSpec") -> Floats:
        array = np.array([value_of(joint) for joint in spec.joints], np.float32)
        array.setflags(write=False)
        return array

    return cached_property(of)


class RobotSpec(Strict):
    """Everything the stack knows about a robot. Arrays are in SDK order."""

    name: str
    title: str
    model: str  # MJCF file of the twin
    joint_count: int = Field(gt=0)  # redundant on purpose: a missing row is noticed
    base_height: float = Field(gt=0)  # m, trunk above the ground when standing
    put_down: Literal["sit", "gantry"] = "sit"  # at the end: lies down, or is lowered on a rope
    twin_only: str = ""  # why this file may not drive a real robot; "" if it may
    wire: Wire
    joints: tuple[Joint, ...]
    legs: dict[str, Leg]
    bodies: dict[str, Body] = Field(default_factory=dict)  # motions are compared at one of them
    joint_orders: dict[str, tuple[str, ...]] = Field(default_factory=dict)  # of known policies
    poses: dict[str, tuple[float, ...]] = Field(default_factory=dict)  # default poses, by project
    # Ratios by joint, or by an ending that several share. Only identification uses them, so no
    # stored gate result depends on them.
    gears: dict[str, float] = Field(default_factory=dict, exclude=True)
    get_up: tuple[RollFrame, ...] | None = None  # how it rolls over; None: not known
    temperature: Temperature
    battery: Battery
    sources: dict[str, str]  # where each group of facts comes from

    @model_validator(mode="after")
    def _whole(self) -> "RobotSpec":
        names = [joint.name for joint in self.joints]
        if len(names) != self.joint_count:
            raise ValueError(f"joints: {len(names)} rows, but joint_count is {self.joint_count}")
        if len(set(names)) != len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise ValueError(f"joints: named more than once: {', '.join(twice)}")
        if len(names) > MOTOR_SLOTS[self.wire.family]:
            raise ValueError(
                f"joints: {len(names)} do not fit the {MOTOR_SLOTS[self.wire.family]} motor slots "
                f"of wire family '{self.wire.family}'"
            )
        for group, chains in (("legs", self.legs), ("bodies", self.bodies)):
            for key, chain in chains.items():
                for name in chain.joints:
                    if name not in names:
                        raise ValueError(f"{group}.{key}.joints: there is no joint '{name}'")
        for order, joints in self.joint_orders.items():
            if sorted(joints) != sorted(names):
                raise ValueError(f"joint_orders.{order}: must name every joint once")
        for pose, angles in self.poses.items():
            if len(angles) != len(names):
                raise ValueError(f"poses.{pose}: {len(angles)} values for {len(names)} joints")
        for group in ("joints", "legs", "wire", "temperature", "battery"):
            if not self.sources.get(group):
                raise ValueError(f"sources.{group}: every group of facts names its source")
        return self

    @cached_property
    def joint_names(self) -> tuple[str, ...]:
        return tuple(joint.name for joint in self.joints)

    @cached_property
    def wheels(self) -> tuple[int, ...]:
        """Indices of the joints that are wheels; most robots have none."""
        return tuple(place for place, joint in enumerate(self.joints) if joint.wheel)

    position_low = _joint_array(lambda joint: joint.position[0])
    position_high = _joint_array(lambda joint: joint.position[1])
    stop_low = _joint_array(lambda joint: (joint.stops or joint.position)[0])
    stop_high = _joint_array(lambda joint: (joint.stops or joint.position)[1])
    velocity_limit = _joint_array(lambda joint: joint.velocity)
    torque_limit = _joint_array(lambda joint: joint.torque)
    stand_pose = _joint_array(lambda joint: joint.stand)
    sit_pose = _joint_array(lambda joint: joint.sit)
    kp = _joint_array(lambda joint: joint.kp)
    kd = _joint_array(lambda joint: joint.kd)
    damping = _joint_array(lambda joint: joint.damping)

    @cached_property
    def foot_names(self) -> tuple[str, ...]:
        return tuple(leg.foot for leg in self.legs.values())


def load_robot(name: str | Path) -> RobotSpec:
    """A robot by its name in config/robots, or by the path of a file of that form."""
    path = Path(name)
    if path.suffix != ".yaml":
        path = paths.config_file(f"robots/{name}.yaml")
        if not path.is_file():
            known = ", ".join(sorted(file.stem for file in path.parent.glob("*.yaml")))
            raise Refusal(f"robot '{name}': no {path.name} in {path.parent}; there are: {known}")
    return configfile.load(path, RobotSpec)
