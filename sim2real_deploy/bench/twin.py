"""The twin's cost relative to bare physics, and its timing on the wire."""

import multiprocessing
import threading
import time
from dataclasses import asdict, dataclass

import mujoco
import numpy as np
import numpy.typing as npt

from sim2real_deploy.bench.conduct import BenchResult
from sim2real_deploy.checks import Check
from sim2real_deploy.console import Progress
from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots import JointCommand, RobotSpec, load_robot
from sim2real_deploy.runtime.realtime import calm_interpreter, prefer_this_process
from sim2real_deploy.twin.files import load_imperfections
from sim2real_deploy.twin.on_wire import TwinOnWire
from sim2real_deploy.twin.robot import TwinRobot
from sim2real_deploy.wire.dds_link import DdsLink
from sim2real_deploy.wire.domains import free_domain
from sim2real_deploy.wire.encoders import CommandEncoder
from sim2real_deploy.wire.motion_switcher import MotionSwitcher

_BLOCK = 50  # wire periods per turn: both sides alternate
_BLOCKS = 60
_WARM_UP = 1000
_STEP_HZ = 2.0  # of a trot in place, so that contacts change as in use;
_TARGETS_HZ = 50.0  # targets change at a policy's rate
_PATIENCE_S = 20.0


@dataclass(frozen=True, slots=True)
class TwinSpeed:
    """In process, in microseconds of one core per wire period."""

    twin_us: float
    bare_us: float
    period_s: float
    steps: int  # physics steps in a period

    @property
    def ratio(self) -> float:
        return self.twin_us / self.bare_us

    @property
    def times_real_time(self) -> float:
        return self.period_s * 1e6 / self.twin_us


@dataclass(frozen=True, slots=True)
class OnWire:
    """On DDS, with another process that answers every state."""

    seconds: float
    rate_hz: float
    nominal_hz: float
    real_time_factor: float
    lost: int
    bad: int


def judge(speed: TwinSpeed, wire: OnWire) -> BenchResult:
    rate_error = 100 * abs(wire.rate_hz / wire.nominal_hz - 1)
    checks = [
        Check.at_least("in process, times real time", speed.times_real_time, 15.0),
        Check.at_most("in process, cost by bare mj_step", speed.ratio, 2.0),
        Check.at_most("state rate error", rate_error, 1, "%"),
        Check.at_most("real-time factor error", abs(wire.real_time_factor - 1), 0.01),
        Check.at_most("bad states", wire.bad, 0),
    ]
    rows = [
        ("one wire period, of one core", speed.twin_us, "us"),
        (f"of which {speed.steps} mj_step", speed.bare_us, "us"),
        ("states on the wire", wire.rate_hz, "Hz"),
        ("lost (the preset's bus drops some)", wire.lost, ""),
    ]
    raw = {"in_process": asdict(speed), "wire": asdict(wire)}
    return BenchResult("bench twin", checks, raw, ("", "value", "unit"), rows)


def run(robot: str, seconds: float, preset: str, progress: Progress) -> BenchResult:
    spec = load_robot(robot)
    calm_interpreter()  # as the twin's own process does
    progress("in process, against bare mj_step", 0.0)
    speed = measure_speed(spec, preset)
    return judge(speed, measure_wire(spec, preset, seconds, progress))


def measure_speed(robot: RobotSpec, preset: str) -> TwinSpeed:
    """Medians over alternating blocks of the twin and of bare mj_step.

    Bare physics makes the same motion: same start, same motor torques.
    """
    twin = TwinRobot(robot, imperfections=load_imperfections(preset, robot.name))
    samples = trot(robot)
    for k in range(_WARM_UP):
        twin.advance(samples[k % len(samples)])
    steps = round(1 / (robot.wire.rate_hz * twin.model.opt.timestep))
    bare = mujoco.MjData(twin.model)
    model, times = twin.model, np.zeros((_BLOCKS, 2))
    told = np.zeros((_BLOCK, model.nu))
    for block in range(_BLOCKS):
        mujoco.mj_copyData(bare, model, twin.data)
        for k in range(_BLOCK):
            start = time.thread_time_ns()
            twin.advance(samples[(block * _BLOCK + k) % len(samples)])
            times[block, 0] += time.thread_time_ns() - start
            told[k] = twin.data.ctrl
        for k in range(_BLOCK):
            bare.ctrl[:] = told[k]
            start = time.thread_time_ns()
            mujoco.mj_step(model, bare, steps)
            times[block, 1] += time.thread_time_ns() - start
    twin_us, bare_us = (np.median(times, axis=0) / _BLOCK / 1e3).tolist()
    return TwinSpeed(twin_us, bare_us, 1 / robot.wire.rate_hz, steps)


def measure_wire(robot: RobotSpec, preset: str, seconds: float, progress: Progress) -> OnWire:
    """The twin runs in its own process; this one is a client that answers every state."""
    domain = free_domain()
    process = multiprocessing.get_context("spawn").Process(
        target=_serve, args=(robot, preset, domain), daemon=True
    )
    process.start()
    link = DdsLink(robot, "lo", domain, name="bench")
    try:
        MotionSwitcher(link.participant, _PATIENCE_S).release()
        pose = robot.sit_pose.copy()
        zero = np.zeros_like(pose)
        command = JointCommand(pose, zero, robot.kp, robot.kd, zero)
        first = link.wait(_PATIENCE_S)
        start, lost, received = time.monotonic(), link.counters.lost, link.counters.received
        state = first
        while (elapsed := time.monotonic() - start) < seconds:
            done = min(1.0, elapsed / 2.0)
            pose[:] = robot.sit_pose + done * (robot.stand_pose - robot.sit_pose)
            state = link.wait(1.0) or state
            link.send(command)
            progress("on the wire", elapsed / seconds)
    finally:
        link.close()
        process.terminate()
        process.join()
    if first is None or state is None:
        raise Refusal("bench twin: the twin's process sent no state")
    wall = (state.received_ns - first.received_ns) / 1e9
    counters = link.counters
    lost = counters.lost - lost
    sent = counters.received - received + lost  # including those that the bus dropped
    return OnWire(
        seconds=wall,
        rate_hz=sent / wall,
        nominal_hz=robot.wire.rate_hz,
        real_time_factor=(state.tick - first.tick) / 1000 / wall,
        lost=lost,
        bad=counters.bad_crc + counters.bad_length + counters.not_finite,
    )


def _serve(robot: RobotSpec, preset: str, domain: int) -> None:
    prefer_this_process()
    body = TwinRobot(robot, imperfections=load_imperfections(preset, robot.name), sport_mode=True)
    with TwinOnWire(body, "lo", domain):
        calm_interpreter()
        threading.Event().wait()  # until it is terminated


def trot(robot: RobotSpec) -> list[bytes]:
    """One cycle of rt/lowcmd samples for a trot in place."""
    encoder = CommandEncoder(robot)
    zero = np.zeros(robot.joint_count, np.float32)
    names = list(robot.legs)
    lift: npt.NDArray[np.float32] = np.zeros((2, robot.joint_count), np.float32)
    for number, leg in enumerate(names):
        _, thigh, calf = (robot.joint_names.index(name) for name in robot.legs[leg].joints)
        lift[int(number in (1, 2)), [thigh, calf]] = 0.3, -0.6
    samples = []
    held = round(robot.wire.rate_hz / _TARGETS_HZ)
    for phase in np.arange(0, 1, _STEP_HZ / _TARGETS_HZ):
        wave = np.sin(2 * np.pi * phase)
        raised = max(wave, 0) * lift[0] + max(-wave, 0) * lift[1]
        pose = (robot.stand_pose + raised).astype(np.float32)
        samples += [encoder.encode(JointCommand(pose, zero, robot.kp, robot.kd, zero))] * held
    return samples
