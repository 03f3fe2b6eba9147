"""The recorder as it runs: a process of its own, beside publishers and a wire that know nothing."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import rclpy
import yaml
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import Twist, TwistStamped
from rclpy.context import Context

from sim2real_deploy.bags import Bag, Message, runs
from sim2real_deploy.bags.recording import COUNTS
from sim2real_deploy.nodes.raw_topics import RawTopics
from sim2real_deploy.nodes.recorder import Progress, Recorder

TOPIC_HZ, WIRE_HZ, SECONDS = 100, 500, 3
# Publishes numbered messages, then writes how many of each it sent.
SOURCE = f"""
import json, sys, time, threading
import rclpy
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from diagnostic_msgs.msg import DiagnosticStatus
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from sim2real_deploy.robots import load_robot
from sim2real_deploy.wire.channels import Participant
from sim2real_deploy.wire.messages import FAMILIES
rclpy.init()
node = rclpy.create_node("source", namespace="dog")
other = rclpy.create_node("other", namespace="cat")
best_effort = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
joints = node.create_publisher(JointState, "joint_states", 100)
foreign = other.create_publisher(JointState, "joint_states", best_effort)
safety = node.create_publisher(DiagnosticStatus, "safety/state", latched)
safety.publish(DiagnosticStatus(level=DiagnosticStatus.OK, message="all is well"))
node.declare_parameter("gain", 2.5)
family = FAMILIES["go"]
participant = Participant(int(sys.argv[1]), "lo", "source")
writers = [participant.writer(f"rt/low{{n}}", layout)
           for n, layout in (("state", family.state), ("cmd", family.command))]
sizes = [family.state.size, family.command.size]
spinning = threading.Thread(target=rclpy.spin, args=(node,), daemon=True)
spinning.start()
while not (joints.get_subscription_count() and all(w.matched() for w in writers)):
    time.sleep(0.1)
print("up", flush=True)
sys.stdin.readline()
sent = 0
start = time.monotonic()
message = JointState(name=["a"] * 12, position=[0.0] * 12)
for tick in range({SECONDS * WIRE_HZ}):
    for writer, size in zip(writers, sizes):
        writer.write(b"\\0\\1\\0\\0" + tick.to_bytes(4, "little") * (size // 4 - 1))
    if tick % {WIRE_HZ // TOPIC_HZ} == 0:
        message.velocity = [float(tick)]
        joints.publish(message)
        foreign.publish(message)
    time.sleep(max(0.0, start + (tick + 1) / {WIRE_HZ} - time.monotonic()))
if sys.argv[2] == "fall":
    safety.publish(DiagnosticStatus(level=DiagnosticStatus.ERROR, message="fell over"))
print("done", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def domains(monkeypatch: pytest.MonkeyPatch) -> int:
    pick = random.Random(os.getpid() + time.time_ns())
    monkeypatch.setenv("ROS_DOMAIN_ID", str(pick.randrange(1, 100)))
    return pick.randrange(1, 100)


def record(root: Path, domain: int, ending: str, **parameters: object) -> tuple[Path, float]:
    """Run source and recorder together; the run's directory, and the recorder's CPU share."""
    arguments = {"domain": domain, "runs": root, "label": "test", "min_free_mb": 0}
    recorder = subprocess.Popen(
        [sys.executable, "-m", "sim2real_deploy.nodes.recorder", "--ros-args", "-r", "__ns:=/dog"]
        + [part for k, v in (arguments | parameters).items() for part in ("-p", f"{k}:={v}")]
    )
    source = subprocess.Popen(
        [sys.executable, "-c", SOURCE, str(domain), ending],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert source.stdin
    assert source.stdout
    assert source.stdout.readline() == "up\n"
    time.sleep(2.0)  # the recorder asks for parameters
    process = psutil.Process(recorder.pid)
    before, start = process.cpu_times(), time.monotonic()
    source.stdin.write("\n")
    source.stdin.flush()
    assert source.stdout.readline() == "done\n"
    after = process.cpu_times()
    share = (after.user + after.system - before.user - before.system) / (time.monotonic() - start)
    time.sleep(0.5)
    recorder.send_signal(signal.SIGINT)
    assert recorder.wait(10) == 0
    source.stdin.write("\n")
    source.stdin.flush()
    source.wait(10)
    return root, share


def test_all_that_was_sent_is_in_the_bag(tmp_path: Path, domains: int) -> None:
    before_ns = time.time_ns()
    root, share = record(tmp_path, domains, "fall")
    print(f"recorder: {share:.1%} of a core")
    (run,) = root.iterdir()
    bag = Bag(run)
    assert bag.complete
    counted: dict[str, list[int]] = {}
    for message in bag.messages():
        counted.setdefault(message.topic, []).append(message.sequence)
    assert len(counted["/dog/joint_states"]) == SECONDS * TOPIC_HZ
    for name in ("/dog/wire/lowstate", "/dog/wire/lowcmd"):
        ticks = [m.data[4:8] for m in bag.messages([bag.topics[name]])]
        assert [int.from_bytes(t, "little") for t in ticks] == list(range(SECONDS * WIRE_HZ))
    assert "/cat/joint_states" not in bag.topics
    for topic, numbers in counted.items():
        assert bag.metadata[COUNTS][f"received{topic}"] == str(len(numbers))
    assert not any(key.startswith("dropped") for key in bag.metadata[COUNTS])
    assert bag.metadata["parameters/dog/source"]["gain"] == "2.5"
    assert bag.information["robot"] == "go2"
    assert "robot.json" in bag.attachments
    assert bag.topics["/dog/safety/state"].qos.durability == "transient_local"
    assert len(counted["/dog/safety/state"]) == 2  # the one from before the recorder, and the fall
    assert (run / runs.PIN).read_text() == "fell over\n"
    metadata = yaml.safe_load((run / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    assert metadata["message_count"] == sum(len(numbers) for numbers in counted.values())
    for message in bag.messages():  # by the clocks of one machine
        assert before_ns < message.publish_ns <= message.log_ns + 1_000_000 < time.time_ns()
    states = [m.log_ns for m in bag.messages([bag.topics["/dog/wire/lowstate"]])]
    assert states == sorted(states)
    assert len(set(states)) > len(states) // 10  # each stamped when it came, not by the batch


def test_a_recorder_that_loses_a_source_says_so_and_pins_the_run(
    tmp_path: Path, domains: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that dies must be an error at once: the bag looks whole otherwise."""

    def broken(_: RawTopics) -> list[Message]:
        raise KeyError("publisher_gid")

    monkeypatch.setattr(RawTopics, "take", broken)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    arguments = ["-p", f"domain:={domains}", "-p", f"runs:={tmp_path}", "-p", "min_free_mb:=0"]
    rclpy.init(args=["recorder", "--ros-args", *arguments])
    node = Recorder()
    try:
        told: list[DiagnosticArray] = []
        node._diagnostics.publish = told.append
        deadline = time.monotonic() + 10
        while not told or told[-1].status[0].level != DiagnosticStatus.ERROR:
            assert time.monotonic() < deadline
            rclpy.spin_once(node, timeout_sec=0.1)
        assert told[-1].status[0].message.startswith("no more of the ROS topics: KeyError")
        run = node.recording.directory
    finally:
        node.close()
        node.destroy_node()
        rclpy.shutdown()
    assert "no more of the ROS topics" in (run / runs.PIN).read_text()


def test_a_topic_is_recorded_in_the_type_that_is_sent(domains: int) -> None:
    """nav2 sends TwistStamped while control still waits for Twist; then somebody sends Twist."""
    contexts = [Context() for _ in range(4)]  # as in processes of their own
    for context in contexts:
        rclpy.init(context=context)
    recorder, driver, planner, joystick = (
        rclpy.create_node(f"node{k}", context=context) for k, context in enumerate(contexts)
    )
    driver.create_subscription(Twist, "cmd_vel", lambda _: None, 10)
    stamped = planner.create_publisher(TwistStamped, "cmd_vel", 10)
    topics, found = RawTopics(recorder), []

    def look_until(seen: Callable[[], object]) -> None:
        deadline = time.monotonic() + 20
        while not seen():
            assert time.monotonic() < deadline
            topics.discover(found.append)
            time.sleep(0.05)

    try:
        look_until(lambda: recorder.count_subscribers("/cmd_vel"))
        look_until(lambda: "/cmd_vel" in (topic.name for topic in found))
        sent = {topic.name: topic.type for topic in found}
        assert sent["/cmd_vel"] == "geometry_msgs/msg/TwistStamped"
        look_until(stamped.get_subscription_count)
        stamped.publish(TwistStamped())
        look_until(lambda: "/cmd_vel" in (message.topic for message in topics.take()))
        assert topics.mixed == {}
        joystick.create_publisher(Twist, "cmd_vel", 10)
        look_until(lambda: topics.mixed)
        assert topics.mixed["/cmd_vel"].endswith("and was sent as geometry_msgs/msg/Twist, too")
    finally:
        for context in contexts:
            rclpy.shutdown(context=context)


def test_a_count_that_does_not_grow_is_told_from_one_that_does() -> None:
    progress = Progress(patience_s=5.0)
    assert [progress.stalled_s(0, float(now)) for now in range(7)] == [0, 0, 0, 0, 0, 0, 6]
    assert progress.stalled_s(1, 7.0) == 0
    assert progress.stalled_s(1, 12.0) == 0
    assert progress.stalled_s(1, 12.5) == 5.5
