"""Shared by the twin's tests: a robot, commands, and a twin held by its trunk."""

from typing import Any

import numpy as np
import numpy.typing as npt

from sim2real_deploy.robots import JointCommand, load_robot
from sim2real_deploy.robots.state import WholeState
from sim2real_deploy.twin.config import Imperfections
from sim2real_deploy.twin.robot import TwinRobot
from sim2real_deploy.wire.decoders import StateDecoder
from sim2real_deploy.wire.encoders import CommandEncoder

ROBOT = load_robot("go2")
JOINTS = ROBOT.joint_count
PERIOD = 1 / ROBOT.wire.rate_hz
_encoder = CommandEncoder(ROBOT)
_decoder = StateDecoder(ROBOT)


def command(q: Any = 0.0, kp: Any = 0.0, kd: Any = 0.0, torque: Any = 0.0, dq: Any = 0.0) -> bytes:
    """An rt/lowcmd sample; each part one number for all joints, or one each."""
    parts = (np.broadcast_to(np.asarray(p, np.float32), JOINTS) for p in (q, dq, kp, kd, torque))
    return _encoder.encode(JointCommand(*parts))


def stand() -> bytes:
    return command(ROBOT.stand_pose, ROBOT.kp, ROBOT.kd)


def decode(sample: bytes | None) -> WholeState:
    assert sample is not None
    assert _decoder.flaw(sample) is None
    return _decoder.decode(sample, 0).whole()


def twin(seed: int = 0, **imperfections: Any) -> TwinRobot:
    return TwinRobot(ROBOT, imperfections=Imperfections(**imperfections), seed=seed)


def hung(seed: int = 0, **imperfections: Any) -> TwinRobot:
    """A twin with its trunk held in the air, legs hanging free: a test bench for motors."""
    robot = twin(seed, **imperfections)
    robot.model.dof_armature[:6] = 1e9
    robot.model.opt.gravity[:] = 0.0
    robot.data.qpos[2] = 1.0
    robot.data.qpos[7:] = ROBOT.stand_pose
    robot.motors.engage()
    return robot


def stand_up(robot: TwinRobot, seconds: float = 2.0) -> WholeState:
    """From lying to standing, the way the vendor's example does it."""
    steps = round(seconds / PERIOD)
    state = None
    for k in range(steps):
        done = min(1.0, 1.5 * k / steps)
        pose = ROBOT.sit_pose + done * (ROBOT.stand_pose - ROBOT.sit_pose)
        state = robot.advance(command(pose, ROBOT.kp, ROBOT.kd)) or state
    return decode(state)


def record(robot: TwinRobot, sample: bytes | None, steps: int, field: str) -> npt.NDArray[Any]:
    """Advance with one command and collect a field of every state."""
    return np.array([np.array(getattr(decode(robot.advance(sample)), field)) for _ in range(steps)])
