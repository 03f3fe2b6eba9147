"""What every node process shares: parameters from a table, one way to start, spin and stop.

A separate thread takes the signals, so that Ctrl-C reaches the control loop at once and not when
the executor next wakes up.
"""

import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NoReturn

import rclpy
from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.clock import Clock, ClockType  # type: ignore[attr-defined]
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions

from sim2real_deploy.errors import Refusal
from sim2real_deploy.paths import config_file
from sim2real_deploy.runtime.parent import end_with_parent
from sim2real_deploy.runtime.realtime import drop_unread_output
from sim2real_deploy.runtime.stop_order import LAUNCHER_PID, StopTurn, stop_signals

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
# For bit-exact replay: reliable, and ten seconds deep in case the recorder is delayed.
REPLAYED = QoSProfile(depth=500)
SENSOR = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
NAMESPACE = "namespace"  # of the robot that a status on /diagnostics, which has none, is about
FAST_DDS = "rmw_fastrtps_cpp"
TRANSPORT = "FASTDDS_BUILTIN_TRANSPORTS"
RANGE = "ROS_AUTOMATIC_DISCOVERY_RANGE"
LOCALHOST_ONLY = "ROS_LOCALHOST_ONLY"  # Humble's equivalent of the discovery range
PROFILES = "FASTDDS_DEFAULT_PROFILES_FILE"
PROFILES_BEFORE_3 = "FASTRTPS_DEFAULT_PROFILES_FILE"  # Humble, Jazzy; Fast DDS 3 warns about it
KILTED = 9  # rclpy's major version there: the first ROS 2 with Fast DDS 3
# Ctrl-Z reaches every process of a bring-up: the robot would go on with nobody to watch it.
NO_PAUSE = (signal.SIGTSTP, signal.SIGTTOU)
REPEATED_S = 0.3  # a second signal sooner than this is a duplicate of the first
CLOSING_S = 10.0  # sitting down takes a few seconds; after these, something hangs


@dataclass(frozen=True, slots=True)
class Parameter:
    """One ROS parameter: its default determines the type, `bounds` the permitted range."""

    name: str
    default: bool | int | float | str
    description: str
    bounds: tuple[float, float] | None = None
    choices: tuple[str, ...] = ()
    read_only: bool = True

    def descriptor(self) -> ParameterDescriptor:
        descriptor = ParameterDescriptor(description=self.description, read_only=self.read_only)
        if self.choices:
            descriptor.additional_constraints = "one of: " + ", ".join(self.choices)
        if self.bounds is not None:
            low, high = self.bounds
            if isinstance(self.default, float):
                descriptor.floating_point_range = [
                    FloatingPointRange(from_value=float(low), to_value=float(high))
                ]
            else:
                descriptor.integer_range = [
                    IntegerRange(from_value=int(low), to_value=int(high), step=1)
                ]
        return descriptor


ROBOT = Parameter("robot", "go2", "Robot: a name in config/robots, or a file of that form.")
INTERFACE = Parameter("interface", "lo", "Network interface of the robot's DDS; never guessed.")
DOMAIN = Parameter("domain", 0, "DDS domain of the robot's own bus (0 on the robot).", (0, 232))
WIRE = (ROBOT, INTERFACE, DOMAIN)
FOREIGN_SIMULATOR = Parameter(
    "foreign_simulator", False, "Another project's simulator: no motion switcher, battery, remote."
)
CLOCK = Parameter("clock", "", "Name of a twin's clock, which may wait; '' for a robot's.")


def declare(node: Node, parameters: Iterable[Parameter]) -> dict[str, Any]:
    """Declare each parameter and return the values in force; a bad override is a Refusal."""
    values: dict[str, Any] = {}
    for parameter in parameters:
        try:
            value: Any = node.declare_parameter(
                parameter.name, parameter.default, parameter.descriptor()
            ).value
        except (InvalidParameterTypeException, InvalidParameterValueException) as error:
            raise Refusal(f"{node.get_name()}: parameter '{parameter.name}': {error}") from None
        if isinstance(value, float) and not math.isfinite(value):  # NaN is inside of any range
            raise Refusal(f"{node.get_name()}: parameter '{parameter.name}' is {value}: no number")
        if parameter.choices and value not in parameter.choices:
            raise Refusal(
                f"{node.get_name()}: parameter '{parameter.name}' is '{value}'; "
                f"it is one of: {', '.join(parameter.choices)}"
            )
        values[parameter.name] = value
    return values


def wait_for_no_log() -> None:
    """Before `run`, in a process with a loop. A log call holds the interpreter while it writes, and
    with it the loop: behind a launcher that is stopped, a terminal that hangs, or a disk that is
    busy with a bag. So unread lines are dropped and no file is written; /rosout is in the bag."""
    drop_unread_output()
    sys.argv += ["--ros-args", "--disable-external-lib-logs"]


def every(node: Node, seconds: float, action: Callable[[], None]) -> Any:
    """A timer by the monotonic clock. rclpy's own keeps the wall clock's time, or the simulated
    one's: when that is set back, or nobody publishes it, the timer rests until it has caught up."""
    return node.create_timer(seconds, action, clock=Clock(clock_type=ClockType.STEADY_TIME))


def heard(publisher: Any) -> bool:
    """Whether anybody subscribes; asking is cheaper than making a message."""
    return bool(publisher.get_subscription_count())


class ProcessEnd:
    """A request to end the process, with an exit code; any thread may make it. The first nonzero
    code counts: a process that was ended by a signal may still report a failure."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.urgent = threading.Event()  # requested twice: do not take the time to sit down
        self.exit_code = 0
        self.signalled = False  # by a signal, perhaps to every process of the bring-up
        self._wake: list[Callable[[], None]] = []

    def on_request(self, action: Callable[[], None]) -> None:
        """Also call this, in the requesting thread, when the end is requested."""
        self._wake.append(action)

    def request(self, exit_code: int = 0) -> None:
        self.exit_code = self.exit_code or exit_code
        if not self.event.is_set():
            self.event.set()
            for action in self._wake:
                action()


def run(build: Callable[[ProcessEnd], Sequence[Node]]) -> NoReturn:
    """Run one node process: build the nodes, spin, and on the way out close them in reverse.

    A node cleans up in its `close()` (control damps there), which is called however the process
    ends, also by an exception in a callback.
    """
    stop = ProcessEnd()
    _watch_signals(stop)
    _end_with_launcher()
    place = StopTurn()
    talk_by_sockets(os.environ)
    try:
        rclpy.init(args=sys.argv, signal_handler_options=SignalHandlerOptions.NO)
    except RuntimeError as error:
        sys.exit(f"the ROS arguments cannot be read: {error}")
    nodes: Sequence[Node] = ()
    try:
        nodes = build(stop)
        executor = SingleThreadedExecutor()
        stop.on_request(executor.wake)
        for node in nodes:
            executor.add_node(node)
        while not stop.event.is_set():
            executor.spin_once(timeout_sec=0.5)
        if stop.signalled:
            place.wait_turn()
    except Refusal as refusal:
        print(refusal, file=sys.stderr, flush=True)
        stop.request(2)
    finally:
        for node in reversed(nodes):
            close = getattr(node, "close", None)
            if close is not None:
                close()
            node.destroy_node()
        rclpy.try_shutdown()
        place.leave()
    sys.exit(stop.exit_code)


def _profile_names() -> tuple[str, ...]:
    """Where this ROS 2's Fast DDS looks for a profile; both names if its version is unknown."""
    try:
        major = int(version("rclpy").split(".")[0])
    except PackageNotFoundError:
        return PROFILES, PROFILES_BEFORE_3
    return (PROFILES if major >= KILTED else PROFILES_BEFORE_3,)


def talk_by_sockets(environment: MutableMapping[str, str]) -> None:
    """Keep Fast DDS off shared memory, unless the user has chosen a transport.

    A killed process (the supervisor kills a hanging control) leaves locks there on which others may
    wait forever. Sockets have no such locks and cost no more here. The discovery range LOCALHOST
    would enable shared memory again, so our own profile replaces it.
    """
    if environment.get("RMW_IMPLEMENTATION", FAST_DDS) != FAST_DDS or TRANSPORT in environment:
        return
    environment[TRANSPORT] = "UDPv4"
    chosen = environment.keys() & {PROFILES, PROFILES_BEFORE_3, "ROS_STATIC_PEERS"}
    if environment.get(RANGE) == "LOCALHOST" and not chosen:
        for name in _profile_names():
            environment[name] = str(config_file("fastdds_localhost.xml"))
        environment[RANGE] = "SYSTEM_DEFAULT"
        environment.pop(LOCALHOST_ONLY, None)


def _watch_signals(stop: ProcessEnd) -> None:
    """Turn signals into a stop request, in a thread that only waits for them.

    Python runs handlers in the main thread, which may be busy in the executor; the wake-up
    descriptor is written as soon as the signal arrives, in any thread.
    """
    read_end, write_end = socket.socketpair()
    write_end.setblocking(False)
    for number in stop_signals():
        signal.signal(number, lambda *_: None)
    for number in NO_PAUSE:
        signal.signal(number, signal.SIG_IGN)
    signal.set_wakeup_fd(write_end.fileno(), warn_on_full_buffer=False)

    def watch() -> None:
        with write_end:
            read_end.recv(1)
            stop.signalled = True
            stop.request()
            asked = time.monotonic()
            while read_end.recv(1):
                if time.monotonic() - asked > REPEATED_S:
                    stop.urgent.set()
                if time.monotonic() - asked > CLOSING_S:  # something hangs while closing
                    os._exit(1)

    threading.Thread(target=watch, name="signals", daemon=True).start()


def _end_with_launcher() -> None:
    """Have the kernel interrupt this process when its launcher dies: no node may outlive it."""
    launcher = os.environ.get(LAUNCHER_PID)
    if launcher is None:
        return
    end_with_parent(int(launcher), signal.SIGINT)
