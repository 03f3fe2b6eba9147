"""From a command to its effect: `--help` printed, a robot that may stand.

The stack of `make walk` starts on a free domain, and its operator repeats the request to stand
until control accepts it: that moment counts. The first start after an installation also compiles
the loops, so one start is made before those that count.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from statistics import median

from sim2real_deploy.bench.conduct import BenchResult
from sim2real_deploy.checks import Check
from sim2real_deploy.console import Progress
from sim2real_deploy.errors import Refusal

HELP_S = 0.25
STAND_S = 4.0
COMMAND = (sys.executable, "-c", "from sim2real_deploy.cli import main; main()")
WALK = ("up", "walk_programme", "domain:=free", "stage:=indoor", "duration:=1")
STANDS = "standing_up (asked to stand)"
PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds until each node's first line, and until the robot may stand."""

    nodes_s: dict[str, float]
    stand_s: float
    cpu_s: float  # of all processes, until they have ended


def run(times: int, progress: Progress) -> BenchResult:
    helps, starts = [], []
    for turn in range(times + 1):
        progress("start" if turn else "warming up", turn / (times + 1))
        helps.append(_help_s())
        starts.append(_start())
    progress("done", 1.0)
    return judge(helps[1:], starts[1:])


def judge(helps: list[float], starts: list[Start]) -> BenchResult:
    checks = [
        Check.at_most("--help", median(helps), HELP_S, "s"),
        Check.at_most("up to `may stand`", median(start.stand_s for start in starts), STAND_S, "s"),
    ]
    rows = [
        (name, *(start.nodes_s.get(name, float("nan")) for start in starts))
        for name in starts[0].nodes_s
    ]
    rows.append(("may stand", *(start.stand_s for start in starts)))
    rows.append(("CPU of all, to the end", *(start.cpu_s for start in starts)))
    rows.append(("--help", *helps))
    raw = {"help_s": helps, "starts": [asdict(start) for start in starts]}
    columns = ("s after the command", *(f"start {k + 1}" for k in range(len(starts))))
    return BenchResult("bench startup", checks, raw, columns, rows)


def _help_s() -> float:
    start = time.monotonic()
    subprocess.run([*COMMAND, "--help"], stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - start


def _start() -> Start:
    nodes_s: dict[str, float] = {}
    before = os.times()
    with tempfile.TemporaryDirectory() as runs:
        start = time.monotonic()
        process = subprocess.Popen(
            [*COMMAND, *WALK, f"runs:={runs}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "COLUMNS": "200"},
            start_new_session=True,
        )
        assert process.stdout is not None
        output: list[str] = []
        try:
            for line in process.stdout:
                passed_s = time.monotonic() - start
                output.append(line)
                name, _, words = line.strip().partition(" ")
                if words.startswith("[INFO]"):
                    nodes_s.setdefault(name, passed_s)
                if STANDS in line:
                    break
                if passed_s > PATIENCE_S:
                    raise Refusal(f"bench startup: it does not stand:\n{''.join(output[-20:])}")
            else:
                raise Refusal(f"bench startup: the stack ended:\n{''.join(output[-20:])}")
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate()
    after = os.times()
    cpu_s = sum(after[2:4]) - sum(before[2:4])
    return Start(nodes_s, passed_s, cpu_s)
