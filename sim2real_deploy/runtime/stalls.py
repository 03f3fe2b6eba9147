"""Detects stalls of the machine itself, as on a shared host whose cores serve somebody else.

On each core a process of the highest priority sleeps to absolute deadlines. When it wakes late,
nothing else could run on that core either, so measurements of that time are not ours to judge.
"""

import os
import subprocess
import sys
import threading
import time
from typing import IO

from sim2real_deploy.runtime import realtime

PERIOD_NS = 5_000_000  # shorter would disturb what is measured
NOTED_NS = 1_000_000  # waking later than this is a stall
STILL_MS = 1.5  # from here on a benchmark discards the second


class StallWitness:
    """Records stalls from now on; sees none where real-time priority is not allowed."""

    def __init__(self) -> None:
        self._stalls: list[tuple[int, int]] = []
        self._witnesses: list[subprocess.Popen[str]] = []
        self._threads: list[threading.Thread] = []
        for core in sorted(os.sched_getaffinity(0)):
            command = [sys.executable, "-m", __name__, str(core)]
            witness = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert witness.stdout is not None
            thread = threading.Thread(target=self._listen, args=(witness.stdout,), daemon=True)
            thread.start()
            self._witnesses.append(witness)
            self._threads.append(thread)

    def _listen(self, lines: IO[str]) -> None:
        for line in lines:
            began, ended = line.split()
            self._stalls.append((int(began), int(ended)))

    def stalled_ms(self, since_ns: int, until_ns: int) -> float:
        """The longest stall that overlaps this interval; 0 if there was none."""
        met = [e - b for b, e in tuple(self._stalls) if b < until_ns and e > since_ns]
        return max(met, default=0) / 1e6

    def close(self) -> None:
        for witness in self._witnesses:
            witness.terminate()
        for witness, thread in zip(self._witnesses, self._threads, strict=True):
            witness.wait()
            thread.join()


def _bear_witness(core: int) -> None:
    os.sched_setaffinity(0, {core})
    if refused := realtime.prefer_this_thread(realtime.WITNESS_PRIORITY):
        print(f"stalls of this machine go unnoticed: {refused}", file=sys.stderr)
        return
    realtime.lock_memory()
    due_ns, asked_by = time.monotonic_ns(), os.getppid()
    while os.getppid() == asked_by:  # ends with its parent, also when that was killed
        due_ns += PERIOD_NS
        time.sleep(max(0, due_ns - time.monotonic_ns()) / 1e9)
        now_ns = time.monotonic_ns()
        if now_ns - due_ns > NOTED_NS:
            print(due_ns, now_ns, flush=True)
            due_ns = now_ns


if __name__ == "__main__":
    _bear_witness(int(sys.argv[1]))
