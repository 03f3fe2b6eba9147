"""The recorder: every ROS topic of the stack and the raw wire, into one bag. It only listens."""

import hashlib
import math
import platform
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import rclpy.serialization
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rcl_interfaces.srv import GetParameters, ListParameters
from rclpy.client import Client
from rclpy.node import Node
from std_msgs.msg import String
from std_srvs.srv import Trigger

from sim2real_deploy import __version__, topics
from sim2real_deploy.bags import Message, definitions
from sim2real_deploy.bags.recording import RunRecorder, Storage
from sim2real_deploy.bags.runs import attached
from sim2real_deploy.nodes import messages
from sim2real_deploy.nodes.common import (
    LATCHED,
    NAMESPACE,
    WIRE,
    Parameter,
    ProcessEnd,
    declare,
    every,
    run,
)
from sim2real_deploy.nodes.raw_topics import RawTopics
from sim2real_deploy.policy.contract import bundle_folder, listed
from sim2real_deploy.robots import RobotSpec, load_robot
from sim2real_deploy.runtime.realtime import RECORDER_PRIORITY, prefer_this_process
from sim2real_deploy.wire.channels import Participant, RawReader
from sim2real_deploy.wire.libddsc import library
from sim2real_deploy.wire.messages import FAMILIES, LOW_CMD, LOW_STATE

POLL_S = 0.02
SILENT_S = 5.0  # without a message of any ROS topic: then nothing is recorded
DISCOVER_S = 0.25
VERSIONS = ("numpy", "onnxruntime", "mujoco", "mcap", "ros-rclpy")
PARAMETERS = (
    *WIRE,
    Parameter("runs", "runs", "Folder for the runs."),
    Parameter("label", "run", "Suffix of the run's name, after its time."),
    Parameter("stage", "", "Deployment stage, written into the bag."),
    Parameter("real", False, "A real robot and not the twin: written into the bag."),
    Parameter("policy", "", "Policy bundles, by name or folder, copied into the bag."),
    Parameter("quota_gb", 20.0, "Beyond it the oldest unpinned runs are deleted.", (0.1, 10_000.0)),
    Parameter("min_free_mb", 500, "Recording stops when less disk space is free.", (0, 1_000_000)),
    Parameter("split_mb", 1024, "A new file of the bag begins at this size.", (1, 100_000)),
    Parameter("black_box_s", 0.0, "Black box: seconds kept before an event; 0 keeps all.",
              (0.0, 3600.0)),
    Parameter("after_event_s", 10.0, "Black box: how long it records on after an event.",
              (0.0, 3600.0)),
)  # fmt: skip


class Recorder(Node):
    def __init__(self) -> None:
        super().__init__("recorder")
        values = declare(self, PARAMETERS)
        robot = load_robot(values["robot"])
        # The wire is stamped by the monotonic clock, ROS by the wall clock: one offset per run.
        self._epoch_ns = time.time_ns() - time.monotonic_ns()
        information, attachments = self._describe_run(values, robot)
        storage = Storage(
            Path(values["runs"]),
            quota_bytes=int(values["quota_gb"] * (1 << 30)),
            min_free_bytes=values["min_free_mb"] << 20,
            max_file_bytes=values["split_mb"] << 20,
            ring_s=values["black_box_s"] or None,
            after_event_s=values["after_event_s"],
        )
        self._topics = RawTopics(self)
        self._participant = Participant(values["domain"], values["interface"], "recorder")
        self.recording = RunRecorder(storage, values["label"], information, attachments)
        self._stop = threading.Event()
        wire = self._listen_to_wire(robot)
        self._wire_names = frozenset(wire)
        self._failure = ""  # why one of the two no longer reaches the bag
        self._threads = [
            threading.Thread(target=self._guard, args=(drain, name), name=name)
            for name, drain in (
                ("ROS topics", self._drain_topics),
                ("wire", partial(self._drain_wire, wire)),
            )
        ]
        self._topic_progress = Progress(SILENT_S)
        self._parameter_clients: dict[str, tuple[Client[Any, Any], Client[Any, Any]]] = {}
        self._asked_nodes: set[str] = set()
        self._in_error = False
        self._announced_run: Path | None = None
        self._diagnostics = self.create_publisher(DiagnosticArray, topics.DIAGNOSTICS, 10)
        self._run_name = self.create_publisher(String, "~/run", LATCHED)
        self.create_service(Trigger, "~/pin", self._pin)
        every(self, DISCOVER_S, self._discover)
        every(self, 1.0, self._report)
        for thread in self._threads:
            thread.start()
        self.get_logger().info(f"recording into {self.recording.directory}")

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._participant.close()
        self.recording.close()
        self.get_logger().info(f"the bag is {self.recording.directory}")

    def _describe_run(
        self, values: dict[str, Any], robot: RobotSpec
    ) -> tuple[dict[str, str], dict[str, bytes]]:
        information = {
            "robot": robot.name,
            "stage": values["stage"],
            "real": str(values["real"]).lower(),
            "namespace": self.get_namespace(),
            "interface": values["interface"],
            "domain": str(values["domain"]),
            "libddsc": library().path,
            "host": platform.node(),
            "system": platform.platform(),
            "epoch_minus_monotonic_ns": str(self._epoch_ns),
            "version": __version__,
            "python": platform.python_version(),
        }
        for package in VERSIONS:
            try:
                information[f"version/{package}"] = version(package)
            except PackageNotFoundError:
                continue
        attachments = {"robot.json": robot.model_dump_json(indent=1).encode()}
        folders = [bundle_folder(name) for name in listed(values["policy"])]
        digests = []
        for place, folder in enumerate(folders):
            for name in ("policy.onnx", "policy.yaml"):
                attachments[attached(name, place)] = (folder / name).read_bytes()
            model = attachments[attached("policy.onnx", place)]
            digests.append(hashlib.sha256(model).hexdigest())
        if folders:
            information["policy"], information["policy_sha256"] = folders[0].name, digests[0]
            information["policies"] = ",".join(folder.name for folder in folders)
            information["policies_sha256"] = ",".join(digests)
        return information, attachments

    def _listen_to_wire(self, robot: RobotSpec) -> dict[str, RawReader[bytes]]:
        """Under names other than the robot's own: playing a bag must never command a robot."""
        family = FAMILIES[robot.wire.family]
        namespace = self.get_namespace().rstrip("/")
        readers = {}
        for own, name, layout in (
            (LOW_STATE, topics.LOW_STATE, family.state),
            (LOW_CMD, topics.LOW_CMD, family.command),
        ):
            topic = definitions.wire_topic(robot, name, namespace)
            self.recording.add_topic(topic)
            readers[topic.name] = self._participant.reader(own, layout, depth=2000)
        return readers

    def _guard(self, drain: Callable[[], None], what: str) -> None:
        """Report a failure: a thread that ended silently would leave an incomplete bag."""
        try:
            drain()
        except Exception as error:
            self._failure = f"no more of the {what}: {type(error).__name__}: {error}"
            self.recording.event(self._failure)
            raise

    def _drain_wire(self, readers: dict[str, RawReader[bytes]]) -> None:
        """Woken by states; commands are taken at the same time."""
        state_reader = next(iter(readers.values()))
        sequences = dict.fromkeys(readers, 0)
        while not self._stop.is_set():
            state_reader.wait(POLL_S)
            for name, reader in readers.items():
                for sample in reader.take():
                    sequences[name] += 1
                    log_ns = sample.received_ns + self._epoch_ns
                    self.recording.put(
                        Message(log_ns, name, sample.source_ns, sequences[name], sample.data)
                    )

    def _drain_topics(self) -> None:
        safety = self.resolve_topic_name(topics.SAFETY)
        while not self._stop.wait(POLL_S):
            for message in self._topics.take():
                self.recording.put(message)
                if message.topic == safety:
                    self._heed(message)

    def _heed(self, message: Message) -> None:
        """An error of the safety supervisor is the event a black box waits for."""
        status = rclpy.serialization.deserialize_message(message.data, DiagnosticStatus)
        in_error = status.level == DiagnosticStatus.ERROR
        if in_error and not self._in_error:
            self.recording.event(status.message)
        self._in_error = in_error

    def _discover(self) -> None:
        self._topics.discover(self.recording.add_topic)
        namespace = self.get_namespace()
        for name, where in self.get_node_names_and_namespaces():
            full = f"{where.rstrip('/')}/{name}"
            if full not in self._asked_nodes and where.startswith(namespace) and name[0] != "_":
                self._ask_parameters(full)

    def _ask_parameters(self, node: str) -> None:
        """Record the parameters in force, whoever set them."""
        if node not in self._parameter_clients:
            self._parameter_clients[node] = (
                self.create_client(ListParameters, f"{node}/list_parameters"),
                self.create_client(GetParameters, f"{node}/get_parameters"),
            )
        names_of, values_of = self._parameter_clients[node]
        if not (names_of.service_is_ready() and values_of.service_is_ready()):
            return  # not up yet: asked again at the next discovery
        self._asked_nodes.add(node)

        def got_names(future: Any) -> None:
            names = list(future.result().result.names)
            asked = values_of.call_async(GetParameters.Request(names=names))
            asked.add_done_callback(lambda f: got_values(names, f))

        def got_values(names: list[str], future: Any) -> None:
            values = [rclpy.parameter.parameter_value_to_python(v) for v in future.result().values]
            record = {name: str(value) for name, value in zip(names, values, strict=True)}
            self.recording.annotate(f"parameters{node}", record)

        names_of.call_async(ListParameters.Request()).add_done_callback(got_names)

    def _pin(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self.recording.event("pinned by hand")
        response.success = not self.recording.failure
        response.message = self.recording.failure or str(self.recording.directory)
        return response

    def _report(self) -> None:
        recording = self.recording
        if recording.directory != self._announced_run:
            self._announced_run = recording.directory
            self._run_name.publish(String(data=str(recording.directory.resolve())))
        dropped, failure = sum(recording.dropped.values()), self._what_is_wrong()
        level, words = DiagnosticStatus.OK, "recording"
        if failure:
            level, words = DiagnosticStatus.ERROR, failure
        elif dropped:
            level, words = DiagnosticStatus.WARN, f"{dropped} messages did not fit the queue"
        elif self._topics.mixed:
            level, words = DiagnosticStatus.WARN, "; ".join(self._topics.mixed.values())
        lost = self._topics.lost
        facts = {
            NAMESPACE: self.get_namespace(),
            "run": recording.directory,
            "received": sum(recording.received.values()),
            "dropped": dropped,
            "lost before the recorder": "unknown" if lost is None else sum(lost.values()),
            "types not installed": ", ".join(sorted(self._topics.unknown)),
        }
        status = messages.diagnosis("recorder", level, words, facts)
        self._diagnostics.publish(messages.stamped(self, status))

    def _what_is_wrong(self) -> str:
        """Why the bag is incomplete, or "". Our own report is a ROS topic as well: if even that
        does not come back, nothing is received."""
        if self.recording.failure or self._failure:
            return self.recording.failure or self._failure
        wire = self._wire_names
        count = sum(n for name, n in self.recording.received.items() if name not in wire)
        silence_s = self._topic_progress.stalled_s(count, time.monotonic())
        return f"no ROS topic has reached the bag for {silence_s:.0f} s" if silence_s else ""


class Progress:
    """Whether a count still grows."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._count, self._since_s = 0, math.inf

    def stalled_s(self, count: int, now_s: float) -> float:
        """For how long it has not grown, if that is too long; otherwise 0."""
        if count != self._count or self._since_s == math.inf:
            self._count, self._since_s = count, now_s
        silence_s = now_s - self._since_s
        return silence_s if silence_s > self._patience_s else 0.0


def build(_: ProcessEnd) -> Sequence[Node]:
    return (Recorder(),)


if __name__ == "__main__":
    prefer_this_process(RECORDER_PRIORITY)
    run(build)
