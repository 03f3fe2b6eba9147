"""rt/sportmodestate, the robot's own odometry, and rt/wirelesscontroller, its remote."""

import struct
from dataclasses import dataclass

import numpy as np

from sim2real_deploy.robots.geometry import euler_angles
from sim2real_deploy.robots.state import Floats
from sim2real_deploy.wire.layout import PLAIN_CDR
from sim2real_deploy.wire.messages import SPORT_MODE_STATE
from sim2real_deploy.wire.remote import Remote, keys

SPORT_STATE_TOPIC = "rt/sportmodestate"
WIRELESS_TOPIC = "rt/wirelesscontroller"

_WIRELESS = struct.Struct("<4s4fH")


@dataclass(slots=True)
class SportState:
    """The robot's own estimate of its pose and motion."""

    stamp_ns: int  # the robot's clock
    quaternion: Floats  # w, x, y, z
    gyroscope: Floats
    accelerometer: Floats
    position: Floats  # m, odometry frame
    velocity: Floats  # m/s, odometry frame
    yaw_speed: float
    body_height: float


def encode(state: SportState) -> bytes:
    raw = np.zeros(SPORT_MODE_STATE.size, np.uint8)
    raw[:4] = np.frombuffer(PLAIN_CDR, np.uint8)
    fields = raw.view(SPORT_MODE_STATE.dtype)
    fields["stamp.sec"], fields["stamp.nanosec"] = divmod(state.stamp_ns, 1_000_000_000)
    fields["imu_state.quaternion"] = state.quaternion
    fields["imu_state.gyroscope"] = state.gyroscope
    fields["imu_state.accelerometer"] = state.accelerometer
    fields["imu_state.rpy"] = euler_angles(*state.quaternion.tolist())
    fields["position"] = state.position
    fields["velocity"] = state.velocity
    fields["yaw_speed"] = state.yaw_speed
    fields["body_height"] = state.body_height
    return raw.tobytes()


def encode_wireless(remote: Remote) -> bytes:
    return _WIRELESS.pack(PLAIN_CDR, remote.lx, remote.ly, remote.rx, remote.ry, keys(remote))
