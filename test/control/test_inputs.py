"""Hands on the controls: the remote, a gamepad, the keyboard, and who wins."""

import os
import pty
import subprocess
import sys
import time

import pytest

from sim2real_deploy.control.modes import Event
from sim2real_deploy.control.pad import Pad
from sim2real_deploy.control.stages import load_stage
from sim2real_deploy.control.velocity_command import STALE_NS, VelocityCommand
from sim2real_deploy.nodes.keyboard import Keyboard
from sim2real_deploy.wire.remote import Remote

STAGE = load_stage("indoor")
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
    pad = Pad(velocity)
    assert settle(velocity, 0, lambda now: pad.update(held, now)) == pytest.approx(expected)


def test_a_hand_on_the_remote_wins_over_programs_until_it_rests():
    velocity = VelocityCommand(STAGE)
    pad = Pad(velocity)

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
    assert not velocity.offer(0.5, 0.0, 0.0, released + STALE_NS)
    assert velocity.offer(0.5, 0.0, 0.0, released + STALE_NS + 1)


def test_a_released_stick_is_zero_at_once():
    velocity = VelocityCommand(STAGE)
    pad = Pad(velocity)
    settle(velocity, 0, lambda now: pad.update(Remote(ly=1.0), now))
    pad.update(Remote(), 2 * SECOND)
    velocity.shape(2 * SECOND)
    velocity.shape(2 * SECOND + STALE_NS)
    assert velocity.shaped[0] < STAGE.velocity.vx - 0.4


def test_a_gamepad_moves_only_while_its_dead_man_is_held():
    velocity = VelocityCommand(STAGE)
    pad = Pad(velocity, "L1")
    assert settle(velocity, 0, lambda now: pad.update(Remote(ly=1.0), now))[0] == 0.0
    held = Remote(ly=1.0, pressed=frozenset({"L1"}))
    assert settle(velocity, 2 * SECOND, lambda now: pad.update(held, now))[0] > 0.5


@pytest.mark.parametrize(
    ("chord", "event"),
    [
        ({"L2", "B"}, Event.DAMP),
        ({"L2", "A"}, Event.STAND),
        ({"L2", "X"}, Event.SIT),
        ({"start"}, Event.WALK),
        ({"A"}, None),
        ({"L2"}, None),
    ],
)
def test_a_chord_is_one_wish_when_pressed(chord, event):
    pad = Pad(VelocityCommand(STAGE))
    held = Remote(pressed=frozenset(chord))
    assert pad.update(held, 0) is event
    assert pad.update(held, 1) is None
    assert pad.update(Remote(), 2) is None
    assert pad.update(held, 3) is event


def test_keys_step_the_velocity_within_the_most():
    keys = Keyboard((0.3, 0.2, 0.5))
    for _ in range(9):
        assert keys.press("w") is None
    keys.press("q")
    keys.press("D")
    assert (keys.vx, keys.vy, keys.wz) == (0.3, 0.1, -0.2)
    keys.press("s")
    assert keys.vx == pytest.approx(0.2)
    keys.press("?")
    assert keys.vx == pytest.approx(0.2)
    keys.press(" ")
    assert (keys.vx, keys.vy, keys.wz) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("key", "wish"), [("1", "stand"), ("2", "walk"), ("3", "sit"), ("0", "damp"), ("x", "estop")]
)
def test_a_wish_rests_the_velocity(key, wish):
    keys = Keyboard((1.0, 1.0, 1.0))
    keys.press("w")
    assert keys.press(key) == wish
    assert keys.vx == 0.0


def test_a_gamepad_reads_as_a_remote():
    pytest.importorskip("rclpy", reason="rclpy is not installed")
    from sensor_msgs.msg import Joy

    from sim2real_deploy.nodes.driver import read_joy

    joy = Joy(axes=[0.5, 1.0, -1.0, -0.25, 0.0, 1.0], buttons=[0, 1, 0, 0, 1, 0, 0, 0])
    held = read_joy(joy)
    assert (held.lx, held.ly, held.rx) == (-0.5, 1.0, 0.25)
    assert held.pressed == {"B", "L1", "L2"}
    assert read_joy(Joy(axes=[float("nan")], buttons=[])) == Remote()


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
    while b"vx +0.2" not in shown and time.monotonic() < patience:
        if b"vx +0.0" in shown:
            os.write(ours, b"ww")
            shown = b""
        shown += os.read(ours, 4096)
    assert b"vx +0.2" in shown
    process.send_signal(2)
    assert process.wait(20) == 0, process.stderr.read()
    os.close(ours)
