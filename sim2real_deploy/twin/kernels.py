"""Compiled loops for what the twin computes in every wire period besides the physics.

A dozen numpy calls on a dozen numbers would cost as much as the physics, which evicts their code
from the CPU's caches.
"""

from typing import Any

import numpy as np

from sim2real_deploy.compiled import compiled
from sim2real_deploy.robots import geometry

Array = Any  # a numpy array of any layout


_euler_angles = compiled(geometry.euler_angles)


@compiled
def tell_motors(
    told: Array,
    targets: Array,
    misread: Array,
    speed_gain: Array,
    twist: Array,
    current: Array,
    bounds: Array,
) -> None:
    """Write position and velocity targets (rows) as the boards see them, and keep the motor
    currents within the torque bounds."""
    for j in range(twist.size):
        told[j, 0] = targets[0, j] - misread[0, j] - twist[j]
        told[j, 1] = (targets[1, j] - misread[1, j]) / speed_gain[j]
    for j in range(current.size):
        current[j] = min(max(current[j], bounds[j, 0]), bounds[j, 1])


@compiled
def follow_joints(
    q: Array,
    dq: Array,
    ddq: Array,
    torque: Array,
    twist: Array,
    play: Array,
    truth: Array,
    noise: Array,
    gains: Array,
    readings: Array,
) -> None:
    """Position, velocity, acceleration and torque (rows of `truth`) on the motor side of each gear,
    which moves only once the backlash is used up; and their readings."""
    for j in range(q.size):
        twist[j] = min(max(truth[0, j] - q[j], -play[j] / 2), play[j] / 2)
        truth[0, j] = q[j] + twist[j]
        truth[1, j], truth[2, j], truth[3, j] = dq[j], ddq[j], torque[j]
        for row in range(4):
            readings[row, j] = gains[row, j] * truth[row, j] + noise[row, j]


@compiled
def take_late(ring: Array, newest: int, age: Array, command: Array) -> None:
    """Take from the ring of past commands (one block per wire period, one column per joint) the one
    that reaches each joint's motor now, `age` periods old."""
    length = ring.shape[0]
    for j in range(age.size):
        at = (newest - age[j]) % length
        for row in range(command.shape[0]):
            command[row, j] = ring[at, row, j]


@compiled
def stick(friction: Array, sliding: Array, extra: Array, dq: Array, speed: float) -> None:
    """Dry friction that is higher at rest and fades as the joint moves (Stribeck)."""
    for j in range(friction.size):
        ratio = dq[j] / speed
        friction[j] = sliding[j] + extra[j] * np.exp(-ratio * ratio)


@compiled
def read_imu(
    quaternion: Array, rate: Array, force: Array, noise: Array, bias: Array, turn: Array, to: Array
) -> None:
    """Write quaternion, rates and specific force; `turn` is the cosine and sine of half the heading
    error."""
    c, s = turn
    w, x, y, z = quaternion[0], quaternion[1], quaternion[2], quaternion[3]
    to[0], to[1], to[2], to[3] = c * w - s * z, c * x - s * y, c * y + s * x, c * z + s * w
    for i in range(3):
        to[4 + i] = rate[i] + bias[i] + noise[i]
        to[7 + i] = force[i] + noise[3 + i]


@compiled
def write_body(imu: Array, feet: Array, to_imu: Array, to_feet: Array) -> None:
    """Write the IMU's readings with their Euler angles, and the forces under the feet."""
    for i in range(imu.size):
        to_imu[i] = imu[i]
    roll, pitch, yaw = _euler_angles(imu[0], imu[1], imu[2], imu[3])
    to_imu[10], to_imu[11], to_imu[12] = roll, pitch, yaw
    for i in range(to_feet.size):
        to_feet[i] = int(feet[i])


@compiled
def heat(temperature: Array, torque: Array, limit: Array, winding: Array, bounds: Array) -> None:
    """Heat and cool the windings, then limit the torque of those that are too hot.

    `winding` holds the rise at full torque and the share of cooling in this time, the ambient
    temperature, and the temperatures from which torque falls and at which it is zero.
    """
    rise, cooling, ambient, derate_from, derate_to = winding
    for j in range(temperature.size):
        load = torque[j] / limit[j]
        temperature[j] += rise * load * load - cooling * (temperature[j] - ambient)
        left = (derate_to - temperature[j]) / (derate_to - derate_from)
        bounds[j, 1] = limit[j] * min(max(left, 0.0), 1.0)
        bounds[j, 0] = -bounds[j, 1]
