"""Measures what only a real robot can tell: how long its boards hold the last command, whether L2+B
still acts on them, and the delay from a command to its torque.

It only listens. A person silences the stack by hand while the robot stands in its hoist. The
results are stored where control requires them before a robot walks above the lowest stage.
"""

import json
import time
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sim2real_deploy.control.stages import stages_up_to
from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots import JointCommand, RobotSpec, RobotState
from sim2real_deploy.wire.dds_link import DdsLink
from sim2real_deploy.wire.decoders import CommandDecoder
from sim2real_deploy.wire.messages import FAMILIES, LOW_CMD

FILE = "measured.json"
LIMP_RAD = 0.03  # that a hung leg sinks when nothing holds it: within 0.1 s
SILENT_S = 0.02  # without a command: the wire is silent
LONGEST_MS = 30
STEP_MS = 2


@dataclass(frozen=True)
class Measured:
    robot: str
    boards_timeout_s: float | None  # None: they held the last command to the end
    l2b_lets_go: bool | None  # None: not seen, because the boards let go before
    delay_ms: float | None  # from a command to its torque; None: nothing moved
    made: str


@dataclass
class Watched:
    """What was on the wire, with times of this computer's clock in seconds."""

    states: list[tuple[float, RobotState]] = field(default_factory=list)
    commands: list[tuple[float, JointCommand]] = field(default_factory=list)

    def moved(self, since: float) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Times after `since`, and the displacement of the joint that moved most since then."""
        at = [state for when, state in self.states if when <= since]
        after = [(when, state) for when, state in self.states if when > since]
        times = np.array([when for when, _ in after])
        return times, np.array([float(np.abs(state.q - at[-1].q).max()) for _, state in after])


def watch(link: DdsLink, robot: RobotSpec, seconds: float) -> Watched:
    """Listen to both topics for a while."""
    reader = link.participant.reader(LOW_CMD, FAMILIES[robot.wire.family].command)
    decoder, seen = CommandDecoder(robot), Watched()
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        state = link.wait(0.002)
        if state is not None:
            seen.states.append((now, state))
        for sample in reader.take():
            if decoder.flaw(sample.data) is None:
                seen.commands.append((now, decoder.decode(sample.data)))
    return seen


def timeout_s(seen: Watched) -> float | None:
    """Time from the last command to limp legs; None if they held to the end. Refuses a recording
    that shows neither: the wire was never silent, or the legs held nothing."""
    if not seen.commands or not seen.states:
        raise Refusal("nothing was on the wire: start the stack, stand the robot on its hoist")
    last, held = seen.commands[-1]
    if seen.states[-1][0] - last < SILENT_S:
        raise Refusal("the commands never stopped: end control and safety_supervisor with SIGKILL")
    if not held.kp.any() or seen.states[0][0] > last:
        raise Refusal("the last command held nothing: the robot must stand while it is silenced")
    times, moved = seen.moved(last)
    return float(times[moved > LIMP_RAD][0] - last) if (moved > LIMP_RAD).any() else None


def delay_ms(seen: Watched) -> float | None:
    """The age of the command whose PD law best explains the measured torque."""
    if len(seen.commands) < 2 or len(seen.states) < 2:
        return None
    sent = np.array([when for when, _ in seen.commands])
    law = np.array([[c.q, c.dq, c.kp, c.kd, c.torque] for _, c in seen.commands])
    when = np.array([t for t, _ in seen.states])
    q, dq, torque = (
        np.array([getattr(state, name) for _, state in seen.states])
        for name in ("q", "dq", "torque")
    )
    errors = {}
    for late in range(0, LONGEST_MS + 1, STEP_MS):
        index = np.searchsorted(sent, when - late / 1000, side="right") - 1
        known = index >= 0
        target, speed, kp, kd, push = np.moveaxis(law[index[known]], 1, 0)
        expected = kp * (target - q[known]) + kd * (speed - dq[known]) + push
        errors[late] = float(np.sqrt(np.mean((expected - torque[known]) ** 2)))
    worst, best = max(errors.values()), min(errors, key=errors.__getitem__)
    return None if worst - errors[best] < 0.05 * worst else float(best)


def lets_go(pressed: Watched) -> bool:
    """Whether legs that held a stale command sank while L2+B was held."""
    if not pressed.states:
        raise Refusal("no state from the robot: is it still on?")
    _, moved = pressed.moved(pressed.states[0][0])
    return bool((moved > LIMP_RAD).any())


def store(folder: Path, measured: Measured) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    path.write_text(json.dumps(asdict(measured), indent=1) + "\n", encoding="utf-8")
    return path


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def check_measured(stage: str, runs: Path, robot: str) -> None:
    """Above the lowest stage this kind of robot must have been measured."""
    if len(stages_up_to(stage)) == 1:
        return
    path = runs / FILE
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        measured = known["robot"] == robot and "boards_timeout_s" in known
    except (OSError, ValueError, KeyError, TypeError):
        measured = False
    if not measured:
        raise Refusal(
            f"stage '{stage}' on a real robot: nobody has measured what its boards do when "
            f"commands stop ({path}). Hang it up and run `sim2real doctor --measure`"
        )
