"""The twin as a ROS node: the robot on the wire, and its ground truth and faults in ROS.

The robot itself does not use ROS: control talks to the twin as it does to the robot.
"""

import threading
from collections.abc import Sequence

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import Wrench
from nav_msgs.msg import Odometry
from rclpy.node import Node
from rclpy.time import Time
from rosgraph_msgs.msg import Clock
from std_msgs.msg import Float32MultiArray, String
from std_srvs.srv import Trigger

from sim2real_deploy import topics
from sim2real_deploy.errors import Refusal
from sim2real_deploy.nodes import messages
from sim2real_deploy.nodes.common import (
    CLOCK,
    LATCHED,
    SENSOR,
    WIRE,
    Parameter,
    ProcessEnd,
    declare,
    every,
    heard,
    run,
)
from sim2real_deploy.nodes.frames import Frames
from sim2real_deploy.policy.contract import listed, load_contract
from sim2real_deploy.policy.height_grid import HEIGHT_SCAN, HeightGrid, height_grid
from sim2real_deploy.robots import load_robot
from sim2real_deploy.runtime.core_beats import CoreBeats
from sim2real_deploy.runtime.realtime import calm_interpreter, prefer_this_process
from sim2real_deploy.runtime.world_clock import TwinClock, WorldClock, open_page
from sim2real_deploy.twin.disturbances import Push
from sim2real_deploy.twin.files import load_imperfections
from sim2real_deploy.twin.floors import FLOORS, named_floor
from sim2real_deploy.twin.height_scan import TYPICAL, HeightScan
from sim2real_deploy.twin.mount import Mount
from sim2real_deploy.twin.on_wire import TwinOnWire
from sim2real_deploy.twin.requests import parse
from sim2real_deploy.twin.robot import BaseTruth, TwinRobot
from sim2real_deploy.twin.session import describe

PARAMETERS = (
    *WIRE,
    CLOCK,
    Parameter("floor", "flat", "Floor that the twin stands on.", choices=tuple(FLOORS)),
    Parameter("preset", "default", "Twin preset: a name in config/twins, or ideal."),
    Parameter("mount", "free", "How the trunk is held.", choices=("free", "fixed", "hung")),
    Parameter("seed", 0, "Seed of the rough floor and of all noise.", (0, 2**31 - 1)),
    Parameter("sport_mode", True, "Vendor's sport mode on at boot, as on the robot."),
    Parameter("odometry_rate", 50.0, "Ground truth on ~/odom, Hz.", (1.0, 200.0)),
    Parameter("policy", "", "Policies that may walk; those that observe heights get a map."),
    Parameter("publish_clock", False, "Simulated time on /clock, for use_sim_time elsewhere."),
    Parameter("push_duration", 0.1, "Seconds that a force on ~/push lasts.", (0.01, 10.0)),
)


class Twin(Node):
    def __init__(self, stop: ProcessEnd) -> None:
        super().__init__("twin")
        self._values = declare(self, PARAMETERS)
        self._stop = stop
        values = self._values
        body = TwinRobot(
            load_robot(values["robot"]),
            named_floor(values["floor"], values["seed"]),
            load_imperfections(values["preset"], values["robot"]),
            seed=values["seed"],
            sport_mode=values["sport_mode"],
            mount=Mount(kind=values["mount"]),
        )
        clock = self._keep_clock(values["domain"], values["clock"])
        self._on_wire = TwinOnWire(body, values["interface"], values["domain"], clock)
        self._odometry = self.create_publisher(Odometry, "~/odom", SENSOR)
        grid = grid_for(values["policy"])
        self._map = None if grid is None else TwinMap(self, body, grid, values["seed"])
        self._clock_publisher = (
            self.create_publisher(Clock, "/clock", SENSOR) if values["publish_clock"] else None
        )
        self._faults = self.create_publisher(String, "~/faults", LATCHED)
        self._diagnostics = self.create_publisher(DiagnosticArray, topics.DIAGNOSTICS, 10)
        self.create_subscription(String, "~/fault", self._on_request, 10)
        self.create_subscription(Wrench, "~/push", self._on_push, 10)
        self.create_service(Trigger, "~/clear_faults", self._on_clear)
        # In its own thread: an executor's timer would cost twenty times as much.
        self._mirror = threading.Thread(target=self._publish_truth, name="truth")
        every(self, 1.0, self._report)
        self._told_faults: str | None = None
        self._tell_faults()
        calm_interpreter()
        if self._beats is not None:
            self._beats.start()
        self._on_wire.start()
        self._mirror.start()
        self.get_logger().info(
            f"{body.robot.title} twin on '{values['interface']}', domain {values['domain']}, "
            f"floor {values['floor']}, preset {values['preset']}"
        )

    def close(self) -> None:
        self._stop.request()
        self._mirror.join()
        self._on_wire.close()
        if self._beats is not None:
            self._beats.close()

    def _keep_clock(self, domain: int, name: str) -> WorldClock:
        """The clock of this robot's world; if it has a name, this process keeps it."""
        self._beats: CoreBeats | None = None
        if not name:
            return WorldClock()
        page = open_page(self.get_namespace(), domain, name)
        self._beats = CoreBeats(page)
        return TwinClock(page)

    def _on_request(self, message: String) -> None:
        try:
            self._on_wire.ask(parse(message.data).apply)
        except Refusal as refusal:
            self.get_logger().error(str(refusal))
        self._tell_faults()

    def _on_push(self, message: Wrench) -> None:
        vector = np.array((message.force.x, message.force.y, message.force.z))
        force = float(np.linalg.norm(vector))
        try:
            push = Push(
                force=force, direction=tuple(vector), duration=self._values["push_duration"]
            )
        except ValueError:
            self.get_logger().error(f"~/push: a force of {force:g} N is not possible")
            return
        self._on_wire.ask(lambda twin: twin.push(push))

    def _on_clear(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self._on_wire.ask(lambda twin: twin.clear_faults())
        self._tell_faults()
        response.success, response.message = True, "no fault is in force"
        return response

    def _tell_faults(self) -> None:
        active = self._on_wire.twin.faults.active
        text = "[" + ", ".join(f.model_dump_json(exclude_none=True) for f in active) + "]"
        if text != self._told_faults:
            self._faults.publish(String(data=text))
            self._told_faults = text

    def _publish_truth(self) -> None:
        message = Odometry(child_frame_id=Frames.of(self.get_namespace()).base)
        message.header.frame_id = "world"
        try:
            while not self._stop.event.wait(1 / self._values["odometry_rate"]):
                if self._on_wire.stopped:
                    self._on_wire.check()
                if self._clock_publisher is not None:
                    now = Time(nanoseconds=self._on_wire.twin.now_ns())
                    self._clock_publisher.publish(Clock(clock=now.to_msg()))
                told = heard(self._odometry)
                if not told and self._map is None:
                    continue
                truth = self._on_wire.ask(lambda twin: twin.base_truth)
                if told:
                    self._tell_truth(truth, message)
                if self._map is not None:
                    self._map.look(self._on_wire.twin.now_ns(), truth)
        except Exception as error:
            self.get_logger().fatal(f"the twin failed: {error!r}")
            self._stop.request(1)

    def _tell_truth(self, truth: BaseTruth, message: Odometry) -> None:
        message.header.stamp = self.get_clock().now().to_msg()
        pose, twist = message.pose.pose, message.twist.twist
        messages.set_vector(pose.position, truth.position.tolist())
        messages.set_quaternion(pose.orientation, truth.quaternion.tolist())
        messages.set_vector(twist.linear, truth.body_velocity.tolist())
        messages.set_vector(twist.angular, truth.rate.tolist())
        self._odometry.publish(message)

    def _report(self) -> None:
        self._tell_faults()
        counters, timing = self._on_wire.twin.boards.counters, self._on_wire.timing
        level = DiagnosticStatus.WARN if counters.rejected else DiagnosticStatus.OK
        facts = {
            "commands accepted": counters.accepted,
            "commands rejected": counters.rejected,
            "command timeouts": counters.timeouts,
            "periods": timing.periods,
            "late periods": timing.late,
            "skipped s": round(timing.skipped_s, 3),
        }
        status = messages.diagnosis("twin", level, describe(self._on_wire), facts)
        self._diagnostics.publish(messages.stamped(self, status))


class TwinMap:
    """Publishes height scans with the errors of a real map: noise, delay and holes.

    On the robot the user's own mapping publishes on this topic.
    """

    def __init__(self, node: Node, body: TwinRobot, grid: HeightGrid, seed: int) -> None:
        self._scan = HeightScan(body.floor, grid, TYPICAL, seed)
        self._publisher = node.create_publisher(Float32MultiArray, topics.extra(HEIGHT_SCAN), 1)

    def look(self, now_ns: int, truth: BaseTruth) -> None:
        heights = self._scan.look(now_ns / 1e9, truth)
        if heights is not None:
            self._publisher.publish(Float32MultiArray(data=heights))


def grid_for(policies: str) -> HeightGrid | None:
    """The grid of the first policy in a comma-separated list that observes heights, if any does."""
    grids = (height_grid(load_contract(name)) for name in listed(policies))
    return next((grid for grid in grids if grid is not None), None)


def build(stop: ProcessEnd) -> Sequence[Node]:
    return (Twin(stop),)


if __name__ == "__main__":
    prefer_this_process()
    run(build)
