"""Changes to a robot while it walks, unknown to its controller."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.config import Imperfections
from sim2real_deploy.twin.files import load_imperfections
from sim2real_deploy.twin.per_joint import named
from sim2real_deploy.twin.robot import TwinRobot

Apply = Callable[[TwinRobot, float], None]  # a robot, and the progress of the change, 0 to 1


@dataclass(frozen=True, slots=True)
class HiddenChange:
    """`strength` and `payload_kg` are the values that an estimator should find."""

    name: str
    apply: Apply
    seconds: float = 0.0  # duration of the change
    strength: dict[str, float] | None = None  # by ending of joint names, relative to before
    payload_kg: float = 0.0
    judged: bool = True  # False: beyond adaptation's bounds, only reported

    def strengths(self, spec: RobotSpec) -> np.ndarray:
        """The strength of each joint, relative to before."""
        return _by_ending(self.strength or {}, spec)


def _by_ending(values: dict[str, float], spec: RobotSpec) -> np.ndarray:
    found = [
        next((value for ending, value in values.items() if joint.endswith(ending)), 1.0)
        for joint in spec.joint_names
    ]
    return np.array(found)


def weaken(by_joint: dict[str, float]) -> Apply:
    def apply(robot: TwinRobot, done: float) -> None:
        before = robot.imperfections.motors.strengths(robot.robot)
        now = 1.0 + done * (_by_ending(by_joint, robot.robot) - 1.0)
        robot.boards.weaken(before * now)

    return apply


def carry(kg: float) -> Apply:
    return lambda robot, done: robot.carry(kg)


def add_friction(leg: str, times: float) -> Apply:
    """Dry friction of one leg's joints."""

    def apply(robot: TwinRobot, done: float) -> None:
        names = robot.robot.joint_names
        robot.motors.rub([names.index(joint) for joint in robot.robot.legs[leg].joints], times)

    return apply


def weak(
    name: str, by_joint: dict[str, float], seconds: float = 0.0, judged: bool = True
) -> HiddenChange:
    return HiddenChange(name, weaken(by_joint), seconds, by_joint, judged=judged)


def loaded(kg: float, judged: bool = True) -> HiddenChange:
    return HiddenChange(f"{kg:g} kg on the trunk", carry(kg), payload_kg=kg, judged=judged)


NOTHING = HiddenChange("nothing", lambda robot, done: None)
CHANGES = (
    weak("one calf at 0.8", {"FR_calf_joint": 0.8}),
    weak("all motors sag to 0.85 in 60 s", {"joint": 0.85}, seconds=60.0),
    HiddenChange("dry friction x3 on one leg", add_friction("FR", 3.0)),
    loaded(3.0),
    weak("one calf at 0.7", {"FR_calf_joint": 0.7}, judged=False),
    loaded(5.0, judged=False),
)


def hidden_imperfections(spec: RobotSpec, seed: int) -> Imperfections:
    """The default twin with sticking joints and encoder offsets, unknown to any estimator."""
    rng = np.random.default_rng([seed, 7])
    made = load_imperfections(robot=spec.name)
    offsets = named(spec, rng.uniform(-0.01, 0.01, spec.joint_count))
    return Imperfections.model_validate(
        made.model_dump()
        | {
            "motors": made.motors.model_dump() | {"stribeck": 0.1},
            "encoders": made.encoders.model_dump() | {"offset": offsets},
        }
    )


def hidden_robot(spec: RobotSpec, seed: int) -> TwinRobot:
    robot = TwinRobot(spec, imperfections=hidden_imperfections(spec, seed), seed=seed)
    robot.reset(seed)
    return robot
