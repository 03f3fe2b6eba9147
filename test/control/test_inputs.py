"""Hands on the controls: the remote, a gamepad, the keyboard, and who wins."""

import os
import pty
import subprocess
import sys
import time

import pytest

from sim2real_deploy.control import lease
from sim2real_deploy.control.lease import HUMAN_HEARTBEAT_NS, PAD, PLANNER, SOURCES, Lease
from sim2real_deploy.control.modes import ModeEvent, ModeRequest
from sim2real_deploy.control.pad import Pad
from sim2real_deploy.control.pad_map import load_pad
from sim2real_deploy.control.stages import load_stage
from sim2real_deploy.control.velocity_command import VelocityCommand
from sim2real_deploy.nodes.keyboard import Keyboard
from sim2real_deploy.wire.remote import Remote

STAGE = load_stage("indoor")
REMOTE, XBOX = load_pad("unitree"), load_pad("xbox")
SECOND = 1_000_000_000


def settle(velocity: VelocityCommand, start_ns: int, offers) -> list[float]:
    for now in range(start_ns, start_ns + 2 * SECOND, 20_000_000):
        offers(now)
        found = velocity.shape(now)
    return found


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        (Remote(ly=1.0), [STAGE.velocity.vx, 0, 0]),
        (Remote(ly=-1.0), [-STAGE.velocity.vx, 0, 0]),
        (Remote(lx=1.0), [0, -STAGE.velocity.vy, 0]),  # right is negative y
        (Remote(rx=1.0), [0, 0, -STAGE.velocity.wz]),  # clockwise is negative
        (Remote(ly=0.05, lx=-0.05, rx=0.05), [0, 0, 0]),  # sticks at rest are never quite at zero
    ],
)
def test_full_stick_is_the_stages_most(held, expected):
    velocity = VelocityCommand(STAGE)
    pad = Pad(velocity, REMOTE)
    assert settle(velocity, 0, lambda now: pad.update(held, now)) == pytest.approx(expected)


def test_of_a_remote_that_is_off_the_stop_alone_counts():
    """What is no remote's bytes by its header once drove the robot all the same."""
    velocity = VelocityCommand(STAGE)
    pad = Pad(velocity, REMOTE)
    off = Remote(ly=1.0, on=False)
    assert settle(velocity, 0, lambda now: pad.update(off, now)) == (0, 0, 0)
    stand = Remote(pressed=frozenset({"L2", "A"}), on=False)
    assert pad.update(stand, 0) is None
    stop = Remote(pressed=frozenset({"L2", "B"}), on=False)
    assert pad.update(stop, 0) == ModeRequest(ModeEvent.DAMP)


def test_a_hand_on_the_remote_wins_over_programs_until_it_rests():
    velocity = VelocityCommand(STAGE)
    pad = Pad(velocity, REMOTE)

    def both(held):
        def offer(now):
            velocity.offer(0.5, 0.0, 0.0, now)
            pad.update(held, now)
            velocity.offer(0.5, 0.0, 0.0, now)

        return offer

    assert settle(velocity, 0, both(Remote()))[0] == pytest.approx(0.5)
    assert settle(velocity, 2 * SECOND, both(Remote(ly=-1.0)))[0] < -0.5
    assert velocity.rejected == 0
    released = 4 * SECOND
    pad.update(Remote(), released)
    assert not velocity.offer(0.5, 0.0, 0.0, released + HUMAN_HEARTBEAT_NS)
    assert velocity.offer(0.5, 0.0, 0.0, released + HUMAN_HEARTBEAT_NS + 1)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_a_higher_source_takes_the_lease_and_a_lower_one_waits_for_silence(source):
    held = Lease()
    assert held.holder(0) is None
    assert held.claim(source, 0)
    for other in SOURCES:
        if other.priority < source.priority:
            assert not held.claim(other, source.heartbeat_ns)
    assert held.holder(source.heartbeat_ns) is source
    assert held.holder(source.heartbeat_ns + 1) is None
    assert held.claim(PLANNER, source.heartbeat_ns + 1)
    assert held.claim(source, source.heartbeat_ns + 2)
    assert held.holder(source.heartbeat_ns + 2) is source


def test_every_hand_holds_to_run():
    for source in set(SOURCES) - {PLANNER}:
        assert source.heartbeat_ns < 500_000_000


def test_a_hung_teleop_stands_within_its_time():
    """From the last key that arrived: heartbeat and braking together stay below 0.6 s."""
    velocity = VelocityCommand(STAGE)
    for now in range(0, SECOND, 50_000_000):
        velocity.offer(0.4, 0.0, 0.0, now, lease.TELEOP)
        velocity.shape(now)
    last = now
    assert velocity.shaped[0] == pytest.approx(0.4)
    assert velocity.holder(last) == "teleop"
    while velocity.shaped[0] > 0.0:
        now += 20_000_000
        velocity.shape(now)
    assert (now - last) / SECOND < 0.6
    assert velocity.holder(now) == ""


def test_a_released_stick_is_zero_at_once():
    velocity = VelocityCommand(STAGE)
    pad = Pad(velocity, REMOTE)
    settle(velocity, 0, lambda now: pad.update(Remote(ly=1.0), now))
    pad.update(Remote(), 2 * SECOND)
    velocity.shape(2 * SECOND)
    velocity.shape(2 * SECOND + HUMAN_HEARTBEAT_NS * 2)
    assert velocity.shaped[0] < STAGE.velocity.vx - 0.4


def test_a_gamepad_moves_only_while_its_dead_man_is_held():
    velocity = VelocityCommand(STAGE)
    pad = Pad(velocity, XBOX, PAD)
    assert settle(velocity, 0, lambda now: pad.update(Remote(ly=1.0), now))[0] == 0.0
    held = Remote(ly=1.0, pressed=frozenset({"L1"}))
    assert settle(velocity, 2 * SECOND, lambda now: pad.update(held, now))[0] > 0.5


@pytest.mark.parametrize(
    ("chord", "event"),
    [
        ({"L2", "B"}, ModeEvent.DAMP),
        ({"L2", "A"}, ModeEvent.STAND),
        ({"L2", "X"}, ModeEvent.SIT),
        ({"start"}, ModeEvent.WALK),
        ({"select"}, ModeEvent.SWITCH),
        ({"A"}, None),
        ({"L2"}, None),
    ],
)
def test_a_chord_is_one_request_when_pressed(chord, event):
    pad = Pad(VelocityCommand(STAGE), REMOTE)
    held = Remote(pressed=frozenset(chord))
    request = None if event is None else ModeRequest(event)
    assert pad.update(held, 0) == request
    assert pad.update(held, 1) is None
    assert pad.update(Remote(), 2) is None
    assert pad.update(held, 3) == request


def test_a_key_moves_while_it_is_held_and_no_longer():
    keys = Keyboard((0.6, 0.3, 1.0))
    assert keys.press("w", 0.0) is None
    assert keys.velocity(0.4) == (pytest.approx(0.3), 0.0, 0.0)
    assert keys.velocity(0.5) == (0.0, 0.0, 0.0), "a terminal that hangs repeats nothing"
    for repeat in range(10):
        keys.press("W", 1.0 + 0.03 * repeat)
    assert keys.velocity(1.27 + 0.19)[0] > 0.0
    assert keys.velocity(1.27 + 0.21)[0] == 0.0
    keys.press("q", 2.0)
    keys.press("D", 2.0)
    keys.press("?", 2.0)
    assert keys.velocity(2.1) == (0.0, pytest.approx(0.15), pytest.approx(-0.5))
    keys.press(" ", 2.1)
    assert keys.velocity(2.1) == (0.0, 0.0, 0.0)


def test_the_share_of_the_most_stays_between_a_tenth_and_all():
    keys = Keyboard((1.0, 1.0, 1.0))
    for key, share in (("+", 1.0), ("-", 0.1)):
        for _ in range(20):
            keys.press(key, 0.0)
        assert keys.share == share


@pytest.mark.parametrize(
    ("key", "mode"), [("1", "stand"), ("2", "walk"), ("3", "sit"), ("0", "damp"), ("x", "estop")]
)
def test_a_request_rests_the_velocity(key, mode):
    keys = Keyboard((1.0, 1.0, 1.0))
    keys.press("w", 0.0)
    assert keys.press(key, 0.0) == mode
    assert not any(keys.velocity(0.0))


def test_a_gamepad_reads_as_a_remote():
    joy = XBOX.joy
    held = joy.read([0.5, 1.0, -1.0, -0.25, 0.0, 1.0], [0, 1, 0, 0, 1, 0, 0, 0])
    assert (held.lx, held.ly, held.rx) == (-0.5, 1.0, 0.25)
    assert held.pressed == {"B", "L1", "L2"}
    assert joy.read([float("nan")], []) == Remote()


TELEOP = [sys.executable, "-m", "sim2real_deploy.nodes.teleop"]


def test_teleop_needs_a_terminal():
    pytest.importorskip("rclpy", reason="rclpy is not installed")
    done = subprocess.run(TELEOP, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "teleop reads keys: run it in a terminal\n")


def test_teleop_reads_keys_and_leaves_at_rest():
    pytest.importorskip("rclpy", reason="rclpy is not installed")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        TELEOP,
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env={**os.environ, "ROS_AUTOMATIC_DISCOVERY_RANGE": "OFF"},
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    patience = time.monotonic() + 30
    while b"vx +0.8" not in shown and time.monotonic() < patience:
        if b"vx +0.0" in shown:
            os.write(ours, b"w")
            shown = b""
        shown += os.read(ours, 4096)
    assert b"vx +0.8" in shown
    process.send_signal(2)
    assert process.wait(20) == 0, process.stderr.read()
    os.close(ours)
