"""The one harness that walks a policy in process, with the robot's own control code in lockstep.

The gate, `policy check`, benchmarks and reports all drive a simulated robot through it.
"""

import numpy as np

from sim2real_deploy.control.adaptation import open_adaptation
from sim2real_deploy.control.controller import Controller
from sim2real_deploy.control.modes import Mode, ModeEvent
from sim2real_deploy.control.repertoire import Repertoire
from sim2real_deploy.control.stages import load_stage
from sim2real_deploy.errors import Refusal
from sim2real_deploy.gate.lockstep_supervisor import LockstepSupervisor
from sim2real_deploy.policy.bundle import Bundle
from sim2real_deploy.policy.height_grid import HEIGHT_SCAN, flat_scan, height_grid
from sim2real_deploy.robots import JointCommand, RobotState
from sim2real_deploy.robots.geometry import heading, tilt
from sim2real_deploy.safety.chain import CLEAR
from sim2real_deploy.twin.height_scan import PERFECT, HeightScan, ScanErrors
from sim2real_deploy.twin.robot import BaseTruth, TwinRobot, Vector
from sim2real_deploy.wire.in_process import InProcessLink, Tap, Tapped

STAGE = "field"  # no limits beyond the policy's own
FIRST_LOOK = 20  # ticks until a state has arrived on the slowest bus
STAND_UP_S = 6.0  # at most
ALONE_S = 1.0  # that it must stand after its rope was taken off
SUPERVISED_EVERY = 4  # ticks per cycle of the supervisor, which costs half a tick
SEEN_EVERY = 10  # ticks between two samples of the simulator's ground truth
FALLEN_HEIGHT, FALLEN_TILT = 0.5, 1.0  # share of the standing height; rad


class Drive:
    """Controller and, if `supervised`, the supervisor's logic on one simulated robot."""

    def __init__(
        self,
        bundle: Bundle | None,
        robot: TwinRobot,
        stage: str = STAGE,
        supervised: bool = False,
        adaptation: str = "none",
        tap: Tap | None = None,
        scan_errors: ScanErrors = PERFECT,
        policies: Repertoire | None = None,
    ) -> None:
        """Without a bundle the robot does only what needs no policy. `tap` gets every sample on the
        wire. A policy that observes heights gets them with `scan_errors`. `policies`, if given,
        walk instead of the bundle's."""
        self.robot, self.spec = robot, robot.robot
        self.link = InProcessLink(self.spec, robot if tap is None else Tapped(robot, tap))
        limits = load_stage(stage)
        adapts = open_adaptation(self.spec, adaptation, limits.adaptation)
        walks = policies or (None if bundle is None else bundle.open())
        self.controller = Controller(self.spec, limits, walks, adapts)
        grid = None if bundle is None else height_grid(bundle.contract)
        self._scan = None if grid is None else HeightScan(robot.floor, grid, scan_errors)
        self._flat = None if bundle is None or grid is not None else flat_scan(bundle.contract)
        self.controller.situation.sport_released = True
        self.safety = (
            LockstepSupervisor(self.controller, self.link, stage, SUPERVISED_EVERY)
            if supervised
            else None
        )
        self.sent: JointCommand | None = None  # in the last tick
        self._period = 1 / self.spec.wire.rate_hz

    def tick(self) -> RobotState | None:
        state = self.link.wait(self._period)
        seen = self._flat
        if self._scan is not None:
            seen = self._scan.look(self.link.now_ns() / 1e9, self.robot.base_truth)
        if seen is not None:
            self.controller.repertoire.policies[0].give(HEIGHT_SCAN, seen)
        verdict = CLEAR if self.safety is None else self.safety.verdict(state, self.sent)
        self.sent = self.controller.step(state, self.link.now_ns(), verdict)
        if self.sent is not None:
            self.link.send(self.sent)
        return state

    def walk_at(self, velocity: tuple[float, float, float]) -> None:
        self.controller.velocity.offer(*velocity, self.link.now_ns())

    def stand_and_walk(self) -> None:
        """Stand up, hand over to the policy, and wait until a hoist, if any, is off."""
        self.stand()
        self.walk()

    def stand(self) -> None:
        for _ in range(FIRST_LOOK):
            self.tick()
        self.ask(ModeEvent.STAND)
        self.until(Mode.STANDING)

    def start(self) -> None:
        """Hand over to the policy, from standing."""
        self.ask(ModeEvent.WALK)
        self.until(Mode.WALKING)

    def walk(self) -> None:
        """Hand over, and wait until the rope of a hoist is slack. A policy that stands lower than
        the robot's own pose, or marches, would keep it taut: then it is taken off."""
        self.start()
        for _ in range(round(STAND_UP_S / self._period)):
            if not self.robot.hangs:
                return
            self.tick()
        self.robot.unhook()
        for _ in range(round(ALONE_S / self._period)):
            self.tick()
        if self.robot.hangs or fallen(self.robot, self.robot.base_truth):
            raise Refusal("the twin does not stand by itself: it leans into its hoist")

    def ask(self, event: ModeEvent) -> None:
        decision = self.controller.request(event, self.link.now_ns())
        if not decision.accepted:
            raise Refusal(f"the twin would not {event.value}: {decision.words}")

    def until(self, mode: Mode) -> None:
        for _ in range(round(STAND_UP_S / self._period)):
            if self.controller.mode is mode:
                return
            self.tick()
        raise Refusal(f"the twin did not come to {mode.words}: {self.controller.reason}")


def fallen(robot: TwinRobot, truth: BaseTruth) -> bool:
    ground = float(robot.floor.height(*truth.position[:2]))
    low = truth.position[2] - ground < FALLEN_HEIGHT * robot.robot.base_height
    return bool(low or tilt(truth.quaternion) > FALLEN_TILT)


def heading_velocity(truth: BaseTruth) -> Vector:
    """Forward, sideways and turning speed in the robot's heading frame."""
    yaw = heading(truth.quaternion)
    vx, vy, _ = truth.velocity
    forward = vx * np.cos(yaw) + vy * np.sin(yaw)
    left = vy * np.cos(yaw) - vx * np.sin(yaw)
    return np.array([forward, left, truth.rate[2]])
