"""One signal to all at once, as a terminal or ros2 launch sends it, and still they end in order."""

import os
import signal
import subprocess
import sys
import time

import pytest

from sim2real_deploy.runtime.stop_order import StopTurn, environment

PROCESS = """
import signal, sys, time
from sim2real_deploy.runtime.stop_order import StopTurn
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
place = StopTurn()
print("ready", flush=True)
signal.sigwait({signal.SIGINT})
in_turn = place.wait_turn(float(sys.argv[1]))
time.sleep(0.05)
print(in_turn, time.monotonic_ns(), flush=True)
place.leave()
"""


@pytest.fixture
def processes():
    """Four of them, as bring-ups are, all ready."""
    started = []

    def start(patience_s: float = 20.0) -> list[subprocess.Popen]:
        for index in range(4):
            process = subprocess.Popen(
                [sys.executable, "-c", PROCESS, str(patience_s)],
                env={**os.environ, **environment(index, 4)},
                stdout=subprocess.PIPE,
                text=True,
            )
            started.append(process)
        for process in started:
            assert process.stdout.readline() == "ready\n"
        return started

    yield start
    for process in started:
        process.kill()
        process.communicate()


def last_words(process: subprocess.Popen) -> tuple[str, int]:
    in_turn, ended_ns = process.communicate(timeout=30)[0].split()
    return in_turn, int(ended_ns)


def test_the_last_to_start_is_the_first_to_end(processes):
    running = processes()
    for process in running:
        process.send_signal(signal.SIGINT)
    words = [last_words(process) for process in running]
    assert [in_turn for in_turn, _ in words] == ["True"] * 4
    ended = [ended_ns for _, ended_ns in words]
    assert ended == sorted(ended, reverse=True)


def test_one_that_was_killed_holds_nobody_up(processes):
    running = processes()
    running[3].kill()
    for process in running[:3]:
        process.send_signal(signal.SIGINT)
    assert [last_words(process)[0] for process in running[:3]] == ["True"] * 3


def test_one_that_hangs_is_waited_for_only_so_long(processes):
    running = processes(patience_s=0.3)
    running[0].send_signal(signal.SIGINT)
    assert last_words(running[0])[0] == "False"
    assert running[3].poll() is None


def test_without_a_launcher_there_is_no_order_to_keep():
    place = StopTurn({})
    start = time.monotonic()
    assert place.wait_turn(30.0)
    assert time.monotonic() - start < 10.0
    place.leave()
