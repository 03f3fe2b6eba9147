"""The contestants of `bench control`, each run in its own process.

Every one copies the tick of the state it answers into a spare field of its command, and sends
"ready" through its pipe once it answers.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from sim2real_deploy.bench.c_responder import STRUCTURES, CResponder
from sim2real_deploy.control.adaptation import open_adaptation
from sim2real_deploy.control.controller import Controller
from sim2real_deploy.control.loop import ControlLoop
from sim2real_deploy.control.modes import Mode, ModeEvent
from sim2real_deploy.control.stages import load_stage
from sim2real_deploy.control.supervision import Unsupervised
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.robots import JointCommand, RobotSpec, WholeState
from sim2real_deploy.runtime import realtime
from sim2real_deploy.wire import vendor
from sim2real_deploy.wire.channels import Participant
from sim2real_deploy.wire.dds_link import DdsLink
from sim2real_deploy.wire.decoders import StateDecoder
from sim2real_deploy.wire.encoders import CommandEncoder
from sim2real_deploy.wire.messages import FAMILIES, LOW_CMD, LOW_STATE, Family

INTERFACE = "lo"
# The arguments are domain, robot, policy and the pipe.
Contestant = Callable[[int, RobotSpec, str, Connection], None]


def contestants(c_library: Path | None, adaptation: str = "none") -> dict[str, Contestant]:
    """All that can run here; C only if it was built. With adaptation, ours also runs without it."""
    found: dict[str, Contestant] = {"echo": echo, "ours": partial(ours, adaptation=adaptation)}
    if adaptation != "none":
        found["ours, adaptation off"] = ours
    if c_library is not None:
        found |= {name: partial(in_c, c_library, name) for name in STRUCTURES}
    if vendor.installed():
        found["vendor"] = vendors
    return found


def echo(domain: int, spec: RobotSpec, policy: str, pipe: Connection) -> None:
    """The least work between a state and a command on this link."""
    family = FAMILIES[spec.wire.family]
    participant = Participant(domain, INTERFACE, "echo")
    reader = participant.reader(LOW_STATE, family.state)
    writer = participant.writer(LOW_CMD, family.command)
    tick, mark = family.state.span("tick"), family.command.span("reserve")
    damping = JointCommand.damping(spec.joint_count, 1.0)
    command = bytearray(CommandEncoder(spec).encode(damping))
    _prefer(domain)
    pipe.send("ready")
    while True:
        if reader.wait(1.0):
            for sample in reader.take():
                command[mark.start : mark.start + 4] = sample.data[tick]
                writer.write(bytes(command))


class _MarkingEncoder(CommandEncoder):
    """Ours, plus the mark of the measurement: the state's tick in a spare field."""

    def __init__(self, spec: RobotSpec) -> None:
        super().__init__(spec)
        family = FAMILIES[spec.wire.family]
        tick, spare = family.state.span("tick"), family.command.span("reserve").start
        self.repeat(tick, slice(spare, spare + 4))


class MarkedLink(DdsLink):
    encoder_for = _MarkingEncoder


def ours(
    domain: int, spec: RobotSpec, policy: str, pipe: Connection, adaptation: str = "none"
) -> None:
    link = MarkedLink(spec, INTERFACE, domain, name="ours")
    adapts = open_adaptation(spec, adaptation)
    controller = Controller(spec, load_stage(), load_bundle(policy, spec).open(), adapts)
    controller.situation.sport_released = True
    loop = ControlLoop(link, controller, Unsupervised())

    def operate() -> None:
        """Start walking, and again if a stall of the machine stopped it."""
        ready = False
        while True:
            if controller.mode is not Mode.WALKING:
                controller.situation.fault = ""
                loop.request(ModeEvent.STAND)
                loop.request(ModeEvent.WALK)
            elif not ready:
                pipe.send("ready")
                ready = True
            time.sleep(0.1)

    threading.Thread(target=operate, daemon=True).start()
    realtime.calm_interpreter()
    _prefer(domain)
    loop.run(threading.Event())


def vendors(domain: int, spec: RobotSpec, policy: str, pipe: Connection) -> None:
    """The usual deployment on the vendor's SDK: a callback keeps the newest state, a loop computes,
    writes and sleeps. Observation and network are ours, so that only the rest differs."""
    family: Family = FAMILIES[spec.wire.family]
    runner = load_bundle(policy, spec).open()
    channel, checksum = vendor.module("core.channel"), vendor.checksum()
    command_class = vendor.idl(family.command.type_name)
    channel.ChannelFactoryInitialize(domain, INTERFACE)
    newest: list[Any] = [None]
    subscriber = channel.ChannelSubscriber(LOW_STATE, vendor.idl(family.state.type_name))
    subscriber.Init(lambda message: newest.__setitem__(0, message), 10)
    publisher = channel.ChannelPublisher(LOW_CMD, command_class)
    publisher.Init()
    command = command_class.deserialize(
        CommandEncoder(spec).encode(JointCommand.damping(spec.joint_count, 1.0))
    )
    template, still = standing(spec), (0.0, 0.0, 0.0)
    joints, every = range(spec.joint_count), round(spec.wire.rate_hz / runner.contract.rate_hz)
    while newest[0] is None:
        time.sleep(0.01)
    pipe.send("ready")
    count = 0
    while True:
        state = newest[0]
        if count % every == 0:
            motors = state.motor_state
            seen = replace(
                template,
                quaternion=np.array(state.imu_state.quaternion, np.float32),
                gyroscope=np.array(state.imu_state.gyroscope, np.float32),
                q=np.array([motors[i].q for i in joints], np.float32),
                dq=np.array([motors[i].dq for i in joints], np.float32),
            )
            runner.observe(seen, still)
            runner.infer()
        for i in joints:
            motor = command.motor_cmd[i]
            motor.mode, motor.q, motor.dq, motor.tau = 1, float(runner.target[i]), 0.0, 0.0
            motor.kp, motor.kd = float(runner.kp[i]), float(runner.kd[i])
        command.reserve = state.tick
        command.crc = checksum(command)
        publisher.Write(command)
        count += 1
        time.sleep(1.0 / spec.wire.rate_hz)


def in_c(
    built: Path, structure: str, domain: int, spec: RobotSpec, policy: str, pipe: Connection
) -> None:
    """The same work in C, on topics opened like ours and with the same real-time rights."""
    family = FAMILIES[spec.wire.family]
    participant = Participant(domain, INTERFACE, structure)
    reader = participant.reader(LOW_STATE, family.state)
    writer = participant.writer(LOW_CMD, family.command)
    responder = CResponder(built, load_bundle(policy, spec), spec, reader, writer)
    _prefer(domain)
    pipe.send("ready")
    responder.run(structure)


def _prefer(domain: int) -> None:
    realtime.prefer_this_thread()
    realtime.prefer_receivers()
    realtime.stay_together(domain)
    realtime.lock_memory()


def standing(spec: RobotSpec) -> WholeState:
    """A state of a robot that stands still."""
    family = FAMILIES[spec.wire.family]
    blank = b"\x00\x01".ljust(family.state.size, b"\0")
    state = StateDecoder(spec).decode(blank, 0).whole()
    upright = np.array([1, 0, 0, 0], np.float32)
    return replace(state, q=spec.stand_pose, quaternion=upright)
