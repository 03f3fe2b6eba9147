"""Preflight: are this computer, robot and policy fit to walk now? It looks and never moves."""

import ctypes
import os
import resource
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from math import inf
from pathlib import Path

import numpy as np
import psutil

from sim2real_deploy.control.stages import load_stage
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.robots import RobotSpec, RobotState
from sim2real_deploy.runtime.realtime import FIFO_PRIORITY, WAKE_LATENCY
from sim2real_deploy.runtime.world_clock import cores_may_vanish
from sim2real_deploy.safety.inputs import Inputs
from sim2real_deploy.safety.monitors_state import PostureMonitor
from sim2real_deploy.safety.settings import load_events
from sim2real_deploy.wire.channels import check_middleware
from sim2real_deploy.wire.dds_link import DdsLink
from sim2real_deploy.wire.libddsc import library
from sim2real_deploy.wire.messages import FAMILIES, LOW_CMD
from sim2real_deploy.wire.motion_switcher import MotionSwitcher

LISTEN_S = 2.0
FIRST_STATE_S = 5.0
MODE_TIMEOUT_S = 2.0
HEAR_WRITERS_S = 0.3
FREE_GB = (1.0, 10.0)  # below the first fail, below the second warn
LOST_SHARE = (0.2, 0.02)  # of the state messages: fail, warn
LONGEST_GAP_S = 0.02
LEVEL_RAD = 0.6
LOCKED_MB = 200
_IFF_MULTICAST = 0x1000
_TIME_ERROR = 5  # of adjtimex: the clock is not synchronised


class Health(Enum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was checked, its health, and a remedy."""

    name: str
    verdict: Health
    text: str
    remedy: str = ""


def ok(name: str, text: str) -> Finding:
    return Finding(name, Health.OK, text)


def graded(name: str, value: float, fail: float, warn: float, text: str, remedy: str) -> Finding:
    """Larger is worse."""
    verdict = Health.FAIL if value > fail else Health.WARN if value > warn else Health.OK
    return Finding(name, verdict, text, "" if verdict is Health.OK else remedy)


@dataclass(frozen=True)
class Patient:
    robot: RobotSpec
    interface: str
    domain: int
    policy: str
    stage: str
    runs: Path


def examine(patient: Patient) -> Iterator[Finding]:
    """Everything, in the order in which it matters; each finding as soon as it is made."""
    for look in (
        _middleware,
        _interface,
        _machine,
        _clock,
        _rights,
        _load,
        _disk,
        _policy,
        _stage,
    ):
        yield _told(look, patient)
    if patient.interface in psutil.net_if_stats():
        yield from _robot(patient)


def _told(look: Callable[[Patient], Finding], patient: Patient) -> Finding:
    """A Refusal is a finding: it already says what is wrong and what to do."""
    try:
        return look(patient)
    except Refusal as refusal:
        return Finding(look.__name__.strip("_"), Health.FAIL, str(refusal))


# This computer


def _middleware(_: Patient) -> Finding:
    check_middleware()
    return ok("middleware", f"to the robot by {library().path}, to ROS by another library")


def _interface(patient: Patient) -> Finding:
    name, remedy = "interface", "`ip -brief address` shows them; the robot is 192.168.123.161"
    statistics = psutil.net_if_stats().get(patient.interface)
    if statistics is None:
        known = ", ".join(psutil.net_if_stats())
        text = f"there is no '{patient.interface}'; there are: {known}"
        return Finding(name, Health.FAIL, text, remedy)
    if not statistics.isup:
        return Finding(name, Health.FAIL, f"'{patient.interface}' is down", "plug the cable in")
    flags = int(Path(f"/sys/class/net/{patient.interface}/flags").read_text(), 16)
    if not flags & _IFF_MULTICAST and patient.interface != "lo":
        remedy = f"ip link set {patient.interface} multicast on"
        return Finding(name, Health.FAIL, f"'{patient.interface}' has no multicast", remedy)
    speed = f", {statistics.speed} Mbit/s" if statistics.speed else ""
    return ok(name, f"'{patient.interface}' is up{speed}")


def _machine(patient: Patient) -> Finding:
    if not cores_may_vanish():
        return ok("machine", "its cores are its own")
    text = "virtual: its host may take cores away for tens of milliseconds"
    if patient.interface == "lo":
        return ok("machine", f"{text}; a twin's world waits for them")
    return Finding("machine", Health.WARN, text, "drive a robot from a computer of its own")


def _clock(_: Patient) -> Finding:
    state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(512))
    if state == _TIME_ERROR:
        text = "not synchronised: bags of several machines will not line up"
        return Finding("clock", Health.WARN, text, "start chrony or systemd-timesyncd")
    return ok("clock", "synchronised")


def _rights(_: Patient) -> Finding:
    priority, _hard = resource.getrlimit(resource.RLIMIT_RTPRIO)
    locked, _hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    root = os.geteuid() == 0
    missing = []
    if not root and priority < FIFO_PRIORITY:
        missing.append("real-time priority")
    if not root and 0 <= locked < LOCKED_MB << 20:
        missing.append("locked memory")
    if not os.access(WAKE_LATENCY, os.W_OK):
        missing.append("control of core sleep states")
    if missing:
        remedy = (
            f"/etc/security/limits.conf: rtprio {FIFO_PRIORITY}, memlock unlimited; "
            f"write access to {WAKE_LATENCY}"
        )
        return Finding("rights", Health.WARN, f"no {' and no '.join(missing)}", remedy)
    return ok("rights", "real-time priority, locked memory, cores that stay awake")


def _load(_: Patient) -> Finding:
    cores = os.cpu_count() or 1
    load = os.getloadavg()[0]
    text = f"load {load:.1f} on {cores} cores"
    return graded("load", load / cores, inf, 1.0, text, "end what else is running")


def _disk(patient: Patient) -> Finding:
    folder = next(p for p in (patient.runs, *patient.runs.absolute().parents) if p.is_dir())
    free_gb = shutil.disk_usage(folder).free / 1e9
    text = f"{free_gb:.1f} GB free in {folder}"
    return graded("disk", -free_gb, -FREE_GB[0], -FREE_GB[1], text, "delete old bags")


def _policy(patient: Patient) -> Finding:
    contract = load_bundle(patient.policy, patient.robot).contract
    return ok(
        "policy", f"'{contract.name}' keeps its contract, {len(contract.golden)} golden steps"
    )


def _stage(patient: Patient) -> Finding:
    stage = load_stage(patient.stage)
    events = load_events(patient.robot, patient.stage)
    return ok("stage", f"{patient.stage}: {stage.description} {len(events)} events are watched")


# The robot


def _robot(patient: Patient) -> Iterator[Finding]:
    try:
        link = DdsLink(
            patient.robot, patient.interface, patient.domain, name="doctor", listens=True
        )
    except Refusal as refusal:
        yield Finding("robot", Health.FAIL, str(refusal))
        return
    try:
        state = link.wait(FIRST_STATE_S)
        if state is None:
            where = f"on '{patient.interface}', domain {patient.domain}"
            remedy = "is the robot on, its cable in, and is it this interface and domain?"
            yield Finding("robot", Health.FAIL, f"nothing on rt/lowstate {where}", remedy)
            return
        yield _link_quality(link, patient.robot)
        yield _writers(link, patient.robot)
        yield _mode(link)
        yield from _body(link.latest or state, patient.robot)
    finally:
        link.close()


def _link_quality(link: DdsLink, robot: RobotSpec) -> Finding:
    before, start = link.counters.received, time.monotonic()
    last, longest_s = start, 0.0
    while time.monotonic() - start < LISTEN_S:
        if link.wait(0.1) is not None:
            now = time.monotonic()
            last, longest_s = now, max(longest_s, now - last)
    received = link.counters.received - before
    lost = max(0.0, 1.0 - received / (LISTEN_S * robot.wire.rate_hz))
    bad = link.counters.bad_crc + link.counters.bad_length + link.counters.not_finite
    text = (
        f"{received / LISTEN_S:.0f} states a second of {robot.wire.rate_hz:g}, "
        f"{bad} bad ones, longest gap {longest_s * 1000:.0f} ms"
    )
    if longest_s > LONGEST_GAP_S or bad:
        lost = max(lost, LOST_SHARE[1] * 1.01)
    return graded("link", lost, *LOST_SHARE, text, "use a cable; take load off this computer")


def _writers(link: DdsLink, robot: RobotSpec) -> Finding:
    """Judged by samples, since the vendor keeps its writer open after sport mode was released."""
    reader = link.participant.reader(LOW_CMD, FAMILIES[robot.wire.family].command)
    time.sleep(HEAR_WRITERS_S)
    names = ", ".join(sorted({str(link.participant.who(s.writer)) for s in reader.take()}))
    if not names:
        return ok("writers", "nobody writes rt/lowcmd")
    try:
        vendor = MotionSwitcher(link.participant, MODE_TIMEOUT_S).check().name
    except Refusal:
        vendor = ""
    if vendor:
        return ok("writers", f"vendor mode '{vendor}' is on and writes rt/lowcmd: {names}")
    return Finding("writers", Health.FAIL, f"somebody writes rt/lowcmd: {names}", "end it")


def _mode(link: DdsLink) -> Finding:
    try:
        mode = MotionSwitcher(link.participant, MODE_TIMEOUT_S).check()
    except Refusal as refusal:
        remedy = "fine for a robot without that service; else restart the robot"
        return Finding("mode", Health.WARN, str(refusal), remedy)
    if mode.released:
        return ok("mode", "the motors are free")
    return ok("mode", f"vendor mode '{mode.name}': control will release it")


def _body(state: RobotState, robot: RobotSpec) -> Iterator[Finding]:
    whole = state.whole()
    hottest = int(whole.temperature.argmax())
    degrees, tiers = float(whole.temperature[hottest]), robot.temperature
    text = f"{robot.joint_names[hottest]} is the hottest motor, {degrees:.0f} C"
    yield graded("heat", degrees, tiers.derate, tiers.warn, text, "let it cool down")
    if whole.battery_percent >= 0:
        percent, limits = whole.battery_percent, robot.battery
        text = f"{percent} %, {whole.voltage:.1f} V"
        low, empty = -limits.warn_percent, -limits.stop_percent
        yield graded("battery", -percent, empty, low, text, "charge or change the battery")
    reading = PostureMonitor().measure(Inputs(state=state), state.received_ns)["tilt_rad"]
    tilt = reading.value if reading else 0.0
    text = f"tilted by {np.degrees(tilt):.0f} degrees"
    yield graded("posture", tilt, LEVEL_RAD, LEVEL_RAD / 2, text, "set it level on its belly")
    excess = np.maximum(robot.stop_low - state.q, state.q - robot.stop_high)
    worst = int(excess.argmax())
    if excess[worst] > 0.05:
        text = f"{robot.joint_names[worst]} is {excess[worst]:.2f} rad beyond its range"
        yield Finding("joints", Health.FAIL, text, "calibrate the joint; is it this robot?")
    else:
        yield ok("joints", "all within their ranges")
