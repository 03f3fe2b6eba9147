"""A run recorded without waiting for it: the real control loop on the twin, in lockstep."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from nav_msgs.msg import Odometry
from rclpy.serialization import serialize_message
from std_msgs.msg import Float32MultiArray, Float64MultiArray, String

from sim2real_deploy import paths, topics
from sim2real_deploy.bags import BagWriter, Message, Qos, Topic, definitions
from sim2real_deploy.bags.runs import attached
from sim2real_deploy.control.adaptation import beliefs, open_adaptation
from sim2real_deploy.control.controller import Controller
from sim2real_deploy.control.loop import ControlLoop
from sim2real_deploy.control.modes import Mode, ModeEvent
from sim2real_deploy.control.repertoire import Fallback, Repertoire
from sim2real_deploy.control.stages import load_stage
from sim2real_deploy.control.supervision import Unsupervised
from sim2real_deploy.nodes.messages import doubles, floats, labelled, labelled_rows
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.robots import load_robot
from sim2real_deploy.safety.settings import load_events
from sim2real_deploy.twin.robot import TwinRobot
from sim2real_deploy.wire.in_process import InProcessLink
from sim2real_deploy.wire.messages import FAMILIES

POLICY = paths.share_directory() / "policies/go2_walk"
EPOCH_NS = 1_700_000_000_000_000_000


class _Tapped:
    """The twin, with every sample that goes in or out handed to a listener."""

    def __init__(self, twin: TwinRobot, listen: Callable[[str, int, bytes], None]) -> None:
        self.twin = twin
        self._listen = listen

    def now_ns(self) -> int:
        return self.twin.now_ns()

    def advance(self, command: bytes | None) -> bytes | None:
        if command is not None:
            self._listen("lowcmd", self.now_ns(), command)
        state = self.twin.advance(command)
        if state is not None:
            self._listen("lowstate", self.now_ns(), state)
        return state


class _Simulation:
    def __init__(
        self,
        path: Path,
        policies: Sequence[Path],
        twin: TwinRobot | None,
        preset: str,
        adaptation: str,
        fallback: str,
    ) -> None:
        self.robot = load_robot("go2")
        bundles = [load_bundle(policy, self.robot) for policy in policies]
        bundle = bundles[0]
        attachments = {"robot.json": self.robot.model_dump_json().encode()}
        for place, known in enumerate(bundles):
            attachments[attached("policy.onnx", place)] = known.model
            content = (policies[place] / "policy.yaml").read_bytes()
            attachments[attached("policy.yaml", place)] = content
        information = {"robot": "go2", "stage": "field", "policy": bundle.contract.name}
        information["policy_sha256"] = bundle.contract.sha256
        information["policies"] = ",".join(known.contract.name for known in bundles)
        information["epoch_minus_monotonic_ns"] = str(EPOCH_NS)
        self.writer = BagWriter(path, information, attachments)
        self.batch: list[Message] = []
        family = FAMILIES[self.robot.wire.family]
        for name, layout in (("lowstate", family.state), ("lowcmd", family.command)):
            definition = definitions.of_wire(layout)
            self.writer.add_topic(Topic(f"/wire/{name}", *definition, Qos("best_effort")))
        if preset:
            self.writer.annotate("parameters/twin", {"preset": preset})
        self.twin = twin or TwinRobot(self.robot)
        self.link = InProcessLink(self.robot, _Tapped(self.twin, self._on_wire))
        adapts = open_adaptation(self.robot, adaptation)
        events = load_events(self.robot, "field")
        self.repertoire = Repertoire(
            [known.open() for known in bundles],
            Fallback.before_stop(fallback, events) if fallback else None,
        )
        self.controller = Controller(self.robot, load_stage("field"), self.repertoire, adapts)
        self.loop = ControlLoop(self.link, self.controller, Unsupervised())
        self.controller.situation.sport_released = True
        self.mode: Mode | None = None

    def _on_wire(self, name: str, now_ns: int, data: bytes) -> None:
        self.batch.append(Message(EPOCH_NS + now_ns, f"/wire/{name}", EPOCH_NS + now_ns, 0, data))

    def publish(self, topic: str, message: Any, latched: bool = False) -> None:
        if topic not in self.writer.topics:
            qos = Qos("reliable", "transient_local" if latched else "volatile")
            self.writer.add_topic(Topic(topic, *definitions.of_class(type(message)), qos))
        now_ns = EPOCH_NS + self.link.now_ns()
        self.batch.append(Message(now_ns, topic, now_ns, 0, serialize_message(message)))

    def run(self, seconds: float, until: Mode | None = None) -> None:
        end_ns = self.link.now_ns() + int(seconds * 1e9)
        while self.link.now_ns() < end_ns and self.controller.mode is not until:
            for _ in range(10):
                self.loop.cycle()
            self._mirror()
        if until is not None:
            assert self.controller.mode is until, self.controller.reason

    def ask(self, event: ModeEvent) -> None:
        decision = self.controller.request(event, self.link.now_ns())
        assert decision.accepted, decision.words

    def _mirror(self) -> None:
        """What the nodes publish of the loop, fifty times a second."""
        ticks = self.loop.ticks.drain()
        for place, policy in enumerate(self.controller.repertoire.policies):
            stepped, part = ticks.steps_of(place), topics.part(policy.contract.name, place)
            for topic, names, values in (
                (f"/policy/{part}observation", policy.labels, ticks.observations[place][stepped]),
                (f"/policy/{part}action", policy.contract.joints, ticks.actions[place][stepped]),
                (f"/policy/{part}estimates", policy.estimated, ticks.estimates[place][stepped]),
            ):
                for row in values if names else ():
                    self.publish(topic, Float32MultiArray(layout=labelled(names), data=floats(row)))
        layout = labelled_rows(self.loop.ticks.columns, len(ticks.figures))
        data = doubles(ticks.figures.ravel())
        self.publish("/control/ticks", Float64MultiArray(layout=layout, data=data))
        adaptation = self.controller.adaptation
        if adaptation is not None:
            layout, data = labelled(beliefs.names(adaptation)), floats(beliefs.values(adaptation))
            self.publish("/control/adaptation", Float32MultiArray(layout=layout, data=data))
        if self.controller.mode is not self.mode:
            self.mode = self.controller.mode
            self.publish("/control/mode", String(data=self.mode.words), latched=True)
        truth = self.twin.truth
        odometry = Odometry()
        velocity = odometry.twist.twist.linear
        yaw = np.arctan2(*_yaw_parts(truth.quaternion))
        velocity.x = float(np.cos(yaw) * truth.velocity[0] + np.sin(yaw) * truth.velocity[1])
        velocity.y = float(np.cos(yaw) * truth.velocity[1] - np.sin(yaw) * truth.velocity[0])
        odometry.twist.twist.angular.z = float(truth.rate[2])
        self.publish("/odom", odometry)
        if len(self.batch) > 1000:
            self.writer.write(self.batch)
            self.batch.clear()

    def close(self) -> None:
        if self.batch:
            self.writer.write(self.batch)
        self.writer.close()


def _yaw_parts(q: Any) -> tuple[float, float]:
    w, x, y, z = q
    return 2 * (w * z + x * y), 1 - 2 * (y * y + z * z)


def record_walk(
    path: Path,
    seconds: float,
    policy: Path = POLICY,
    *,
    twin: TwinRobot | None = None,
    preset: str = "",
    adaptation: str = "none",
    commands: Sequence[tuple[float, float, float]] = ((0.4, 0.0, 0.2),),
    others: Sequence[Path] = (),
    switch_every_s: float = 0.0,
    fallback: str = "",
    meanwhile: Callable[[Repertoire, float], None] = lambda *_: None,
) -> None:
    """Stand up, walk for so long (each command its share), sit down; the bag is closed in order.

    Without a twin it is the ideal one. `preset` goes into the bag as the twin node's parameter.
    With `others` it switches to the next policy every so often; `meanwhile` is called with the
    policies and the seconds walked.
    """
    simulation = _Simulation(path, (policy, *others), twin, preset, adaptation, fallback)
    simulation.run(0.1)
    simulation.ask(ModeEvent.STAND)
    simulation.run(8.0, until=Mode.STANDING)
    simulation.ask(ModeEvent.WALK)
    began_ns, switches = simulation.link.now_ns(), 0
    for command in commands:
        end_ns = simulation.link.now_ns() + int(seconds / len(commands) * 1e9)
        while simulation.link.now_ns() < end_ns:
            simulation.controller.velocity.offer(*command, simulation.link.now_ns())
            walked_s = (simulation.link.now_ns() - began_ns) / 1e9
            meanwhile(simulation.repertoire, walked_s)
            if switch_every_s and walked_s > (switches + 1) * switch_every_s:
                switches += simulation.controller.switch("", simulation.link.now_ns()).accepted
            simulation.run(0.1)
    assert simulation.controller.mode is Mode.WALKING, simulation.controller.reason
    simulation.ask(ModeEvent.SIT)
    simulation.run(8.0, until=Mode.DAMPING)
    simulation.close()
