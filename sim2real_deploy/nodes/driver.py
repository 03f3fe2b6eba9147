"""The `<robot>_driver` node: the robot's topics, services and velocity commands in ROS."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from geometry_msgs.msg import Twist, TwistStamped
from nav_msgs.msg import Odometry
from rclpy.duration import Duration
from rclpy.node import Node
from sensor_msgs.msg import BatteryState, Imu, JointState, Joy
from std_msgs.msg import Float32MultiArray, Float64MultiArray, String, UInt8MultiArray
from std_srvs.srv import Trigger

from sim2real_deploy import topics
from sim2real_deploy.control.adaptation import beliefs
from sim2real_deploy.control.controller import Controller
from sim2real_deploy.control.lease import PAD, PAGE, PLANNER, TELEOP, Source
from sim2real_deploy.control.limits import Limit
from sim2real_deploy.control.modes import REQUESTS, Decision, Mode, ModeEvent, ModeRequest
from sim2real_deploy.control.pad import Pad
from sim2real_deploy.control.pad_map import PadMap
from sim2real_deploy.control.ticks import Ticks
from sim2real_deploy.errors import Refusal
from sim2real_deploy.nodes.common import LATCHED, REPLAYED, SENSOR, heard
from sim2real_deploy.nodes.frames import Frames, Transforms
from sim2real_deploy.nodes.messages import (
    doubles,
    floats,
    labelled,
    labelled_rows,
    set_quaternion,
    set_vector,
)
from sim2real_deploy.nodes.outside_odometry import LEGS, OutsideOdometry
from sim2real_deploy.nodes.typed import open_typed
from sim2real_deploy.nodes.velocity_topic import VelocityTopic
from sim2real_deploy.robots import RobotState
from sim2real_deploy.robots.odometry import LegOdometry
from sim2real_deploy.robots.state import Floats
from sim2real_deploy.wire.remote import BUTTONS, decode

VELOCITY_SOURCES = {
    topics.VELOCITY_TELEOP: TELEOP,
    topics.VELOCITY_PAGE: PAGE,
}

# Standard deviations, as upper bounds for a planner's filter. IMU: rad, rad/s, m/s2.
IMU_DEVIATIONS = {
    "orientation": (0.02, 0.02, 0.05),
    "angular_velocity": (0.02, 0.02, 0.02),
    "linear_acceleration": (0.3, 0.3, 0.3),
}
TWIST_DEVIATIONS = (0.1, 0.1, 0.1, 0.02, 0.02, 0.02)  # of leg odometry: m/s, rad/s
DRIFT = 0.05  # of the distance walked
TURN_DRIFT = 0.01  # rad per metre

Ask = Callable[[ModeRequest], Decision]


class Driver(Node):
    """`show_*` are called by the mirror thread; the callbacks by the executor's."""

    def connect(
        self,
        controller: Controller,
        ask: Ask,
        now_ns: Callable[[], int],
        remote: PadMap,
        gamepad: PadMap,
        odom_source: str = LEGS,
    ) -> None:
        """Everything but the parameters, which must be known before."""
        spec = self._spec = controller.spec
        self._controller, self._ask, self._now_ns = controller, ask, now_ns
        if gamepad.joy is None:
            raise Refusal(f"gamepad '{gamepad.about}': its file has no section `joy`")
        self._joy_layout = gamepad.joy
        self._gamepad = Pad(controller.velocity, gamepad, PAD)
        self._remote = Pad(controller.velocity, remote)
        legs = odom_source == LEGS and LegOdometry.possible(spec)
        self._odometry = LegOdometry(spec) if legs else None
        self._mode: Mode | None = None
        self._policy: str | None = None
        self._holder: str | None = None
        frames = Frames.of(self.get_namespace())
        self._transforms = Transforms(self, spec.name)
        self.typed = open_typed(self, spec.joint_names)
        publish = self.create_publisher
        # Reliable, for navigation, MoveIt and rqt's plots; best-effort readers match as well.
        self._joints = publish(JointState, topics.JOINTS, 10)
        self._odom = publish(Odometry, topics.ODOMETRY, 10)
        self._imu = publish(Imu, topics.IMU, SENSOR)
        self._battery = publish(BatteryState, topics.BATTERY, 10)
        self._heat = publish(Float32MultiArray, topics.TEMPERATURES, SENSOR)
        self._feet = publish(Float32MultiArray, topics.FOOT_FORCES, SENSOR)
        self._outside: OutsideOdometry | None = None
        if odom_source != LEGS:
            self._outside = OutsideOdometry(
                self, odom_source, frames, self._publish_odometry, now_ns
            )
        self._joy = publish(Joy, topics.REMOTE, SENSOR)
        self._modes = publish(String, topics.MODE, LATCHED)
        self._policies = publish(String, topics.POLICY, LATCHED)
        self._leases = publish(String, topics.LEASE, LATCHED)
        self._ticks = publish(Float64MultiArray, topics.TICKS, REPLAYED)
        self._asked = publish(JointState, topics.COMMAND_ASKED, SENSOR)
        self._sent = publish(JointState, topics.COMMAND_SENT, SENSOR)
        self._limits = publish(UInt8MultiArray, topics.COMMAND_LIMITS, SENSOR)
        for topic, source in VELOCITY_SOURCES.items():
            self.create_subscription(Twist, topic, self._listener(source), 10)
        planner = self._listener(PLANNER)
        self._planner = VelocityTopic(self, topics.VELOCITY, planner, self._on_stamped)
        self.create_subscription(Joy, topics.JOY, self._on_joy, 10)
        for event in REQUESTS:
            self.create_service(Trigger, f"~/{event.value}", self._service(ModeRequest(event)))
        for name in controller.repertoire.names:
            request = ModeRequest(ModeEvent.SWITCH, name)
            self.create_service(Trigger, f"~/{topics.switch_to(name)}", self._service(request))
        limit_bits = ",".join(f"{limit.value}={limit.name.lower()}" for limit in Limit)
        self._limit_message = UInt8MultiArray(layout=labelled(spec.joint_names))
        self._limit_message.layout.dim[0].label += f";{limit_bits}"
        self._adaptation_message = Float32MultiArray()
        if controller.adaptation is not None:
            self._adaptation_message.layout = labelled(beliefs.names(controller.adaptation))
            self._adaptation = publish(Float32MultiArray, topics.ADAPTATION, SENSOR)
        # Made once: constructing a message costs more than sending it.
        self._joint_message = JointState(name=list(spec.joint_names))
        self._imu_message, self._odom_message = Imu(), Odometry(child_frame_id=frames.base)
        self._imu_message.header.frame_id = frames.imu
        self._odom_message.header.frame_id = frames.odom
        for field, deviations in IMU_DEVIATIONS.items():
            setattr(self._imu_message, f"{field}_covariance", covariance(deviations))
        self._odom_message.twist.covariance = covariance(TWIST_DEVIATIONS)
        self._walked_m, self._last_position = 0.0, (0.0, 0.0)
        self._heat_message = Float32MultiArray(layout=labelled(spec.joint_names))
        self._feet_message = Float32MultiArray(layout=labelled(tuple(spec.legs)))

    # What comes in

    def _service(self, request: ModeRequest) -> Callable[[Any, Any], Any]:
        def serve(_: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
            decision = self._ask(request)
            response.success, response.message = decision.accepted, decision.words
            return response

        return serve

    def _listener(self, source: Source) -> Callable[[Twist], None]:
        return lambda twist: self._offer(twist, source)

    def _offer(self, twist: Twist, source: Source) -> None:
        velocity = self._controller.velocity
        velocity.offer(twist.linear.x, twist.linear.y, twist.angular.z, self._now_ns(), source)

    def _on_stamped(self, message: TwistStamped) -> None:
        stamp = message.header.stamp
        stamp_ns = stamp.sec * 1_000_000_000 + stamp.nanosec  # Time would raise before 1970
        if is_stale(stamp_ns, self.get_clock().now().nanoseconds):
            self._controller.velocity.rejected += 1
            return
        self._offer(message.twist, PLANNER)

    def _on_joy(self, joy: Joy) -> None:
        held = self._joy_layout.read(joy.axes, joy.buttons)
        request = self._gamepad.update(held, self._now_ns())
        if request is not None:
            self._log(request, self._ask(request))

    def watch_remote(self, state: RobotState) -> ModeRequest | None:
        """Read the sticks; returns the request of a chord, if any. While control is passive, the
        remote belongs to the vendor's own mode, where the same buttons mean something else."""
        request = self._remote.update(decode(state.whole().remote), self._now_ns())
        return None if self._controller.mode is Mode.PASSIVE else request

    def serve_remote(self, request: ModeRequest) -> None:
        self._log(request, self._ask(request))

    def _log(self, request: ModeRequest, decision: Decision) -> None:
        self.get_logger().info(f"remote: {request.words}: {decision.words}")

    # What goes out

    def show_mode(self) -> None:
        mode = self._controller.mode
        if mode is not self._mode:
            self._mode = mode
            self._modes.publish(String(data=mode.words))
            if self.typed is not None:
                self.typed.show_mode(mode, self._controller.reason)
            self.get_logger().info(f"{mode.words} ({self._controller.reason or 'at the start'})")
        policy = self._controller.repertoire.name
        if policy != self._policy:
            self._policy = policy
            self._policies.publish(String(data=policy))
            why = self._controller.walking.switched or "at the start"
            self.get_logger().info(f"policy: {policy or 'none'} ({why})")
        holder = self._controller.velocity.holder(self._now_ns())
        if holder != self._holder:
            self._holder = holder
            self._leases.publish(String(data=holder))
            if self.typed is not None:
                self.typed.show_lease(holder)

    def show_state(self, state: RobotState) -> None:
        """Publish what somebody listens to; odometry is updated in any case."""
        stamp = self._stamp_of(state)
        if heard(self._joints):
            self._show_joints(self._joints, stamp, state.q, state.dq, state.torque)
        if heard(self._imu):
            imu = self._imu_message
            imu.header.stamp = stamp
            set_quaternion(imu.orientation, state.quaternion.tolist())
            set_vector(imu.angular_velocity, state.gyroscope.tolist())
            set_vector(imu.linear_acceleration, state.accelerometer.tolist())
            self._imu.publish(imu)
        if heard(self._feet) and len(feet := state.whole().foot_force):
            self._feet_message.data = floats(feet)
            self._feet.publish(self._feet_message)
        if self._outside is not None:
            self._outside.watch()
        if self._odometry is not None:
            self._odometry.update(state)
            if heard(self._odom) or self._transforms.wanted:
                self._show_odometry(state, self._odometry, stamp)

    def _stamp_of(self, state: RobotState) -> Any:
        """The time of its reception, by ROS's clock."""
        age = Duration(nanoseconds=max(0, self._now_ns() - state.received_ns))
        return (self.get_clock().now() - age).to_msg()

    def _show_joints(
        self, publisher: Any, stamp: Any, position: Floats, velocity: Floats, effort: Floats
    ) -> None:
        message = self._joint_message
        message.header.stamp = stamp
        message.position, message.velocity = doubles(position), doubles(velocity)
        message.effort = doubles(effort)
        publisher.publish(message)

    def _show_odometry(self, state: RobotState, found: LegOdometry, stamp: Any) -> None:
        odom = self._odom_message
        odom.header.stamp = stamp
        x, y, _ = found.position
        self._walked_m += math.dist((x, y), self._last_position)
        self._last_position = x, y
        odom.pose.covariance = covariance(pose_deviations(self._walked_m))
        set_vector(odom.pose.pose.position, found.position)
        set_quaternion(odom.pose.pose.orientation, state.quaternion.tolist())
        set_vector(odom.twist.twist.linear, found.velocity)
        set_vector(odom.twist.twist.angular, state.gyroscope.tolist())
        self._publish_odometry(odom)

    def _publish_odometry(self, odometry: Odometry) -> None:
        self._odom.publish(odometry)
        self._transforms.show(odometry)

    def show_slow(self, state: RobotState) -> None:
        """The slow values: battery and motor temperatures."""
        whole = state.whole()
        battery = BatteryState(present=True, design_capacity=math.nan, capacity=math.nan)
        battery.header.stamp = self.get_clock().now().to_msg()
        battery.voltage = float(whole.voltage)
        battery.current = whole.battery_current_ma / 1000.0
        battery.charge = math.nan
        percent = whole.battery_percent
        battery.percentage = percent / 100.0 if percent >= 0 else math.nan
        battery.power_supply_status = BatteryState.POWER_SUPPLY_STATUS_DISCHARGING
        battery.cell_voltage = floats(whole.cell_millivolts[: self._spec.battery.cells] / 1000.0)
        self._battery.publish(battery)
        self._heat_message.data = floats(whole.temperature)
        self._heat.publish(self._heat_message)

    def show_remote(self, state: RobotState) -> None:
        if not heard(self._joy):
            return
        held = decode(state.whole().remote)
        joy = Joy(axes=[held.lx, held.ly, held.rx, held.ry])
        joy.header.stamp = self.get_clock().now().to_msg()
        joy.buttons = [int(name in held.pressed) for name in BUTTONS]
        self._joy.publish(joy)

    def show_ticks(self, ticks: Ticks, columns: tuple[str, ...]) -> None:
        if self.typed is not None:
            self.typed.show_ticks(ticks)
        if not heard(self._ticks):
            return
        message = Float64MultiArray(layout=labelled_rows(columns, len(ticks.figures)))
        message.data = doubles(ticks.figures)
        self._ticks.publish(message)

    def show_adaptation(self) -> None:
        """Adaptation's estimates and corrections; recorded with everything else."""
        adaptation = self._controller.adaptation
        if adaptation is not None and heard(self._adaptation):
            self._adaptation_message.data = floats(beliefs.values(adaptation))
            self._adaptation.publish(self._adaptation_message)

    def show_commands(self, ticks: Ticks, state: RobotState | None) -> None:
        """The newest command asked and sent, and every limit that acted since the last call."""
        stamp = self.get_clock().now().to_msg()
        for publisher, block in ((self._asked, ticks.asked[-1]), (self._sent, ticks.sent[-1])):
            if heard(publisher):
                q, dq, kp, kd, torque = block
                if state is not None:
                    torque = kp * (q - state.q) + kd * (dq - state.dq) + torque
                self._show_joints(publisher, stamp, q, dq, torque)
        bits = np.bitwise_or.reduce(ticks.limits.astype(np.uint8), axis=0)
        if self.typed is not None:
            self.typed.show_limits(bits.tolist())
        if heard(self._limits):
            self._limit_message.data = bits.tobytes()
            self._limits.publish(self._limit_message)


def covariance(deviations: Sequence[float]) -> list[float]:
    """The covariance matrix, row by row, for independent errors."""
    rows = range(len(deviations))
    return [deviations[i] ** 2 if i == j else 0.0 for i in rows for j in rows]


def pose_deviations(walked_m: float) -> tuple[float, ...]:
    """Standard deviations of the pose: position and heading drift with the distance walked; the IMU
    keeps roll and pitch."""
    drift = 0.02 + DRIFT * walked_m
    return drift, drift, drift, 0.02, 0.02, 0.05 + TURN_DRIFT * walked_m


def is_stale(stamp_ns: int, now_ns: int) -> bool:
    """Whether a stamped command is too old or from another clock. A stamp far in the future comes
    from the wall clock while this node runs on simulated time, or while no clock is published. Zero
    means that the message has no stamp."""
    return bool(stamp_ns) and abs(now_ns - stamp_ns) > PLANNER.heartbeat_ns
