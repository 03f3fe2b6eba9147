"""Runs of a twin that identification learns from, recorded as bags, as fast as the machine can:
the robot's own control, limits and safety in lockstep."""

from collections.abc import Callable
from pathlib import Path

from sim2real_deploy.bags.wire_bag import WireBag
from sim2real_deploy.control.controller import Controller
from sim2real_deploy.control.excitation import protocol
from sim2real_deploy.control.modes import Mode, ModeEvent
from sim2real_deploy.control.stages import load_stage
from sim2real_deploy.errors import Refusal
from sim2real_deploy.gate.lockstep_supervisor import LockstepSupervisor
from sim2real_deploy.policy.bundle import Bundle
from sim2real_deploy.policy.policy import Policy
from sim2real_deploy.robots import JointCommand
from sim2real_deploy.twin.robot import TwinRobot
from sim2real_deploy.wire.in_process import InProcessLink

Progress = Callable[[str, float], None]

STAGE = "tether"
STAND_UP_S = 8.0
FIRST_LOOK = 20  # ticks until control and supervisor have surely seen a state
SUPERVISED_EVERY = 4
EPOCH_NS = 1_700_000_000_000_000_000
TOLD_EVERY = 500  # ticks between two words on progress


class _Tapped:
    """The twin, with every sample that goes in or out written down."""

    def __init__(self, twin: TwinRobot, bag: WireBag) -> None:
        self._twin, self._bag = twin, bag

    def now_ns(self) -> int:
        return self._twin.now_ns()

    def advance(self, command: bytes | None) -> bytes | None:
        if command is not None:
            self._bag.command(EPOCH_NS + self.now_ns() + 1, command)
        state = self._twin.advance(command)
        if state is not None:
            self._bag.state(EPOCH_NS + self.now_ns(), state)
        return state


class LockstepRun:
    """One recorded run; `close` ends its bag."""

    def __init__(
        self, twin: TwinRobot, output: Path, policy: Policy | None, stage: str = STAGE
    ) -> None:
        self.twin = twin
        self._bag = WireBag(output, twin.robot, {"stage": stage, "twin": "true"})
        self.link = InProcessLink(twin.robot, _Tapped(twin, self._bag))
        self.controller = Controller(twin.robot, load_stage(stage), policy)
        self.controller.situation.sport_released = True
        self._safety = LockstepSupervisor(self.controller, self.link, stage, SUPERVISED_EVERY)
        self._sent: JointCommand | None = None
        self._period = 1 / twin.robot.wire.rate_hz
        for _ in range(FIRST_LOOK):
            self.tick()

    def tick(self) -> None:
        state = self.link.wait(self._period)
        verdict = self._safety.verdict(state, self._sent)
        self._sent = self.controller.step(state, self.link.now_ns(), verdict)
        if self._sent is not None:
            self.link.send(self._sent)

    def ask(self, event: ModeEvent) -> None:
        decision = self.controller.request(event, self.link.now_ns())
        if not decision.accepted:
            raise Refusal(f"the twin would not {event.value}: {decision.words}")

    def until(self, mode: Mode, seconds: float) -> None:
        for _ in range(round(seconds / self._period)):
            if self.controller.mode is mode:
                return
            self.tick()
        raise Refusal(f"the twin did not come to {mode.words}: {self.controller.reason}")

    def close(self) -> None:
        self._bag.close()


def excite(
    twin: TwinRobot, output: Path, minutes: float, gains: tuple[float, float], progress: Progress
) -> None:
    """The protocol of the hoist, from lying to damping; a Refusal says what cut it short."""
    run = LockstepRun(twin, output, None)
    try:
        run.ask(ModeEvent.STAND)
        run.until(Mode.STANDING, STAND_UP_S)
        controller = run.controller
        controller.excitation = protocol(*gains, minutes=minutes)
        run.ask(ModeEvent.EXCITE)
        total = sum(part.seconds + 1 for part in controller.excitation) * twin.robot.wire.rate_hz
        ticks = 0
        while controller.mode is Mode.EXCITING:
            run.tick()
            ticks += 1
            if ticks % TOLD_EVERY == 0:
                progress(controller.excited_part, min(ticks / total, 1.0))
        if controller.reason != f"asked to {ModeEvent.EXCITE.value}":
            raise Refusal(f"excitation stopped: {controller.reason}")
        run.until(Mode.DAMPING, STAND_UP_S)
    finally:
        run.close()


def walk(twin: TwinRobot, output: Path, bundle: Bundle, seconds: float) -> None:
    """Stand, walk about at changing speeds, sit."""
    run = LockstepRun(twin, output, bundle.open(), "indoor")
    try:
        run.ask(ModeEvent.STAND)
        run.until(Mode.STANDING, STAND_UP_S)
        run.ask(ModeEvent.WALK)
        speeds = ((0.4, 0.0, 0.0), (0.2, 0.2, 0.4), (-0.3, 0.0, 0.0), (0.0, -0.2, -0.5))
        for tick in range(round(seconds * twin.robot.wire.rate_hz)):
            if tick % 10 == 0:
                now = speeds[tick // 1000 % len(speeds)]
                run.controller.velocity.offer(*now, run.link.now_ns())
            run.tick()
        if run.controller.mode is not Mode.WALKING:
            raise Refusal(f"the twin did not walk on: {run.controller.reason}")
    finally:
        run.close()
