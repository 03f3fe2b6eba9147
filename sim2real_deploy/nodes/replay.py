"""Plays a bag into ROS, so that rqt, Foxglove or the dashboard show a run again. Space pauses."""

import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock

from sim2real_deploy.bags import Bag, Message, Topic, definitions
from sim2real_deploy.bags.playback import PlaybackClock
from sim2real_deploy.errors import Refusal
from sim2real_deploy.nodes.common import Parameter, ProcessEnd, declare, every, run
from sim2real_deploy.nodes.keyboard import raw_terminal
from sim2real_deploy.topics import DIAGNOSTICS, JOY, VELOCITY

PARAMETERS = (
    Parameter("bag", "", "The bag: a directory or an .mcap file."),
    Parameter("rate", 1.0, "Times real time.", (0.01, 100.0)),
    Parameter("start", 0.0, "Seconds into the bag to start at.", (0.0, 1e6)),
    Parameter("loop", False, "Begin again at the end."),
)
LISTEN_S = 3.5  # before playing: a running node announces itself every 3 s
MATCH_S = 3.0  # at most, until subscribers are connected
GLOBAL = frozenset(("/rosout", "/parameter_events", DIAGNOSTICS, "/clock"))
COMMANDS = (f"/{VELOCITY}", f"/{JOY}")
PATIENCE_S = 0.1
CLOCK_S = 0.02


class Replay(Node):
    def __init__(self, stop: ProcessEnd) -> None:
        super().__init__("replay", enable_rosout=False)
        values = declare(self, PARAMETERS)
        self._bag = Bag(Path(values["bag"]))
        self._loop = values["loop"]
        self._start_s = values["start"]
        self._rate = values["rate"]
        self._stop = stop
        self._outputs: dict[str, Publisher[Any]] = {}
        self._playback: PlaybackClock | None = None
        self._thread = threading.Thread(target=self._run, name="playback")
        self.get_logger().info("checking that no stack is running here")
        if stop.event.wait(LISTEN_S):
            return
        self._check_nobody_else()
        for topic in self._bag.topics.values():
            self._advertise(topic)
        self._clock_output = self.create_publisher(Clock, "/clock", 10)
        every(self, CLOCK_S, self._publish_clock)
        every(self, LISTEN_S, self._check_nobody_else)  # discovery may have been slow
        for problem in self._bag.problems:
            self.get_logger().warning(problem)
        self._thread.start()

    def close(self) -> None:
        self._stop.request()
        if self._thread.ident is not None:
            self._thread.join()

    def _check_nobody_else(self) -> None:
        """A recorded command played into a running stack would move its robot."""
        for name in self._bag.topics.keys() - GLOBAL:
            others = self.count_publishers(name) - (name in self._outputs)
            obeyed = name.endswith(COMMANDS) and self.count_subscribers(name)
            if others or obeyed:
                raise Refusal(
                    f"'{name}' is in use here: a stack is running. Playing a recording into it "
                    "could move its robot; play it under another ROS_DOMAIN_ID"
                )

    def _advertise(self, topic: Topic) -> None:
        kind = definitions.message_class(topic.type)
        if topic.name in GLOBAL - {DIAGNOSTICS} or kind is None:
            return  # our own clock and parameters, or types of the vendor that ROS lacks here
        profile = QoSProfile(
            depth=topic.qos.depth,
            reliability=ReliabilityPolicy[topic.qos.reliability.upper()],
            durability=DurabilityPolicy[topic.qos.durability.upper()],
        )
        self._outputs[topic.name] = self.create_publisher(kind, topic.name, profile)

    def _run(self) -> None:
        deadline = time.monotonic() + MATCH_S
        while not self._all_matched() and time.monotonic() < deadline:
            self._stop.event.wait(0.05)
        with _keys_to(self._on_key):
            self._play()
            while self._loop and not self._stop.event.is_set():
                self._play()
        self._stop.request()

    def _all_matched(self) -> bool:
        return all(
            output.get_subscription_count() >= self.count_subscribers(name)
            for name, output in self._outputs.items()
        )

    def _play(self) -> None:
        """Play once; latched messages from before the start come first."""
        topics = [topic for name, topic in self._bag.topics.items() if name in self._outputs]
        latched: dict[str, Message] = {}
        clock: PlaybackClock | None = None
        start_ns: int | None = None
        for message in self._bag.messages(topics):
            if start_ns is None:
                start_ns = message.log_ns + int(self._start_s * 1e9)
            if message.log_ns < start_ns:
                if self._bag.topics[message.topic].qos.durability == "transient_local":
                    latched[message.topic] = message
                continue
            if clock is None:
                clock = self._playback = PlaybackClock(start_ns, self._rate, time.monotonic_ns())
                self.get_logger().info(f"playing {self._bag.path}; space pauses")
                for earlier in latched.values():
                    self._outputs[earlier.topic].publish(earlier.data)
            while (left_s := clock.wait_s(message.log_ns, time.monotonic_ns())) > 0:
                if self._stop.event.wait(min(left_s, PATIENCE_S)):
                    return
            self._outputs[message.topic].publish(message.data)
        if clock is None:
            self.get_logger().warning(f"the bag ends before {self._start_s:g} s")
            self._loop = False

    def _on_key(self, key: str) -> None:
        if key == " " and self._playback is not None:
            self._playback.toggle_pause(time.monotonic_ns())
            self.get_logger().info("paused" if self._playback.paused else "goes on")

    def _publish_clock(self) -> None:
        if self._playback is not None:
            now_ns = self._playback.position(time.monotonic_ns())
            message = Clock()
            message.clock.sec, message.clock.nanosec = divmod(now_ns, 1_000_000_000)
            self._clock_output.publish(message)


@contextmanager
def _keys_to(on_key: Callable[[str], None]) -> Iterator[None]:
    """Hands on single keys as they are pressed; none if standard input is not a terminal."""
    if not sys.stdin.isatty():
        yield
        return
    over = threading.Event()
    with raw_terminal() as terminal:

        def read() -> None:
            while not over.is_set():
                if select.select([terminal], [], [], PATIENCE_S)[0]:
                    on_key(os.read(terminal, 1).decode("ascii", "ignore"))

        thread = threading.Thread(target=read, name="keys")
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def build(stop: ProcessEnd) -> Sequence[Node]:
    return (Replay(stop),)


if __name__ == "__main__":
    run(build)
