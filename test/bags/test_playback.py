"""Playing a bag into ROS: order, start, latched topics, pause, and never into a running stack."""

import json
import os
import pty
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim2real_deploy.bags import Bag
from sim2real_deploy.bags.playback import PlaybackClock

LISTENER = """
import json, sys, threading, time
import rclpy
from nav_msgs.msg import Odometry
from rclpy.qos import DurabilityPolicy, QoSProfile
from rosgraph_msgs.msg import Clock
from std_msgs.msg import String
rclpy.init()
node = rclpy.create_node("listener")
latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
heard = {"odom": 0, "modes": [], "clock": []}
node.create_subscription(Odometry, "odom", lambda m: heard.update(odom=heard["odom"] + 1), 1000)
node.create_subscription(String, "control/mode", lambda m: heard["modes"].append(m.data), latched)
node.create_subscription(Clock, "/clock", lambda m: heard["clock"].append(m.clock.sec), 1000)
publisher = node.create_publisher(Odometry, "odom", 10) if sys.argv[1] == "busy" else None
threading.Thread(target=rclpy.spin, args=(node,), daemon=True).start()
print("up", flush=True)
sys.stdin.readline()
print(json.dumps(heard), flush=True)
"""


@pytest.fixture(autouse=True)
def own_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    pick = random.Random(os.getpid() + time.time_ns())
    monkeypatch.setenv("ROS_DOMAIN_ID", str(pick.randrange(1, 100)))


def listen(kind: str) -> "subprocess.Popen[str]":
    listener = subprocess.Popen(
        [sys.executable, "-c", LISTENER, kind],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert listener.stdout
    assert listener.stdout.readline() == "up\n"
    return listener


def play(bag: Path, stdin: int = subprocess.DEVNULL, **options: object) -> "subprocess.Popen[str]":
    arguments = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    start = "from sim2real_deploy.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", start, "replay", str(bag), *arguments],
        stdin=stdin, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_bag_played_from_the_middle_is_heard_and_pauses_by_key(walk_bag: Path) -> None:
    start_s = 3.0
    bag = Bag(walk_bag)
    first_ns = next(bag.messages([t for t in bag.topics.values() if "wire" not in t.name])).log_ns
    odom = [m.log_ns for m in bag.messages([bag.topics["/odom"]])]
    expected = sum(log_ns >= first_ns + start_s * 1e9 for log_ns in odom)
    listener = listen("quiet")
    keyboard, terminal = pty.openpty()
    player = play(walk_bag, terminal, rate=1, start=start_s)
    assert player.stderr
    for key, answer in (("", "space pauses"), (" ", "paused"), (" ", "goes on")):
        os.write(keyboard, key.encode())
        while answer not in (line := player.stderr.readline()):
            assert line, "it ended"
    assert player.wait(60) == 0
    out, _ = listener.communicate("\n", timeout=30)
    heard = json.loads(out)
    assert heard["odom"] == expected
    assert heard["modes"][0] == "walking"  # latched before the start, told first
    assert heard["modes"][-1] == "damping"
    assert heard["clock"] == sorted(heard["clock"])
    assert heard["clock"][-1] * 1_000_000_000 <= odom[-1]


def test_nothing_is_played_into_a_running_stack(walk_bag: Path) -> None:
    listener = listen("busy")
    player = play(walk_bag)
    _, said = player.communicate(timeout=60)
    assert player.returncode == 2
    assert "'/odom' is in use here: a stack is running" in said
    listener.communicate("\n", timeout=30)


@given(
    st.floats(0.01, 100),
    st.lists(st.tuples(st.booleans(), st.integers(0, 10**9)), min_size=1, max_size=20),
)
def test_the_clock_runs_at_its_rate_and_stands_in_pauses(
    rate: float, events: list[tuple[bool, int]]
) -> None:
    clock = PlaybackClock(5_000, rate, 0)
    now = 0
    expected = 5_000.0
    for toggles, passed in events:
        before = clock.position(now)
        now += passed
        expected += 0 if clock.paused else passed * rate
        assert abs(clock.position(now) - expected) <= len(events)
        assert clock.position(now) >= before
        if toggles:
            clock.toggle_pause(now)


def test_a_moment_that_is_past_is_not_waited_for() -> None:
    clock = PlaybackClock(0, 2.0, 0)
    assert clock.wait_s(4_000_000_000, 0) == 2.0
    assert clock.wait_s(1_000, 10**9) == 0.0
    clock.toggle_pause(0)
    assert clock.wait_s(1, 10**9) == float("inf")
