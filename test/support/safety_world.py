"""A healthy robot, to be made ill by the safety tests: states and inputs with one thing wrong."""

from dataclasses import replace
from typing import Any

import numpy as np

from sim2real_deploy.robots import JointCommand, WholeState, load_robot
from sim2real_deploy.robots.odometry import legs_of
from sim2real_deploy.safety.chain import Report
from sim2real_deploy.safety.inputs import Inputs
from sim2real_deploy.wire.link import LinkCounters
from sim2real_deploy.wire.remote import Remote, encode

GO2 = load_robot("go2")
MS = 1_000_000
TICK = 2 * MS
WALKING = Report("walking", "control", 42, 0, False, False, 0, False, False, 1.0, 0.1)
DAMPING = replace(WALKING, mode="damp", damping=True)


def healthy_state(now_ns: int, **changes: Any) -> WholeState:
    """A robot that stands; its sensors are never quite still."""
    wiggle = np.float32(1e-3 * np.sin(now_ns / 1e7))
    values: dict[str, Any] = {
        "received_ns": now_ns,
        "tick": now_ns // MS,
        "quaternion": np.array([1, 0, 0, 0], np.float32),
        "gyroscope": np.array([wiggle, 0, 0], np.float32),
        "accelerometer": np.array([0, 0, 9.81], np.float32),
        "q": GO2.stand_pose.copy(),
        "dq": np.full(GO2.joint_count, wiggle, np.float32),
        "ddq": np.zeros(GO2.joint_count, np.float32),
        "torque": np.zeros(GO2.joint_count, np.float32),
        "temperature": np.full(GO2.joint_count, 35, np.int8),
        "lost": np.zeros(GO2.joint_count, np.uint32),
        "foot_force": np.zeros(4, np.int16),
        "battery_percent": 80,
        "battery_current_ma": -2000,
        "cell_millivolts": np.array([3900] * 8 + [0] * 7, np.uint16),
        "voltage": 31.2,
        "current": 2.0,
        "imu_temperature": 40,
        "remote": encode(Remote()),
        "raw": b"",
        "motor_mode": np.ones(GO2.joint_count, np.uint8),
    }
    return WholeState(**(values | changes))


def command(**parts: Any) -> JointCommand:
    """A command for all joints, at the stand pose where no position is given."""
    values = {"q": GO2.stand_pose, "dq": 0.0, "kp": 0.0, "kd": 1.0, "torque": 0.0} | parts
    return JointCommand(
        **{k: np.broadcast_to(np.float32(v), GO2.joint_count) for k, v in values.items()}
    )


def rolling(speed: float, left: float = 0.0) -> dict[str, Any]:
    """A state whose feet, all loaded, move backwards under the trunk: it goes forward so fast, and
    to the left."""
    q, dq, torque = GO2.stand_pose.copy(), np.zeros(12, np.float32), np.zeros(12, np.float32)
    for leg in legs_of(GO2):
        _, _, columns = leg.pose(q.tolist())
        jacobian = np.array(columns).T
        places = list(leg.joints)
        dq[places] = np.linalg.solve(jacobian, [-speed, -left, 0.0])
        torque[places] = jacobian.T @ [0.0, 0.0, -37.0]
    return {"q": q, "dq": dq, "torque": torque}


def healthy_inputs(now_ns: int, **changes: Any) -> Inputs:
    values: dict[str, Any] = {
        "state": healthy_state(now_ns),
        "counters": LinkCounters(received=now_ns // TICK),
        "report": WALKING,
        "control_silence_s": 0.005,
        "command_age_s": 0.002,
        "command_damping": False,
        "recorder_silence_s": 0.5,
        "disk_free_gb": 100.0,
        "wall_ns": 1_700_000_000_000_000_000 + now_ns,
    }
    return Inputs(**(values | changes))
