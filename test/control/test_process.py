"""The control process as it is run: real signals, real DDS, and what is seen on the wire."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from sim2real_deploy.robots import JointCommand, load_robot
from sim2real_deploy.wire.channels import Participant
from sim2real_deploy.wire.decoders import CommandDecoder
from sim2real_deploy.wire.messages import FAMILIES, LOW_CMD
from sim2real_deploy.wire.remote import Remote
from support.places import SUPPORT
from support.policy_samples import PLAIN_TERMS, contract_for, write_bundle
from support.wire_support import free_domain

pytest.importorskip("rclpy", reason="rclpy is not installed: pip install -e '.[ros]'")

SPEC = load_robot("go2")
STAND_CALL = [
    *(sys.executable, "-m", "sim2real_deploy.nodes.call", "--ros-args"),
    *("-p", "service:='stand'"),
]
CONTROL = [sys.executable, "-m", "sim2real_deploy.nodes.control", "--ros-args"]
STAND = Remote(pressed=frozenset({"L2", "A"}))
WALK = Remote(pressed=frozenset({"start"}))
FORWARD = Remote(ly=1.0)
PATIENCE_S = 100.0  # of a busy machine: nothing here takes more than a few seconds by itself


def fragile_policy(folder: Path) -> Path:
    """Stays near its pose, and gives NaN as soon as it is to go faster than 0.1 m/s."""
    from onnx import TensorProto, helper, numpy_helper

    size, joints = 9 + 3 * SPEC.joint_count, SPEC.joint_count
    pick = np.zeros((size, joints), np.float32)
    pick[6] = -1.0  # the command's vx
    model = helper.make_model(
        helper.make_graph(
            [
                helper.make_node("MatMul", ["obs", "pick"], ["slower"]),
                helper.make_node("Add", ["slower", "most"], ["margin"]),
                helper.make_node("Sqrt", ["margin"], ["actions"]),
            ],
            "fragile",
            [helper.make_tensor_value_info("obs", TensorProto.FLOAT, [1, size])],
            [helper.make_tensor_value_info("actions", TensorProto.FLOAT, [1, joints])],
            [
                numpy_helper.from_array(pick, "pick"),
                numpy_helper.from_array(np.full((1, joints), 0.1, np.float32), "most"),
            ],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    ).SerializeToString()
    golden = [{"inputs": {"obs": [0.0] * size}, "action": [float(np.sqrt(0.1))] * joints}]
    observations = [{"input": "obs", "terms": PLAIN_TERMS}]
    return write_bundle(
        folder, contract_for(SPEC, model, golden=golden, observations=observations), model
    )


class World:
    """A twin on the wire, the control process, and an eye on rt/lowcmd."""

    def __init__(self, policy: Path) -> None:
        domain = free_domain()
        self.log = policy.parent / "control.log"
        self.twin = subprocess.Popen(
            [sys.executable, str(SUPPORT / "remote_twin.py"), str(domain)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.sport_mode = "unknown"
        self.eye = Participant(domain, "lo", "eye")
        command = FAMILIES[SPEC.wire.family].command
        self.commands = self.eye.reader(LOW_CMD, command, depth=4096)
        self.decoder = CommandDecoder(SPEC)
        self.seen: list[JointCommand] = []
        arguments = ["supervised:=false", f"domain:={domain}", f"policy:={policy}"]
        self._environment = {
            **os.environ,
            "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
            "ROS_DOMAIN_ID": str(domain),
        }
        self.process = subprocess.Popen(
            CONTROL + [part for argument in arguments for part in ("-p", argument)],
            env=self._environment,
            stderr=self.log.open("w"),
        )

    def look(self) -> None:
        self.seen += [self.decoder.decode(sample.data) for sample in self.commands.take()]

    def wait_for(self, what, seconds: float = PATIENCE_S) -> None:
        patience = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < patience, self.said()
            assert self.process.poll() is None, self.said()
            time.sleep(0.01)
            self.look()

    def hold(self, remote: Remote) -> None:
        self.twin.stdin.write(json.dumps({"ly": remote.ly, "pressed": [*remote.pressed]}) + "\n")
        self.twin.stdin.flush()
        self.sport_mode = json.loads(self.twin.stdout.readline())

    def chord_until(self, remote: Remote, what) -> None:
        """Press and let go again until it shows: the process may still be starting."""
        patience = time.monotonic() + PATIENCE_S
        while not what():
            assert time.monotonic() < patience, self.said()
            for held in (remote, Remote()):
                self.hold(held)
                time.sleep(0.1)
                self.look()

    def stand_up(self) -> None:
        """By the service: in PASSIVE a remote's chords are the vendor's. Until it is accepted:
        before that, what moves on the wire is the vendor's own mode."""
        patience = time.monotonic() + PATIENCE_S
        while subprocess.run(STAND_CALL, env=self._environment, check=False).returncode:
            assert time.monotonic() < patience, self.said()
        self.commands.take()
        self.seen.clear()
        self.wait_for(self.is_moving)

    def said(self) -> str:
        self.process.kill()
        self.process.wait()
        return self.log.read_text()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.twin.communicate()
        self.eye.close()

    def is_moving(self) -> bool:
        return bool(self.seen) and bool(self.seen[-1].kp.any())

    def is_damping(self) -> bool:
        last = self.seen[-1]
        return not last.kp.any() and np.array_equal(last.kd, SPEC.damping)


@pytest.fixture
def world(tmp_path):
    world = World(fragile_policy(tmp_path / "fragile"))
    yield world
    world.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_in_damping_on_the_wire(world, number):
    world.stand_up()
    world.hold(Remote())
    assert world.sport_mode == ""
    world.process.send_signal(number)
    assert world.process.wait(PATIENCE_S) == 0
    world.look()
    assert world.is_damping()
    assert all(not command.kp.any() for command in world.seen[-10:])


def test_a_policy_that_fails_is_damped_at_once_and_stays_so(world):
    world.stand_up()
    world.wait_for(lambda: np.allclose(world.seen[-1].q, SPEC.stand_pose, atol=1e-3))
    world.chord_until(WALK, lambda: abs(world.seen[-1].kp[0] - 25.0) < 1.0)
    assert world.is_moving()
    world.hold(FORWARD)
    world.wait_for(world.is_damping)
    world.hold(Remote())
    already = len(world.seen)
    world.hold(STAND)
    world.wait_for(lambda: len(world.seen) > already + 250)
    assert not any(command.kp.any() for command in world.seen[already:])
    assert all(np.isfinite(command.q).all() for command in world.seen)
    world.process.send_signal(signal.SIGTERM)
    assert world.process.wait(PATIENCE_S) == 0


def test_a_wrong_policy_is_refused_in_words():
    process = subprocess.run(
        [*CONTROL, "-p", "policy:=nowhere", "-p", f"domain:={free_domain()}"],
        env={**os.environ, "ROS_AUTOMATIC_DISCOVERY_RANGE": "OFF"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert process.returncode == 2
    assert "policy 'nowhere'" in process.stderr
    assert "Traceback" not in process.stderr
