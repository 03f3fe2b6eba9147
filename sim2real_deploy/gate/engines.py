"""Simulated robots for evaluation, with a physics engine by name."""

from sim2real_deploy.errors import Refusal
from sim2real_deploy.paths import to_install
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.config import Imperfections
from sim2real_deploy.twin.floors import Floor
from sim2real_deploy.twin.physics import MujocoPhysics, Physics
from sim2real_deploy.twin.robot import TwinRobot

FIRST, SECOND = "mujoco", "drake"


def open_robot(
    engine: str, robot: RobotSpec, floor: Floor, imperfections: Imperfections, payload: float = 0.0
) -> TwinRobot:
    """A robot with `payload` kg on its trunk; call `reset(seed)` before use."""
    twin = TwinRobot(robot, floor, imperfections, physics=engine_physics(engine))
    if payload:
        twin.carry(payload)
    return twin


def engine_physics(engine: str) -> type[Physics]:
    """The engine of this name, for a TwinRobot."""
    engines = {FIRST: lambda: MujocoPhysics, SECOND: _drake}
    if engine not in engines:
        raise Refusal(
            f"engine '{engine}': there is none of that name; there are: {', '.join(engines)}"
        )
    return engines[engine]()


def _drake() -> type[Physics]:
    try:
        from sim2real_deploy.gate.drake_physics import DrakePhysics
    except ImportError:
        raise Refusal(f"engine '{SECOND}' is not installed: {to_install(SECOND)}") from None
    return DrakePhysics
