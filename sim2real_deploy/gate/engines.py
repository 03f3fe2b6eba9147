"""Simulated robots for evaluation: one interface, one physics engine behind each name."""

from typing import Protocol

from sim2real_deploy.errors import Refusal
from sim2real_deploy.paths import to_install
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.config import Imperfections
from sim2real_deploy.twin.disturbances import Push
from sim2real_deploy.twin.faults import Fault
from sim2real_deploy.twin.floors import Floor
from sim2real_deploy.twin.physics import MujocoPhysics, Physics
from sim2real_deploy.twin.robot import BaseTruth, Truth, TwinRobot, Vector
from sim2real_deploy.wire.in_process import Plant

FIRST, SECOND = "mujoco", "drake"


class SimulatedRobot(Plant, Protocol):
    """What evaluation needs beyond the wire. The same seed gives the same run."""

    @property
    def robot(self) -> RobotSpec: ...

    @property
    def floor(self) -> Floor: ...

    @property
    def mass(self) -> float:
        """kg, payload included."""

    @property
    def hangs(self) -> bool:
        """Whether a hoist still holds it."""

    def unhook(self) -> None:
        """Take its hoist's rope off, as the person at the crane does."""

    @property
    def truth(self) -> Truth: ...

    @property
    def base_truth(self) -> BaseTruth: ...

    def reset(self, seed: int) -> None:
        """Lying down at the origin, errors drawn anew, without faults or pushes."""

    def place(self, base: Vector, base_velocity: Vector, q: Vector, dq: Vector) -> None:
        """Set its state: base pose (x, y, z, quaternion w, x, y, z), base velocity (world m/s, body
        rad/s), joints. With z = NaN the lowest foot is put on the floor.
        """

    def push(self, push: Push) -> None: ...

    def inject(self, fault: Fault) -> None: ...


def open_robot(
    engine: str, robot: RobotSpec, floor: Floor, imperfections: Imperfections, payload: float = 0.0
) -> SimulatedRobot:
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
