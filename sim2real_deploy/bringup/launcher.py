"""Runs a bring-up's processes where there is no launch_ros: ordered start and stop, one output.

Each process has its own session, so that Ctrl-C in a terminal reaches only the launcher, which
stops them in order. If the launcher dies, the kernel signals its nodes (nodes/common.py).
"""

import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from rich.console import Console
from rich.text import Text

from sim2real_deploy.bringup.graph import Process
from sim2real_deploy.bringup.node_process import command_line
from sim2real_deploy.runtime import stop_order

COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "red")
STATUS = "\r"  # on a terminal, a line that begins with it replaces the last one
STOP_PATIENCE_S = 15.0  # sitting down and damping takes a few seconds
RESPAWN_PAUSE_S = 2.0


@dataclass(slots=True)
class _Running:
    process: Process
    colour: str
    popen: subprocess.Popen[bytes]
    reader: threading.Thread


class Launcher:
    """Starts, watches and stops processes; `run` does all three and returns the exit code."""

    def __init__(
        self,
        processes: Sequence[Process],
        namespace: str = "",
        params_file: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._processes = processes
        self._namespace = namespace
        self._params_file = params_file
        self._environment = {**os.environ, **(environment or {}), "PYTHONUNBUFFERED": "1"}
        self._running: list[_Running] = []
        self._respawn_at: dict[str, float] = {}
        self._console = Console(highlight=False)
        self._status = self._console.status("")
        self._live = self._console.is_terminal and not self._console.is_dumb_terminal
        self._asked_to_stop = threading.Event()

    def run(self) -> int:
        """Runs until an essential process ends or a signal arrives; then stops all in order."""
        for number in stop_order.stop_signals():
            signal.signal(number, lambda *_: self._asked_to_stop.set())
        signal.signal(signal.SIGTSTP, signal.SIG_IGN)  # paused, it could stop nothing
        exit_code = 0
        try:
            for process in self._processes:
                self._start(process)
            if self._live:
                self._status.start()
            while not self._asked_to_stop.wait(0.05):
                ended = self._first_essential_ended()
                if ended is not None:
                    exit_code = ended.popen.returncode
                    if exit_code:
                        words = f"ended with code {exit_code}: everything stops, control first"
                        self._say(ended.process.name, ended.colour, words)
                    break
                self._respawn()
        finally:
            with suppress(OSError):  # the terminal may be gone
                self._status.stop()
            self._stop()
            _drop_unwritten()
        if self._asked_to_stop.is_set():  # a process told to end may still report a failure
            codes = (r.popen.returncode for r in self._running if r.process.essential)
            exit_code = next(filter(None, codes), exit_code)
        return exit_code if exit_code >= 0 else 128 - exit_code

    def _start(self, process: Process) -> None:
        index = self._processes.index(process)
        colour = COLOURS[index % len(COLOURS)]
        popen = subprocess.Popen(
            command_line(process, self._namespace, self._params_file),
            env=self._environment | stop_order.environment(index, len(self._processes)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert popen.stdout is not None
        # Not text=True, which takes a carriage return for the end of a line.
        output = io.TextIOWrapper(popen.stdout, errors="replace", newline="\n")
        arguments = (process.name, colour, output)
        reader = threading.Thread(target=self._relay, args=arguments, daemon=True)
        reader.start()
        self._running.append(_Running(process, colour, popen, reader))

    def _first_essential_ended(self) -> _Running | None:
        for running in self._running:
            if running.process.essential and running.popen.poll() is not None:
                return running
        return None

    def _respawn(self) -> None:
        now = time.monotonic()
        for running in list(self._running):
            name = running.process.name
            if not running.process.respawn or running.popen.poll() is None:
                continue
            if name not in self._respawn_at:
                words = f"ended with code {running.popen.returncode}: starting it again"
                self._say(name, running.colour, words)
                self._respawn_at[name] = now + RESPAWN_PAUSE_S
            elif now >= self._respawn_at[name]:
                del self._respawn_at[name]
                self._running.remove(running)
                self._start(running.process)

    def _stop(self) -> None:
        order = {process.name: index for index, process in enumerate(self._processes)}
        by_start = sorted(self._running, key=lambda running: order[running.process.name])
        for running in reversed(by_start):
            if running.popen.poll() is None:
                running.popen.send_signal(signal.SIGINT)
                try:
                    running.popen.wait(STOP_PATIENCE_S)
                except subprocess.TimeoutExpired:
                    self._say(running.process.name, running.colour, "does not end: killed")
                    running.popen.kill()
                    running.popen.wait()
            running.reader.join(1.0)

    def _relay(self, name: str, colour: str, output: IO[str]) -> None:
        for line in output:
            with suppress(OSError):
                if line.startswith(STATUS) and self._live:
                    self._status.update(Text(line.strip()))
                else:
                    self._say(name, colour, line.strip(STATUS + "\n"))

    def _say(self, name: str, colour: str, line: str) -> None:
        text = Text.assemble((f"{name:>18} ", colour), Text.from_ansi(line))
        with suppress(OSError):  # the terminal is gone: what it would have shown is lost
            self._console.print(text, soft_wrap=True)


def _drop_unwritten() -> None:
    """What a terminal that is gone did not get: else Python fails on it as it exits (code 120)."""
    try:
        sys.stdout.flush()
    except OSError:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
