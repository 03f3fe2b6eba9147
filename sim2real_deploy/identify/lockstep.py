"""Records runs of a twin for identification, as bags, as fast as the machine can: the robot's own
control, limits and safety in lockstep."""

from contextlib import closing
from pathlib import Path

from sim2real_deploy.bags.import_log import EPOCH_NS
from sim2real_deploy.bags.wire_bag import WireBag
from sim2real_deploy.console import Progress
from sim2real_deploy.control.excitation import protocol
from sim2real_deploy.control.modes import Mode, ModeEvent
from sim2real_deploy.errors import Refusal
from sim2real_deploy.gate.drive import Drive
from sim2real_deploy.policy.bundle import Bundle
from sim2real_deploy.twin.robot import TwinRobot
from sim2real_deploy.wire.messages import LOW_CMD

PROGRESS_EVERY = 500  # ticks
SPEEDS = ((0.4, 0.0, 0.0), (0.2, 0.2, 0.4), (-0.3, 0.0, 0.0), (0.0, -0.2, -0.5))
SPEED_TICKS = 1000  # each


class _Recorded(Drive):
    """A supervised drive whose wire goes into a bag; `close` ends the bag."""

    def __init__(self, bundle: Bundle | None, twin: TwinRobot, stage: str, output: Path) -> None:
        self._bag = WireBag(output, twin.robot, {"stage": stage, "twin": "true"})
        super().__init__(bundle, twin, stage, supervised=True, tap=self._record)

    def _record(self, now_ns: int, topic: str, sample: bytes) -> None:
        if topic == LOW_CMD:
            self._bag.command(EPOCH_NS + now_ns + 1, sample)  # after the state it answers
        else:
            self._bag.state(EPOCH_NS + now_ns, sample)

    def close(self) -> None:
        self._bag.close()


def excite(
    twin: TwinRobot, output: Path, minutes: float, gains: tuple[float, float], progress: Progress
) -> None:
    """Excite a robot on its hoist, from lying to damping; a Refusal says what cut it short."""
    with closing(_Recorded(None, twin, "tether", output)) as run:
        run.stand()
        controller = run.controller
        controller.excitation = protocol(*gains, minutes=minutes)
        run.ask(ModeEvent.EXCITE)
        total = sum(part.seconds + 1 for part in controller.excitation) * twin.robot.wire.rate_hz
        ticks = 0
        while controller.mode is Mode.EXCITING:
            run.tick()
            ticks += 1
            if ticks % PROGRESS_EVERY == 0:
                progress(controller.excited_part, min(ticks / total, 1.0))
        if controller.reason != f"asked to {ModeEvent.EXCITE.value}":
            raise Refusal(f"excitation stopped: {controller.reason}")
        run.until(Mode.DAMPING)


def walk(twin: TwinRobot, output: Path, bundle: Bundle, seconds: float) -> None:
    """Stand up and walk at changing speeds."""
    with closing(_Recorded(bundle, twin, "indoor", output)) as run:
        run.stand()
        run.ask(ModeEvent.WALK)
        for tick in range(round(seconds * twin.robot.wire.rate_hz)):
            run.walk_at(SPEEDS[tick // SPEED_TICKS % len(SPEEDS)])
            run.tick()
        if run.controller.mode is not Mode.WALKING:
            raise Refusal(f"the twin did not keep walking: {run.controller.reason}")
