"""The load on each foot, what a swinging leg's joints lose to friction, and how fast the trunk
moves over a foot that stands: compiled.

The reference model is one leg of the identified twin: links, rotors, damping and dry friction. From
the reported torques it subtracts what moving this leg takes (recursive Newton-Euler, with the
trunk's motion from the IMU). What is left is the force at the foot, and for a leg in the air what
the reference model does not have.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sim2real_deploy.compiled import compiled, part
from sim2real_deploy.control.adaptation.reference import Reference
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.robots.legs import REGULAR, LegKinematics

Array = Any  # a numpy array, as the compiled loops see it
SLIDES = 0.1  # rad/s: dry friction has most of its size from here on
LONGEST_S = 0.0061  # between two states; with a longer gap accelerations are not known
# Columns of a leg's table, one row per joint; the last row has the foot's origin and radius.
ORIGIN, MASS, CENTRE, INERTIA, FRICTION, DAMPING, ARMATURE, COLUMNS = 0, 3, 4, 7, 10, 11, 12, 13
RADIUS = MASS  # in the last row
# Rows of the trunk's motion.
RATE, FORCE, RATE_BEFORE, TURNING, DOWN = range(5)
# Rows of the joints' motion.
Q, DQ, TORQUE, DDQ = range(4)
# Places in a state's numbers before the joints', and in what is measured of a leg.
GYROSCOPE, ACCELEROMETER, JOINTS = 4, 7, 10
SIZE_OF_FORCE, LEFT = 3, 4
TICK, PREPARED = range(2)  # places in `memo`


class Seen(NamedTuple):
    """A state in double precision."""

    imu: Array  # quaternion, gyroscope, accelerometer
    joints: Array  # rows q, dq, torque
    tick: Array  # the robot's counter


# Loops over three values are written out: they compile in a tenth of the time of whole arrays.


@compiled
def add(factor: float, vector: Array, out: Array) -> None:
    for i in range(3):
        out[i] += factor * vector[i]


@compiled
def put(vector: Array, out: Array) -> None:
    for i in range(3):
        out[i] = vector[i]


@compiled
def add_cross(a: Array, b: Array, out: Array) -> None:
    out[0] += a[1] * b[2] - a[2] * b[1]
    out[1] += a[2] * b[0] - a[0] * b[2]
    out[2] += a[0] * b[1] - a[1] * b[0]


@compiled
def cross(a: Array, b: Array, out: Array) -> None:
    out[0] = out[1] = out[2] = 0.0
    add_cross(a, b, out)


@compiled
def to_trunk(row: Array, first: int, frame: Array, out: Array) -> None:
    """A link's vector, from `first` on in a row, in the trunk's frame; the rows of `frame` are the
    link's axes."""
    for i in range(3):
        out[i] = row[first] * frame[0, i]
        out[i] += row[first + 1] * frame[1, i] + row[first + 2] * frame[2, i]


@compiled
def add_swing(spin: Array, turning: Array, arm: Array, work: Array, out: Array) -> None:
    """Add the acceleration of a point at `arm` on a body that turns."""
    add_cross(turning, arm, out)
    cross(spin, arm, work)
    add_cross(spin, work, out)


@compiled
def moment_of(spin: Array, turning: Array, frame: Array, row: Array, out: Array) -> None:
    """Turning a link about its centre; its inertia about its own axes is in `row`."""
    w, need = np.zeros(3), np.zeros(3)
    x, y, z = row[INERTIA], row[INERTIA + 1], row[INERTIA + 2]
    for i in range(3):
        for axis in range(3):
            w[axis] += frame[axis, i] * spin[i]
            need[axis] += row[INERTIA + axis] * frame[axis, i] * turning[i]
    need[0] += (z - y) * w[1] * w[2]
    need[1] += (x - z) * w[2] * w[0]
    need[2] += (y - x) * w[0] * w[1]
    to_trunk(need, 0, frame, out)


@compiled
def turn(frame: Array, axis: int, angle: float) -> None:
    """About one of its own axes."""
    one, two = (axis + 1) % 3, (axis + 2) % 3
    cosine, sine = math.cos(angle), math.sin(angle)
    for i in range(3):
        x, y = frame[one, i], frame[two, i]
        frame[one, i], frame[two, i] = cosine * x + sine * y, cosine * y - sine * x


@compiled
def move_leg(
    joints: Array,
    trunk: Array,
    table: Array,
    axes: Array,
    turns: Array,
    columns: Array,
    foot: Array,
) -> None:
    """Subtract the torques that moving the links takes. `turns`: each joint's axis, `columns`: how
    it moves the foot, `foot`: its place; all in the trunk's frame."""
    count = axes.size
    frame, arm, work = np.zeros((3, 3)), np.zeros(3), np.zeros(3)
    places, centres = np.zeros((count, 3)), np.zeros((count, 3))
    forces, moments = np.zeros((count, 3)), np.zeros((count, 3))
    spin, turning, moving = np.zeros(3), np.zeros(3), np.zeros(3)
    put(trunk[RATE], spin)
    put(trunk[TURNING], turning)
    put(trunk[FORCE], moving)
    for i in range(3):
        frame[i, i] = 1.0
    for k in range(count):
        to_trunk(table[k], ORIGIN, frame, arm)
        add_swing(spin, turning, arm, work, moving)
        add(1.0, arm, foot)
        put(foot, places[k])
        put(frame[axes[k]], turns[k])
        cross(spin, turns[k], work)
        add(joints[DDQ, k], turns[k], turning)
        add(joints[DQ, k], work, turning)
        add(joints[DQ, k], turns[k], spin)
        turn(frame, axes[k], joints[Q, k])
        to_trunk(table[k], CENTRE, frame, arm)
        put(foot, centres[k])
        add(1.0, arm, centres[k])
        put(moving, work)
        add_swing(spin, turning, arm, forces[k], work)
        put(work, forces[k])
        moment_of(spin, turning, frame, table[k], moments[k])
    to_trunk(table[count], ORIGIN, frame, arm)
    add(1.0, arm, foot)
    for k in range(count):
        put(foot, arm)
        add(-1.0, places[k], arm)
        cross(turns[k], arm, columns[k])
        for link in range(k, count):
            put(centres[link], arm)
            add(-1.0, places[k], arm)
            cross(arm, forces[link], work)
            for i in range(3):
                need = table[link, MASS] * work[i] + moments[link, i]
                joints[TORQUE, k] -= turns[k, i] * need


@compiled
def force_of(columns: Array, torques: Array, force: Array) -> None:
    """The force at the foot for given joint torques: J^T f = tau, by least squares."""
    a = d = f = REGULAR
    b = c = e = r = s = t = 0.0
    for k in range(torques.size):
        x, y, z, torque = columns[k, 0], columns[k, 1], columns[k, 2], torques[k]
        a, b, c = a + x * x, b + x * y, c + x * z
        d, e, f = d + y * y, e + y * z, f + z * z
        r, s, t = r + torque * x, s + torque * y, t + torque * z
    p, q, u = d * f - e * e, c * e - b * f, b * e - c * d
    v, w, m = a * f - c * c, b * c - a * e, a * d - b * b
    whole = a * p + b * q + c * u
    force[0] = (p * r + q * s + u * t) / whole
    force[1] = (q * r + v * s + w * t) / whole
    force[2] = (u * r + w * s + m * t) / whole


@compiled
def measure_leg(
    now: Array,
    before: Array,
    trunk: Array,
    quaternion: Array,
    elapsed_s: float,
    since_s: float,
    leg: Array,
    table: Array,
    extra: Array,
    out: Array,
) -> float:
    """The vertical load on the foot, N. In `out`: the trunk's velocity if the foot stands still,
    the size of the force at the foot, and of each joint the torque that the reference model cannot
    explain for a leg in the air."""
    count = leg.shape[1]
    w, x, y, z = quaternion[0], quaternion[1], quaternion[2], quaternion[3]
    trunk[DOWN, 0], trunk[DOWN, 1] = 2.0 * (w * y - x * z), -2.0 * (y * z + w * x)
    trunk[DOWN, 2] = 2.0 * (x * x + y * y) - 1.0
    # Gyroscopes are noisy and the trunk is slow: differences since `mark`.
    for i in range(3):
        trunk[TURNING, i] = (trunk[RATE, i] - trunk[RATE_BEFORE, i]) / since_s
    joints, turns, columns = np.zeros((4, count)), np.zeros((count, 3)), np.zeros((count, 3))
    foot, force, spin, part = np.zeros(3), np.zeros(3), np.zeros(3), np.zeros(3)
    for k in range(count):
        joint = leg[0, k]
        speed = now[DQ, joint]
        joints[Q, k], joints[DQ, k] = now[Q, joint], speed
        joints[DDQ, k] = (speed - before[joint]) / elapsed_s
        rubs = table[k, FRICTION] * math.tanh(speed / SLIDES) + table[k, DAMPING] * speed
        joints[TORQUE, k] = now[TORQUE, joint] - rubs - table[k, ARMATURE] * joints[DDQ, k]
    move_leg(joints, trunk, table, leg[1], turns, columns, foot)
    for k in range(count):
        out[LEFT + k] = joints[TORQUE, k]
        joints[TORQUE, k] -= extra[leg[0, k]] * math.tanh(joints[DQ, k] / SLIDES)
    force_of(columns, joints[TORQUE], force)
    out[SIZE_OF_FORCE] = math.sqrt(force[0] ** 2 + force[1] ** 2 + force[2] ** 2)
    put(trunk[RATE], spin)
    cross(foot, spin, out)
    for k in range(count):
        add(joints[DQ, k], turns[k], spin)
        add(-joints[DQ, k], columns[k], out)
    cross(trunk[DOWN], spin, part)  # the foot rolls
    add(table[count, RADIUS], part, out)
    for joint in range(before.size):
        before[joint] = now[DQ, joint]
    return float(force[0] * trunk[DOWN, 0] + force[1] * trunk[DOWN, 1] + force[2] * trunk[DOWN, 2])


class Legs(NamedTuple):
    """`mark` in one tick, then `measure` one leg after another in the ticks that follow."""

    legs: Array  # of each: rows of joints and their axes
    tables: Array  # of each: see the columns above
    before: Array  # joint speeds that accelerations are differences to
    trunk: Array
    out: Array  # see `measure_leg`
    memo: Array  # the robot's counter in the last state, and in the one prepared with

    @classmethod
    def of(cls, spec: RobotSpec, legs: Sequence[LegKinematics], reference: Reference) -> "Legs":
        return cls(
            legs=np.array([(leg.joints, leg.axes) for leg in legs], np.int64),
            tables=np.array([_table(leg, reference) for leg in legs]),
            before=np.zeros(spec.joint_count),
            trunk=np.zeros((5, 3)),
            out=np.zeros(LEFT + len(reference.links)),
            memo=np.zeros(2, np.int64),
        )


@part
def mark(legs: Legs, seen: Seen) -> None:
    """Store the motion that accelerations are differences to."""
    legs.memo[TICK] = legs.memo[PREPARED] = seen.tick[0]
    for j in range(legs.before.size):
        legs.before[j] = seen.joints[DQ, j]
    for i in range(3):
        legs.trunk[RATE_BEFORE, i] = seen.imu[GYROSCOPE + i]


@part
def measure(legs: Legs, leg: int, seen: Seen, extra: Array) -> float:
    """The vertical load on a foot; NaN where the state before this one is missing. `extra`: dry
    friction of each joint beyond the reference's."""
    memo, tick = legs.memo, seen.tick[0]
    elapsed_s, since_s = (tick - memo[TICK]) / 1e3, (tick - memo[PREPARED]) / 1e3
    memo[TICK] = tick
    if not (0.0 < elapsed_s < LONGEST_S and since_s > 0.0):
        for j in range(legs.before.size):
            legs.before[j] = seen.joints[DQ, j]
        return math.nan
    for i in range(3):
        legs.trunk[RATE, i] = seen.imu[GYROSCOPE + i]
        legs.trunk[FORCE, i] = seen.imu[ACCELEROMETER + i]
    motion = seen.joints, legs.before, legs.trunk, seen.imu, elapsed_s, since_s
    load: float = measure_leg(*motion, legs.legs[leg], legs.tables[leg], extra, legs.out)
    return load


def _table(leg: LegKinematics, reference: Reference) -> Array:
    """Of one leg. A link's centre counts outwards in y, to the side that the leg is on."""
    table = np.zeros((len(leg.origins), COLUMNS))
    table[:, ORIGIN : ORIGIN + 3] = leg.origins
    side = math.copysign(1.0, leg.origins[0][1])
    for row, link in zip(table, reference.links, strict=False):
        x, y, z = link.centre
        row[MASS], row[CENTRE : CENTRE + 3] = link.mass, (x, side * y, z)
        row[INERTIA : INERTIA + 3] = link.inertia
    table[:-1, FRICTION] = reference.friction
    table[:-1, DAMPING] = reference.damping
    table[:-1, ARMATURE] = reference.armature
    table[-1, RADIUS] = leg.foot_radius
    return table
