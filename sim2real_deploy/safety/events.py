"""The events table: one row per fault. Adding a fault is adding a row (and what it watches).

A row names a measurement, its threshold, how long it may be exceeded, the reaction, and the text
shown to people. Robots and stages may set threshold, time and reaction in config/safety.yaml,
within the bounds that the row itself carries: a file cannot switch safety off.
"""

from dataclasses import dataclass
from enum import IntEnum
from math import inf

from sim2real_deploy.robots.spec import RobotSpec
from sim2real_deploy.safety.chain import Stop


class Reaction(IntEnum):
    """What an event does, from mild to severe; the most severe one in force wins."""

    NOTE = 0  # reported, nothing else
    WARN = 1
    DERATE = 2  # less torque
    REFUSE_START = 3  # a standing robot may go on, a lying one stays down
    STOP = 4  # sit down, then damp; latched
    ESTOP = 5  # damp at once; latched

    @property
    def stop(self) -> Stop:
        return {Reaction.STOP: Stop.STOP, Reaction.ESTOP: Stop.ESTOP}.get(self, Stop.NONE)


@dataclass(frozen=True, slots=True)
class Event:
    key: str
    watches: str  # the monitor's reading
    threshold: float
    unit: str
    time_s: float  # how long the threshold may be exceeded
    reaction: Reaction
    text: str  # what happened, with {value} and {where}
    remedy: str  # what to do about it
    bounds: tuple[float, float]  # range in which a file may set the threshold
    weakest: Reaction  # the mildest reaction a file may set
    longest_s: float = 0.0  # the longest time a file may set
    below: bool = False  # exceeded when below the threshold

    def exceeded(self, value: float) -> bool:
        """NaN always exceeds: what cannot be judged is not fine."""
        return not (value >= self.threshold if self.below else value <= self.threshold)

    def describe(self, value: float, where: str) -> str:
        return self.text.format(value=f"{value:.3g} {self.unit}".rstrip(), where=where)


def events_for(robot: RobotSpec) -> tuple[Event, ...]:
    """The table with this robot's limits."""
    return (
        *_people(),
        *_state(),
        *_posture(),
        *_motion(),
        *_joints(),
        *_heat(robot),
        *_battery(robot),
        *_control(),
        *_surroundings(),
    )


NOTE, WARN, DERATE, REFUSE_START, STOP, ESTOP = Reaction


def _people() -> tuple[Event, ...]:
    return (
        Event("estop_called", "estop_pressed", 0, "", 0, ESTOP,
              "emergency stop was called", "call reset when it is safe", (0, 0), ESTOP),
        Event("stop_called", "stop_pressed", 0, "", 0, STOP,
              "stop was called", "call reset to go on", (0, 0), STOP),
        Event("remote_estop", "remote_estop", 0, "", 0, ESTOP,
              "L2+B on the remote", "let go of the buttons, then call reset", (0, 0), ESTOP),
        Event("dead_man", "dead_man_s", 0.3, "s", 0, STOP,
              "the dead-man button is let go since {value}", "hold it while the robot walks",
              (0.05, 1.0), STOP),
        Event("remote_lost", "remote_silence_s", 1.0, "s", 0, REFUSE_START,
              "nothing from the remote for {value}", "switch it on, stay within reach",
              (0.2, 10.0), REFUSE_START),
    )  # fmt: skip


def _state() -> tuple[Event, ...]:
    return (
        Event("state_silent", "state_age_s", 0.035, "s", 0, ESTOP,
              "no state from the robot for {value}", "check cable, interface and robot power",
              (0.01, 0.04), ESTOP),
        Event("state_absent", "idle_state_age_s", 0.2, "s", 0, REFUSE_START,
              "no state from the robot for {value}", "check cable, interface and robot power",
              (0.01, 1.0), REFUSE_START),
        Event("state_frozen", "state_unchanged_s", 0.03, "s", 0, ESTOP,
              "the robot repeats the same state for {value}", "restart the robot",
              (0.01, 0.04), ESTOP),
        Event("state_slow", "state_rate_loss", 0.3, "of the rate", 0.5, STOP,
              "{value} of the state messages is missing", "check the network and the load",
              (0.05, 0.6), STOP, 2.0),
        Event("state_flood", "state_rate_excess", 0.5, "of the rate", 0.3, STOP,
              "{value} more state messages than a robot of this kind sends",
              "is another robot or simulator on this bus?", (0.2, 1.0), STOP, 1.0),
        Event("second_state", "mixed_states_per_s", 4, "1/s", 0, ESTOP,
              "states of two robots on rt/lowstate: {value}",
              "end the other robot or simulator on this bus", (0, 10), ESTOP),
        Event("second_state_idle", "idle_mixed_states_per_s", 4, "1/s", 0, REFUSE_START,
              "states of two robots on rt/lowstate: {value}",
              "end the other robot or simulator on this bus", (0, 10), REFUSE_START),
        Event("state_lossy", "state_rate_loss", 0.05, "of the rate", 2.0, WARN,
              "{value} of the state messages is missing", "check the network and the load",
              (0.01, 0.3), NOTE, 30.0),
        Event("state_corrupt", "state_corrupt_per_s", 25, "1/s", 0, STOP,
              "state messages with a bad checksum or length: {value}",
              "check the cable; is it this robot's family?", (0, 100), STOP),
        Event("state_not_finite", "state_not_finite_per_s", 0, "1/s", 0, ESTOP,
              "the state holds NaN or infinity ({value})", "restart the robot", (0, 0), ESTOP),
        Event("imu_quaternion", "quaternion_error", 0.05, "", 0.004, ESTOP,
              "the orientation is no unit quaternion: off by {value}", "restart the robot",
              (0.01, 0.1), ESTOP, 0.02),
        Event("imu_spike", "imu_range", 1.0, "of the range", 0.02, ESTOP,
              "the IMU is at {value}", "check the IMU; was the robot hit?", (0.5, 1.5), ESTOP, 0.1),
        Event("imu_gravity", "gravity_error_rad", 0.6, "rad", 0.3, STOP,
              "orientation and accelerometer disagree by {value}", "recalibrate the IMU",
              (0.2, 1.0), STOP, 1.0),
    )  # fmt: skip


def _posture() -> tuple[Event, ...]:
    return (
        Event("tilt", "tilt_rad", 0.6, "rad", 0.2, WARN,
              "tilted by {value}", "look at the ground and at the policy", (0.2, 1.0), NOTE, 1.0),
        Event("fall", "fallen_rad", 1.0, "rad", 0.06, ESTOP,
              "fell: tilted by {value}", "set it on its feet, then call reset",
              (0.4, 1.2), ESTOP, 0.2),
        Event("recovery_too_long", "recovering_s", 12.0, "s", 0, ESTOP,
              "it rolls on the ground for {value}", "set it on its feet, then call reset",
              (5.0, 20.0), ESTOP),
        Event("free_fall", "acceleration", 2.5, "m/s^2", 0.15, ESTOP,
              "in free fall: only {value} of support", "set it on the ground, then call reset",
              (1.0, 4.0), ESTOP, 0.3, below=True),
    )  # fmt: skip


def _motion() -> tuple[Event, ...]:
    """Stages set their own thresholds: 1.5 times the speed they allow."""
    return (
        Event("overspeed", "speed", 2.3, "m/s", 0.1, STOP,
              "the robot moves at {value}, more than its stage allows", "look at the policy",
              (0.3, 3.0), STOP, 0.3),
        Event("overturn", "turning_rate", 2.5, "rad/s", 0.15, STOP,
              "the robot turns at {value}, more than its stage allows", "look at the policy",
              (0.5, 4.0), STOP, 0.3),
    )  # fmt: skip


def _joints() -> tuple[Event, ...]:
    return (
        Event("joint_range", "joint_excess_rad", 0.06, "rad", 0.006, ESTOP,
              "{where} is {value} beyond its range", "check the joint and its calibration",
              (0.0, 0.15), ESTOP, 0.05),
        Event("joint_speed", "joint_speed", 1.0, "of the limit", 0.01, ESTOP,
              "{where} turns at {value}", "look at the policy's actions", (0.3, 1.2), ESTOP, 0.1),
        Event("joint_torque", "joint_torque", 0.97, "of the limit", 0.4, STOP,
              "{where} pulls {value} for too long", "is it blocked, or overloaded?",
              (0.3, 1.0), STOP, 2.0),
        Event("motor_lost", "motor_lost_per_s", 10, "1/s", 0, STOP,
              "{where} loses packets: {value}", "check its cable and connector", (0, 50), STOP),
        Event("motor_off", "motors_off", 0, "", 0.05, STOP,
              "motors that dropped out of the mode of the others: {where}",
              "restart the robot; check the motor's cable", (0, 0), STOP, 0.2),
    )  # fmt: skip


def _heat(robot: RobotSpec) -> tuple[Event, ...]:
    tiers = robot.temperature
    cool = "let it rest; look at the load"
    return (
        Event("motor_warm", "motor_temperature", tiers.warn, "C", 0.5, WARN,
              "{where} is at {value}", cool, (30, tiers.derate), NOTE, 5.0),
        Event("motor_hot", "motor_temperature", tiers.derate, "C", 0.5, DERATE,
              "{where} is at {value}: torque is reduced", cool, (30, tiers.sit), DERATE, 5.0),
        Event("motor_too_hot", "motor_temperature", tiers.sit, "C", 0.5, STOP,
              "{where} is at {value}", cool, (30, tiers.stop), STOP, 5.0),
        Event("motor_limit", "motor_temperature", tiers.stop, "C", 0.2, ESTOP,
              "{where} is at {value}", cool, (30, tiers.stop), ESTOP, 1.0),
        Event("motor_time_left", "motor_time_left_s", 60, "s", 1.0, WARN,
              "{where} will be too hot in {value}", cool, (5, 600), NOTE, 10.0, below=True),
    )  # fmt: skip


def _battery(robot: RobotSpec) -> tuple[Event, ...]:
    battery = robot.battery
    charge = "charge or change the battery"
    return (
        Event("battery_low", "battery_percent", battery.warn_percent, "%", 1.0, REFUSE_START,
              "battery at {value}", charge, (battery.stop_percent, 90), WARN, 10.0, below=True),
        Event("battery_empty", "battery_percent", battery.stop_percent, "%", 1.0, STOP,
              "battery at {value}", charge, (1, 50), STOP, 10.0, below=True),
        Event("cell_imbalance", "cell_imbalance_v", battery.cell_imbalance_v, "V", 2.0, WARN,
              "battery cells differ by {value}", "balance or retire the battery",
              (0.05, 1.0), NOTE, 30.0),
        Event("voltage_sag", "voltage", battery.empty_v, "V", 0.3, STOP,
              "battery voltage sags to {value}", charge,
              (battery.empty_v * 0.9, battery.full_v), STOP, 2.0, below=True),
    )  # fmt: skip


def _control() -> tuple[Event, ...]:
    return (
        Event("policy_not_finite", "policy_not_finite", 0, "", 0, ESTOP,
              "the policy gave NaN or infinity", "do not use this policy", (0, 0), ESTOP),
        Event("control_failed", "control_failed", 0, "", 0, ESTOP,
              "control stopped the robot by itself", "its log says why; then call reset",
              (0, 0), ESTOP),
        Event("policy_unfamiliar", "out_of_distribution", 4.0, "standard deviations", 0.2, WARN,
              "the policy sees what it was not trained on: {value}", "look at the observation",
              (1, 20), NOTE, 5.0),
        Event("policy_astray", "out_of_distribution", 12.0, "standard deviations", 0.2, STOP,
              "the policy is far from its training: {value}", "look at the observation",
              (2, 50), STOP, 2.0),
        Event("adaptation_bound", "adaptation_strain", 1.15, "of its bound", 1.0, WARN,
              "adaptation wants {value}: it is switched off",
              "look at motors, payload and battery; a reset switches it on again",
              (0.5, 1.5), WARN, 5.0),
        Event("deadline_misses", "deadline_misses_per_s", 10, "1/s", 1.0, WARN,
              "control misses its deadline: {value}", "take load off the computer",
              (0, 100), NOTE, 10.0),
        Event("deadlines_lost", "deadline_misses_per_s", 150, "1/s", 0.5, STOP,
              "control cannot keep its rate: {value} missed", "take load off the computer",
              (5, 250), STOP, 2.0),
        Event("command_silent", "command_age_s", 0.5, "s", 0.2, WARN,
              "no velocity command for {value}: it stands", "check teleop or the planner",
              (0.1, 5.0), NOTE, 5.0),
        Event("control_gone", "control_silence_s", 0.036, "s", 0, ESTOP,
              "control does not answer for {value}", "start control again, then call reset",
              (0.02, 0.05), ESTOP),
        Event("control_idle_gone", "idle_silence_s", 1.0, "s", 0, ESTOP,
              "control, damping, does not answer for {value}", "start it again, then call reset",
              (0.05, 2.0), ESTOP),
        Event("control_disobeys", "disobedience", 0, "", 0, ESTOP,
              "control did not damp when told to", "start control again, then call reset",
              (0, 0), ESTOP),
        Event("command_not_finite", "command_not_finite", 0, "", 0, ESTOP,
              "a command on the wire holds NaN or infinity", "find out who sent it", (0, 0), ESTOP),
        Event("stop_ignored", "stop_disobedience", 0, "", 0, ESTOP,
              "control did not stop when told to: {where}", "start control again, then call reset",
              (0, 0), ESTOP),
        Event("command_range", "command_excess_rad", 0.02, "rad", 0, ESTOP,
              "{where} is sent {value} beyond its range", "control's limiter failed: report it",
              (0.0, 0.1), ESTOP),
        Event("command_gain", "command_gain", 1.0, "of the largest gain", 0, ESTOP,
              "{where} is sent gains of {value}", "control's limiter failed: report it",
              (0.1, 1.0), ESTOP),
        Event("command_torque", "command_torque", 1.25, "of the limit", 0.02, ESTOP,
              "{where} is asked for {value}", "control's limiter failed: report it",
              (0.5, 1.5), ESTOP, 0.1),
        Event("joint_astray", "tracking_error_rad", 0.9, "rad", 0.3, STOP,
              "{where} is {value} from where it is told to be", "is it blocked, or without power?",
              (0.3, 1.5), STOP, 1.0),
        Event("stage_mismatch", "stage_mismatch", 0, "", 0, REFUSE_START,
              "control and safety run at different stages: {where}", "start both again",
              (0, 0), REFUSE_START),
    )  # fmt: skip


def _surroundings() -> tuple[Event, ...]:
    return (
        Event("stranger", "strangers", 0, "", 0.5, REFUSE_START,
              "somebody else wrote rt/lowcmd a moment ago: {where}", "end that program",
              (0, 0), REFUSE_START, 2.0),
        Event("second_writer", "rivals", 0, "", 0, ESTOP,
              "somebody else writes rt/lowcmd: {where}", "end that program", (0, 0), ESTOP),
        Event("sport_mode", "sport_mode", 0, "", 0, ESTOP,
              "the robot's own sport mode is on again", "release it; leave the app alone",
              (0, 0), ESTOP),
        Event("mode_unknown", "mode_silence_s", 5.0, "s", 0, WARN,
              "the robot does not say for {value} whether its own sport mode is on",
              "restart the robot's motion switcher", (1.0, 30.0), WARN),
        Event("recorder_gone", "recorder_silence_s", 3.0, "s", 0, REFUSE_START,
              "the recorder is silent for {value}", "start it again: this run is not recorded",
              (1.0, 60.0), REFUSE_START),
        Event("unfit", "unfit", 0, "", 0, REFUSE_START,
              "this computer is not fit for a real robot: {where}",
              "`sim2real doctor` says how to set it up", (0, 0), REFUSE_START),
        Event("disk_low", "disk_free_gb", 1.0, "GB", 0, REFUSE_START,
              "only {value} left on the disk", "delete old bags", (0.1, inf), WARN, below=True),
        Event("clock_jump", "clock_jump_s", 0.5, "s", 0, NOTE,
              "the wall clock jumped by {value}; nothing depends on it", "check NTP or PTP",
              (0.01, inf), NOTE),
    )  # fmt: skip
