"""A hundred changes of policy on the running stack: over DDS, recorded, and replayed."""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("mujoco", reason="mujoco is not installed")

from sim2real_deploy.analysis.policy_replay import replay_policy
from sim2real_deploy.bags import Bag
from sim2real_deploy.bags.recorded import Recorded, labelled
from sim2real_deploy.topics import TICKS
from sim2real_deploy.wire.domains import free_domain
from support.stack_support import Operator, stack

CHANGES = 100
BETWEEN_S = 0.55  # a change takes 0.46 s
STALL_S = 0.012  # without a tick, of the 20 ms between two steps
# Takes a core for most of the time, before any program without real-time rights: as another
# robot's loops do, or a host that is short of cores.
NEIGHBOUR = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(5))
while True:
    while time.time() % 3.0 < 2.4: pass
    time.sleep(0.01)
"""


@contextmanager
def neighbours() -> Iterator[None]:
    programs = [
        subprocess.Popen([sys.executable, "-c", NEIGHBOUR, str(core)])
        for core in os.sched_getaffinity(0)
    ]
    try:
        yield
        assert all(program.poll() is None for program in programs)
    finally:
        for program in programs:
            program.kill()
            program.wait()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_it_walks_on_through_every_change(tmp_path: Path) -> None:
    domain = free_domain()
    arguments = ("policies:=go2_walk,go2_rough", "stage:=indoor", f"domain:={domain}")
    with stack(domain, tmp_path, "go2_walk", *arguments) as running, neighbours():
        operator = Operator(domain)
        driven = threading.Event()

        def drive() -> None:
            while not driven.wait(0.1):
                operator.drive(0.5)

        operator.reach("go2_driver/stand", "standing")
        operator.reach("go2_driver/walk", "walking")
        thread = threading.Thread(target=drive)
        thread.start()
        time.sleep(2.0)
        refused = 0
        for _ in range(CHANGES):
            for _ in range(5):
                answer = operator.call("go2_driver/switch")
                refused += not answer.success
                if answer.success:
                    break
                time.sleep(0.1)
            assert answer.success, answer.message
            time.sleep(BETWEEN_S)
        assert operator.mode == "walking", operator.safety.message
        driven.set()
        thread.join()
        operator.close()
    bag = next(re.search(r"(\S+)$", line)[1] for line in running.lines if "the bag is" in line)
    recorded = Recorded(Bag(tmp_path / bag if not Path(bag).is_absolute() else Path(bag)))
    labels, rows = labelled(recorded.load((TICKS,))[TICKS])
    column = {label: rows[:, index] for index, label in enumerate(labels)}
    changing = np.convolve(np.diff(column["policy"], prepend=0) != 0, np.ones(230))[: len(rows)] > 0
    both = column["policy_stepped"].astype(int)
    work = column["work_ns"] / 1e3
    late = column["missed"] > 0
    print(
        f"{CHANGES} changes, {refused} tries refused by a limit; a tick's work in a change p50 "
        f"{np.median(work[changing]):.0f}, p99 {np.percentile(work[changing], 99):.0f} us, else "
        f"p99 {np.percentile(work[~changing], 99):.0f}; late ticks in {changing.sum()} of a "
        f"change: {late[changing].sum()}, in {(~changing).sum()} others: {late[~changing].sum()}; "
        f"the computer stood still for {np.ptp(column['stood_still_ns']) / 1e6:.0f} ms"
    )
    # Never two networks in one tick, unless the computer left none between two steps.
    stalled = np.convolve(column["gap_ns"] > STALL_S * 1e9, np.ones(3))[: len(rows)] > 0
    assert not (both[~stalled] == 3).any()
    replay = replay_policy(recorded)
    assert replay.steps > 40 * CHANGES * BETWEEN_S
    lost = replay.ticks_missing, replay.states_missing, replay.values_missing
    assert lost == (0, 0, 0)
    assert replay.values_different == 0, replay.first
