"""What the wire tests share: a free DDS domain, the golden messages, a plant that echoes."""

import fcntl
import json
import random
import tempfile
from functools import cache
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from sim2real_deploy.robots import RobotSpec, WholeState, load_robot
from sim2real_deploy.wire import vendor
from sim2real_deploy.wire.encoders import StateEncoder
from sim2real_deploy.wire.messages import FAMILIES
from sim2real_deploy.wire.remote import Remote, encode
from support.places import DATA as TEST_DATA

_held: list[IO[str]] = []
needs_vendor_sdk = pytest.mark.skipif(
    not vendor.installed(), reason="no vendor SDK here: pip install --no-deps unitree-sdk2"
)
DATA = TEST_DATA / "wire"


@cache
def free_domain() -> int:
    """A DDS domain that no other run of these tests has: held by a file lock until we end.

    Only up to 100: the ports of higher ones are those the system gives to anybody.
    """
    for domain in random.sample(range(1, 101), 100):
        lock = open(Path(tempfile.gettempdir()) / f"dds_domain_{domain}.lock", "w")  # noqa: SIM115
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            continue
        _held.append(lock)
        return domain
    raise RuntimeError("all DDS domains are taken")


@cache
def golden() -> dict[str, list[dict[str, Any]]]:
    messages: dict[str, list[dict[str, Any]]] = json.loads(
        (DATA / "golden_messages.json").read_text()
    )["messages"]
    return messages


@cache
def robot(family: str) -> RobotSpec:
    """A robot of either wire family: the Go2, or 29 joints of the same kind on the hg messages."""
    go2 = load_robot("go2")
    if family == "go":
        return go2
    joints = tuple(
        go2.joints[i % go2.joint_count].model_copy(update={"name": f"joint_{i}"}) for i in range(29)
    )
    return go2.model_copy(
        update={
            "name": "walker",
            "joints": joints,
            "joint_count": 29,
            "legs": {},
            "wire": go2.wire.model_copy(update={"family": "hg"}),
        }
    )


def state(spec: RobotSpec, tick: int = 0) -> WholeState:
    """A plausible state: standing, level, nothing wrong."""
    joints, legged = spec.joint_count, spec.wire.family == "go"
    zero = np.zeros(joints, np.float32)
    return WholeState(
        received_ns=0,
        tick=tick,
        quaternion=np.array([1, 0, 0, 0], np.float32),
        gyroscope=np.zeros(3, np.float32),
        accelerometer=np.array([0, 0, 9.81], np.float32),
        q=spec.stand_pose.copy(),
        dq=zero.copy(),
        ddq=zero.copy(),
        torque=zero.copy(),
        temperature=np.full(joints, 40, np.int16),
        lost=np.zeros(joints, np.uint32),
        foot_force=np.full(4, 30, np.int16) if legged else np.empty(0, np.int16),
        battery_percent=80 if legged else -1,
        battery_current_ma=-1200 if legged else 0,
        cell_millivolts=np.full(15, 3900, np.uint16) if legged else np.empty(0, np.uint16),
        voltage=29.5,
        current=1.5 if legged else 0.0,
        imu_temperature=45,
        remote=encode(Remote()),
        raw=b"",
        motor_mode=np.ones(joints, np.uint8),
    )


def state_sample(spec: RobotSpec, tick: int) -> bytes:
    return StateEncoder(spec).encode(state(spec, tick))


def layouts() -> list[Any]:
    return [layout for f in FAMILIES.values() for layout in (f.state, f.command)]
