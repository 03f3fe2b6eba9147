"""The cases of a fault campaign: one row per fault, with the required outcome."""

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any, Literal

import numpy as np

from sim2real_deploy.errors import Refusal
from sim2real_deploy.faults.stack import FILLING, WALK, Stack
from sim2real_deploy.robots import JointCommand, RobotSpec, RobotState
from sim2real_deploy.robots.geometry import tilt
from sim2real_deploy.twin.disturbances import Push
from sim2real_deploy.twin.faults import Fault
from sim2real_deploy.twin.robot import TwinRobot
from sim2real_deploy.wire.channels import Participant
from sim2real_deploy.wire.encoders import CommandEncoder, StateEncoder
from sim2real_deploy.wire.messages import FAMILIES, LOW_CMD, LOW_STATE
from sim2real_deploy.wire.motion_switcher import MotionSwitcher
from sim2real_deploy.wire.remote import Remote

Outcome = Literal["damping", "sits", "walks", "stands"]
KEPT_BYTES = 1_000_000  # of a full disk
CHUNK_BYTES = 16_000_000
UNPLUGGED_S = 0.3
WEAK = 0.65
RUNAWAY_SPEED = 1.2  # m/s: twice what `indoor`, where the campaign walks, allows


@dataclass(frozen=True)
class Case:
    """`inject` returns when the fault began; one of `events` must be reported."""

    name: str
    inject: Callable[[Stack], int]
    outcome: Outcome
    bound_ms: float  # from the start of the fault to damping on the wire, or to the alert
    events: tuple[str, ...] = ()
    told_ms: float = inf  # from the start of the fault to the report of that event


def fault(target: str, word: str, **details: Any) -> Callable[[Stack], int]:
    made = Fault(target=target, word=word, **details)
    return lambda stack: stack.change(lambda twin: twin.inject(made))


def freeze_readings(stack: Stack) -> int:
    """IMU and all encoders stop changing, while the robot's counter runs on."""

    def freeze(twin: TwinRobot) -> None:
        twin.inject(Fault(target="imu", word="stuck"))
        for joint in stack.robot.joint_names:
            twin.inject(Fault(target="encoder", word="stuck", joint=joint))

    return stack.change(freeze)


def called(*services: str) -> Callable[[Stack], int]:
    return lambda stack: stack.call(*services)


def killed(process: str, number: signal.Signals) -> Callable[[Stack], int]:
    return lambda stack: stack.signal(process, number)


def steered(*velocity: float | None) -> Callable[[Stack], int]:
    def inject(stack: Stack) -> int:
        stack.ask(velocity=list(velocity) or None)
        return time.monotonic_ns()

    return inject


def make_policy_fail(stack: Stack) -> int:
    """Counts from the last good command: the tick that sees the NaN must damp."""
    stack.ask(velocity=[0.0, 0.0, 1.0])
    stack.until("the policy fails", lambda: stack.watch.commands[-1].damping)
    return max(seen.ns for seen in tuple(stack.watch.commands) if not seen.damping)


def press_chord(stack: Stack) -> int:
    held = Remote(pressed=frozenset({"L2", "B"}))
    start_ns = stack.change(lambda twin: twin.hold_remote(held))
    time.sleep(0.2)
    return _first(stack, start_ns, lambda state: any(state.whole().remote[2:4]))


def send_nan_state(stack: Stack) -> int:
    """One sample with a valid checksum and a NaN, as from a broken sensor board."""
    state = stack.watch.states[-1].whole()
    q = state.q.copy()
    q[3] = np.nan
    broken = replace(state, q=q, tick=state.tick + 1)
    participant = Participant(stack.domain, stack.interface, "broken board")
    family = FAMILIES[stack.robot.wire.family]
    writer = participant.writer(LOW_STATE, family.state)
    sample = StateEncoder(stack.robot).encode(broken)
    while writer.matched() < 3:  # control, supervisor and the campaign at least
        time.sleep(0.01)
    time.sleep(0.3)  # until they know of it, too
    now_ns = time.monotonic_ns()
    writer.write(sample)
    time.sleep(0.1)
    participant.close()
    return now_ns


def last_joint(robot: RobotSpec) -> str:
    """The joint that faults are injected into: the last one of the first leg."""
    return next(iter(robot.legs.values())).joints[-1]


def weaken_motor(stack: Stack) -> int:
    """Weaken a motor by more than adaptation may compensate with gains."""
    joint = stack.robot.joint_names.index(last_joint(stack.robot))

    def weaken(twin: TwinRobot) -> None:
        strength = twin.imperfections.motors.strengths(twin.robot)
        strength[joint] *= WEAK
        twin.boards.weaken(strength)

    return stack.change(weaken)


def spin_joint(stack: Stack) -> int:
    """A joint turns faster than its limit."""
    robot = stack.robot
    joint = robot.joint_names.index(last_joint(robot))
    speed = float(robot.velocity_limit[joint]) * 1.6
    middle = float(robot.position_low[joint] + robot.position_high[joint]) / 2

    def turn(twin: TwinRobot) -> None:
        twin.data.qvel[6 + joint] = speed if twin.data.qpos[7 + joint] < middle else -speed

    start_ns = stack.change(turn)
    for _ in range(20):
        stack.change(turn)
    return _first(stack, start_ns, partial(_too_fast, joint, speed / 1.6))


def _too_fast(joint: int, limit: float, state: RobotState) -> bool:
    return abs(float(state.dq[joint])) > limit


def throw_over(stack: Stack) -> int:
    push = Push(force=1500.0, direction=(0.0, 1.0, 0.3), duration=0.15)
    start_ns = stack.change(lambda twin: twin.push(push))
    time.sleep(1.0)
    return _first(stack, start_ns, _fallen)


def _fallen(state: RobotState) -> bool:
    return tilt(state.quaternion.tolist()) > 0.9


def drop(stack: Stack) -> int:
    def lift(twin: TwinRobot) -> None:
        twin.data.qpos[2] += 1.2

    start_ns = stack.change(lift)
    time.sleep(0.5)
    return _first(stack, start_ns, lambda state: float(np.linalg.norm(state.accelerometer)) < 2.5)


def _first(stack: Stack, since_ns: int, condition: Callable[[RobotState], bool]) -> int:
    """When the condition first showed on the wire: it could not be known earlier."""
    for state in tuple(stack.watch.states):
        if state.received_ns >= since_ns and condition(state):
            return state.received_ns
    return since_ns


def pull_cable(stack: Stack) -> int:
    """Pull and plug in again: only then can damping arrive."""
    assert stack.cable is not None
    now_ns = time.monotonic_ns()
    stack.cable.pull()
    time.sleep(UNPLUGGED_S)
    stack.cable.plug_in()
    return now_ns


class Rival:
    """Another program that commands damping on rt/lowcmd, every 2 ms, until it is closed."""

    def __init__(self, stack: Stack) -> None:
        self._participant = Participant(stack.domain, stack.interface, "rival")
        kind = FAMILIES[stack.robot.wire.family].command
        self._writer = self._participant.writer(LOW_CMD, kind)
        kd = float(stack.robot.damping[0])
        damping = JointCommand.damping(stack.robot.joint_count, kd)
        self._sample = CommandEncoder(stack.robot).encode(damping)
        while self._writer.matched() < 3:  # robot, supervisor and the campaign at least
            time.sleep(0.01)
        time.sleep(0.3)  # until they know of it, too
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._write, name="rival")

    def start(self) -> int:
        now_ns = time.monotonic_ns()
        self._thread.start()
        return now_ns

    def _write(self) -> None:
        while not self._stopping.wait(0.002):
            self._writer.write(self._sample)

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._participant.close()


def intrude(stack: Stack) -> int:
    """Another program writes rt/lowcmd: control damps, and is not killed for those commands."""
    control = stack.running["control"]
    rival = Rival(stack)
    now_ns = rival.start()
    time.sleep(0.5)
    rival.close()
    if control.poll() is not None:
        raise Refusal("control was killed for what another program wrote")
    return now_ns


def refuse_start(stack: Stack) -> int:
    """Another program writes rt/lowcmd when the robot is to stand up: it must not."""
    stack.call("estop")
    stack.until("damping", lambda: stack.mode == "damping")
    time.sleep(1.0)
    stack.succeeds("reset")
    rival = Rival(stack)
    rival.start()
    time.sleep(1.0)
    now_ns = time.monotonic_ns()
    stack.succeeds("stand")
    time.sleep(0.5)
    rival.close()
    return now_ns


def fill_disk(stack: Stack) -> int:
    """Fill the disk that the bag is written to."""
    filling = stack.runs / FILLING
    now_ns = time.monotonic_ns()
    free = shutil.disk_usage(stack.runs).free
    with filling.open("wb") as file, suppress(OSError):
        for start in range(0, free - KEPT_BYTES, CHUNK_BYTES):
            os.posix_fallocate(file.fileno(), start, CHUNK_BYTES)
            time.sleep(0.005)  # the twin also runs in this process
    return now_ns


def run_away(stack: Stack) -> int:
    """A push that does not end: the robot goes twice as fast as its stage allows, and control is
    content. The clock starts when the robot is that fast."""
    gale = Push(force=130.0, direction=(1.0, 0.0, 0.0), duration=3.0)
    start_ns = stack.change(lambda twin: twin.push(gale))
    deadline = time.monotonic() + 3.0
    while time.monotonic() < deadline:
        velocity = stack.twin.ask(lambda twin: twin.base_truth.velocity)
        if float(np.hypot(*velocity[:2])) > RUNAWAY_SPEED:
            return time.monotonic_ns()
        time.sleep(0.01)
    return start_ns


def hang_teleop(stack: Stack) -> int:
    """The keyboard's process hangs while a key is held."""
    stack.ask(velocity=list(WALK), source="teleop")
    time.sleep(1.5)
    now_ns = time.monotonic_ns()
    stack.ask(velocity=None)
    return now_ns


def ignore_stop(stack: Stack) -> int:
    """Replace control by one that ignores stops, then call stop."""
    deaf = None
    while stack.running["control"] is not deaf:  # one that was killed for another stop is replaced
        stack.swap("control", "sim2real_deploy.nodes.deaf_control")
        deaf = stack.running["control"]
        stack.recover()
    return stack.call("stop")


def fault_remote_off(stack: Stack) -> int:
    return stack.change(lambda twin: twin.hold_remote(Remote(on=False)))


def select_sport_mode(stack: Stack) -> int:
    participant = Participant(stack.domain, stack.interface, "app")
    switcher = MotionSwitcher(participant)
    switcher.check()
    now_ns = time.monotonic_ns()
    switcher.select("normal")
    time.sleep(2.0)
    participant.close()
    return now_ns


def cases(stack: Stack) -> tuple[Case, ...]:
    """The campaign. Bounds count from the start of the fault, its own duration included."""
    joint = last_joint(stack.robot)
    hot = fault("temperature", "wrong", joint=joint, amount=62.0)
    warm = fault("temperature", "wrong", joint=joint, amount=54.0)
    beyond = fault("encoder", "wrong", joint=joint, amount=1.5)
    empty = fault("battery", "wrong", amount=-90.0)
    hundred = called(*["estop"] * 100)
    cable = Case("cable pulled", pull_cable, "damping", 1000 * UNPLUGGED_S + 200, ("state_silent",))
    weak = Case("motor beyond adaptation's bound", weaken_motor, "walks", 9000,
                ("adaptation_bound",))  # fmt: skip
    return (
        *((cable,) if stack.cable else ()),
        Case("estop called", called("estop"), "damping", 20, ("estop_called",)),
        Case("estop called 100 times at once", hundred, "damping", 20, ("estop_called",)),
        Case("estop during a reset", called("reset", "estop"), "damping", 20,
             ("estop_called",)),
        Case("stop called", called("stop"), "sits", 6000, ("stop_called",)),
        Case("stop ignored by control", ignore_stop, "damping", 200,
             ("stop_ignored", "control_disobeys", "control_gone")),
        Case("L2+B on the remote", press_chord, "damping", 20, ("remote_estop",)),
        Case("state silent", fault("state", "off"), "damping", 50, ("state_silent",)),
        Case("state stuck", fault("state", "stuck"), "damping", 50,
             ("state_frozen", "state_silent")),
        Case("state frozen, counter runs", freeze_readings, "damping", 50, ("state_frozen",)),
        Case("state with bad checksums", fault("state", "wrong"), "damping", 50,
             ("state_silent", "state_corrupt")),
        Case("state of random bytes", fault("state", "garbage"), "damping", 50,
             ("state_silent", "state_corrupt")),
        Case("state at 100 Hz", fault("state", "slow", amount=0.01), "sits", 9000,
             ("state_slow",)),
        Case("state with NaN", send_nan_state, "damping", 10, ("state_not_finite",)),
        Case("policy gives NaN", make_policy_fail, "damping", 6, ("policy_not_finite",)),
        Case("orientation wrong", fault("imu", "wrong"), "damping", 24, ("imu_quaternion",)),
        Case("orientation gone", fault("imu", "off"), "damping", 24, ("imu_quaternion",)),
        Case("IMU of random numbers", fault("imu", "garbage"), "damping", 24,
             ("imu_quaternion",)),
        Case("joint beyond its range", beyond, "damping", 16, ("joint_range", "joint_speed")),
        Case("joint over speed", spin_joint, "damping", 20, ("joint_speed",)),
        Case("fall", throw_over, "damping", 80, ("fall",)),
        Case("dropped", drop, "damping", 250, ("free_fall",)),
        Case("motor board dead", fault("motor", "off", joint=joint), "damping", 9000,
             ("motor_lost", "motor_off")),
        Case("motor at its limit of heat", hot, "damping", 400, ("motor_limit",)),
        Case("motor too hot", warm, "sits", 9000, ("motor_too_hot",)),
        Case("battery empty", empty, "sits", 9000, ("battery_empty", "voltage_sag")),
        Case("control killed", killed("control", signal.SIGKILL), "damping", 60,
             ("control_gone",)),
        Case("control stopped", killed("control", signal.SIGSTOP), "damping", 60,
             ("control_gone",)),
        Case("control interrupted", killed("control", signal.SIGINT), "sits", 6000),
        Case("supervisor killed", killed("safety_supervisor", signal.SIGKILL), "damping", 100),
        Case("supervisor stopped", killed("safety_supervisor", signal.SIGSTOP), "damping", 100),
        Case("supervisor interrupted", killed("safety_supervisor", signal.SIGINT), "damping", 100),
        Case("second writer on rt/lowcmd", intrude, "damping", 50, ("second_writer",)),
        Case("second robot on rt/lowstate", fault("second_state", "wrong"), "damping", 50,
             ("second_state",)),
        Case("policy runs away", run_away, "sits", 6000, ("overspeed",), told_ms=500),
        Case("teleop hangs", hang_teleop, "stands", 600, ("command_silent",)),
        Case("remote off", fault_remote_off, "walks", 6000, ("remote_lost",)),
        Case("motion switcher silent", fault("switcher", "off"), "walks", 8000,
             ("mode_unknown",)),
        Case("motion switcher slow", fault("switcher", "delayed", amount=0.5), "walks", 6000),
        Case("second writer at the start", refuse_start, "damping", 20, ("stranger",)),
        Case("sport mode on again", select_sport_mode, "damping", 1300,
             ("sport_mode", "second_writer")),
        Case("recorder killed", killed("recorder", signal.SIGKILL), "walks", 6000,
             ("recorder_gone",)),
        Case("recorder stopped", killed("recorder", signal.SIGSTOP), "walks", 6000,
             ("recorder_gone",)),
        Case("dashboard killed", killed("dashboard", signal.SIGKILL), "walks", 6000),
        Case("disk full", fill_disk, "walks", 6000, ("disk_low",)),
        *((weak,) if stack.adaptation in ("strength", "all") else ()),
        Case("velocity command of NaN", steered(None, None, None), "stands", 3000),
        Case("velocity command silent", steered(), "stands", 3000, ("command_silent",)),
    )  # fmt: skip
