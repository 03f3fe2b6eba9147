"""Learns the actuator network: fitted, selected and judged on three separate sets of time blocks.

Neighbouring rows are nearly equal, so whole blocks are assigned and never single rows. Each set of
gains is also left out once: a network that holds at one set of gains only would be of no use.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim2real_deploy.console import Progress
from sim2real_deploy.errors import Refusal
from sim2real_deploy.identify.figures import JointFigures
from sim2real_deploy.identify.learn.mlp import fit_mlp
from sim2real_deploy.identify.learn.samples import (
    MOVING,
    GainSets,
    Samples,
    joints_of_kind,
    make_samples,
)
from sim2real_deploy.identify.recording import Recording, check_robot, check_torque
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.actuator_net import (
    FORMATS,
    FRICTION,
    TORQUE,
    ActuatorWeights,
    kinds_of,
)

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

HIDDEN = 32
STEPS = 1200  # of the optimiser
AXES = 6  # principal axes of the inputs along which "outside the data" is judged
ROUND = 5  # of five blocks three fit, one selects and one judges
CHOOSES, JUDGES = 2, 4
HELPS = 0.97  # an output is left out unless the error falls below this share of the identified one
OUTSIDE = 99.5  # percentile of the data's own distance up to which a row is inside
SLACK = 0.1  # variance added along each axis, since correlations differ at other gains
ROOM = 1.2  # bound of the output over the largest residual
LEAST_S = 15.0  # of motion that are needed
LEAST_ROWS = 2000  # of a set of gains: fewer are a transition
HISTORY = 50  # rows of the format `history`
AGES = {"torque": (0.0, 0.010, 0.020)}


@dataclass(frozen=True, slots=True)
class ActuatorErrors:
    """Errors of one joint in held-out rows (Nm rms)."""

    torque: float  # the torque itself
    ideal: float
    identified: float
    learned: float


@dataclass(frozen=True, slots=True)
class ActuatorResult:
    """A network with its errors on data that neither fitted nor selected it."""

    robot: RobotSpec
    weights: ActuatorWeights
    # By joint, of the reported torque; and of the torque that moves the leg, if a recording hangs.
    reported: tuple[ActuatorErrors, ...]
    carried: tuple[ActuatorErrors, ...]
    # Errors as identified, learnt without these gains, learnt with them.
    unseen_gains: dict[str, tuple[float, float, float]]
    samples: tuple[Samples, ...]
    gain_sets: tuple[str, ...]


def learn_actuator(
    robot: RobotSpec,
    recordings: Sequence[Recording],
    figures: JointFigures,
    form: str,
    progress: Progress,
    *,
    leave_out: bool = True,
) -> ActuatorResult:
    check(robot, recordings)
    sets = GainSets()
    progress("reading", 0.0)
    samples = make_samples(recordings, figures, sets)
    kept = [number for number in range(len(sets.names)) if _rows_at(samples, number) >= LEAST_ROWS]
    names = tuple(sets.names[number] for number in kept)
    check_excitation(recordings, samples, names)
    turns = 1 + (len(kept) if leave_out else 0)
    whole = _fit(robot, samples, form, None)
    unseen = {}
    for turn, number in enumerate(kept if leave_out else ()):
        progress(f"without {sets.names[number]}", (turn + 1) / turns)
        without = _fit(robot, samples, form, number)
        unseen[sets.names[number]] = _across_gains(samples, without, whole, number)
    reported = tuple(_errors(samples, whole, joint, False) for joint in range(robot.joint_count))
    hung = any(part.needed is not None for part in samples)
    carried = tuple(
        _errors(samples, whole, joint, True) for joint in range(robot.joint_count if hung else 0)
    )
    return ActuatorResult(robot, whole, reported, carried, unseen, tuple(samples), names)


def check(robot: RobotSpec, recordings: Sequence[Recording]) -> None:
    check_robot(robot, recordings)
    check_torque(recordings, ", or use `sim2real learn action`, which needs no torque")


def check_excitation(
    recordings: Sequence[Recording], samples: Sequence[Samples], names: Sequence[str]
) -> None:
    period = recordings[0].period
    moving = sum(int((s.usable & (np.abs(s.dq).max(axis=1) > MOVING)).sum()) for s in samples)
    if moving * period < LEAST_S:
        raise Refusal(
            f"only {moving * period:.1f} s in which joints move at steady gains, and {LEAST_S:g} "
            "are needed: record `sim2real excite` (four minutes) with the robot on its hoist"
        )
    if len(names) < 2:
        raise Refusal(
            f"only one set of gains ({', '.join(names) or 'none'}): nothing would show that the "
            "network holds at others. Add a recording at other gains; `sim2real excite` has three"
        )


def predict(
    weights: ActuatorWeights, part: Samples, rows: npt.NDArray[np.int64], joint: int
) -> Array:
    """Outputs of the network in these rows: rows x outputs."""
    inputs = part.inputs(weights.inputs, weights.rows(part.period), rows, joint)
    return np.asarray(weights.batch(int(weights.kind[joint]), inputs) * weights.on[joint])


def _rows_at(samples: Sequence[Samples], number: int) -> int:
    return sum(int((part.usable & (part.gains == number)).sum()) for part in samples)


def _chosen(part: Samples, turn: tuple[int, ...], only: int | None, but: int | None) -> Flags:
    rows = part.usable & np.isin(part.block % ROUND, turn)
    if only is not None:
        rows &= part.gains == only
    if but is not None:
        rows &= part.gains != but
    return np.asarray(rows)


def _fit(
    robot: RobotSpec, samples: Sequence[Samples], form: str, without: int | None
) -> ActuatorWeights:
    kinds, kind = kinds_of(robot)
    period = samples[0].period
    ages = AGES.get(form, tuple(np.arange(HISTORY) * period))
    lags = np.rint(np.array(ages) / period).astype(np.int64)
    fitting = tuple(turn for turn in range(ROUND) if turn not in (CHOOSES, JUDGES))
    count = len(ages) * len(FORMATS[form])
    found: dict[str, list[npt.NDArray[np.generic]]] = {}
    for number in range(len(kinds)):
        inputs, outputs, weights = [], [], []
        for joint in joints_of_kind(robot, kind, number):
            for part in samples:
                rows = np.flatnonzero(_chosen(part, fitting, None, without))
                inputs.append(part.inputs(form, lags, rows, joint))
                wanted, weight = _wanted(part, rows, joint)
                outputs.append(wanted)
                weights.append(weight)
        x, y, w = (np.concatenate(values) for values in (inputs, outputs, weights))
        x, y, w = _both_ways(x, y, w, form)
        net = fit_mlp(x, y, w, hidden=HIDDEN, steps=STEPS, seed=number)
        spread, reach = _domain(x, min(AXES, count))
        bound = [
            ROOM * float(np.percentile(np.abs(y[w[:, out] > 0, out]), 99.9))
            if (w[:, out] > 0).any()
            else 0.0
            for out in (TORQUE, FRICTION)
        ]
        parts = dict(zip(("w0", "b0", "w1", "b1", "w2", "b2"), net.layers, strict=True))
        parts |= {"spread": spread, "mean": net.mean, "reach": np.array(reach)}
        parts["bound"] = np.array(bound)
        for name, value in parts.items():
            found.setdefault(name, []).append(value)
    on = np.ones((robot.joint_count, 2))
    stacked = {name: np.stack(values) for name, values in found.items()}
    weights_ = ActuatorWeights(inputs=form, ages=tuple(ages), kind=kind, on=on, **stacked)
    _choose(weights_, samples, without)
    return weights_


def _both_ways(x: Array, y: Array, w: Array, form: str) -> tuple[Array, Array, Array]:
    """Add mirrored rows: in the other direction a motor's torque changes its sign and friction does
    not. A history holds targets, which are not symmetric."""
    if form != "torque":
        return x, y, w
    mirrored = y * np.array((-1.0, 1.0))
    return np.concatenate((x, -x)), np.concatenate((y, mirrored)), np.concatenate((w, w))


def _wanted(part: Samples, rows: npt.NDArray[np.int64], joint: int) -> tuple[Array, Array]:
    """Residuals of the identified model and the weight of each row."""
    motor = (part.torque - part.law)[rows, joint]
    friction, moving = np.zeros(len(rows)), np.zeros(len(rows))
    if part.needed is not None:
        left = (part.carried - part.needed - part.rubbing)[rows, joint]
        friction = left * np.sign(part.dq[rows, joint])
        moving = part.one_way[rows, joint].astype(float)
    return np.stack((motor, friction), 1), np.stack((np.ones(len(rows)), moving), 1)


def _domain(inputs: Array, axes: int) -> tuple[npt.NDArray[np.float32], float]:
    """The inputs' principal axes at unit variance, and the distance of the data along them."""
    centred = inputs - inputs.mean(0)
    scale = centred.std(0) + 1e-9
    size, direction = np.linalg.eigh(np.cov((centred / scale).T))
    chosen = np.argsort(size)[::-1][:axes]
    spread = (direction[:, chosen] / np.sqrt(size[chosen] + SLACK)).T / scale
    distance = np.sqrt(((centred @ spread.T) ** 2).sum(1))
    return spread.astype(np.float32), float(np.percentile(distance, OUTSIDE))


def _choose(weights: ActuatorWeights, samples: Sequence[Samples], without: int | None) -> None:
    """Switch off, for each joint, outputs that do not help in blocks that were not fitted."""
    for joint in range(len(weights.kind)):
        left = np.zeros((2, 2))  # outputs x (identified, learnt)
        for part in samples:
            rows = np.flatnonzero(_chosen(part, (CHOOSES,), None, without))
            wanted, weight = _wanted(part, rows, joint)
            given = predict(weights, part, rows, joint)
            left[:, 0] += (weight * wanted**2).sum(0)
            left[:, 1] += (weight * (wanted - given) ** 2).sum(0)
        weights.on[joint] = np.sqrt(left[:, 1]) < HELPS * np.sqrt(left[:, 0])


def _errors(
    samples: Sequence[Samples], weights: ActuatorWeights, joint: int, carried: bool
) -> ActuatorErrors:
    """Errors in the blocks that judge."""
    squares, count = np.zeros(4), 0
    for part in samples:
        rows = np.flatnonzero(_chosen(part, (JUDGES,), None, None))
        new = part_errors(weights, part, rows, joint, carried)
        if new is not None:
            squares += (new**2).sum(axis=1)
            count += new.shape[1]
    return ActuatorErrors(*np.sqrt(squares / max(count, 1)).tolist())


def part_errors(
    weights: ActuatorWeights,
    part: Samples,
    rows: npt.NDArray[np.int64],
    joint: int,
    carried: bool,
) -> Array | None:
    """Rows: torque, and the errors of the ideal, identified and learnt model; None without data."""
    given = predict(weights, part, rows, joint)
    law = part.law[rows, joint]
    if not carried:
        true = part.torque[rows, joint]
        parts = (true, true - part.ideal[rows, joint], true - law, true - law - given[:, TORQUE])
        return np.stack(parts)
    if part.needed is None:
        return None
    moving = part.one_way[rows, joint]
    way = np.sign(part.dq[rows, joint])
    true = part.needed[rows, joint]
    identified = law - part.rubbing[rows, joint]
    learned = identified + given[:, TORQUE] - way * given[:, FRICTION]
    return np.stack((true, true - part.ideal[rows, joint], true - identified, true - learned))[
        :, moving
    ]


def _across_gains(
    samples: Sequence[Samples], without: ActuatorWeights, whole: ActuatorWeights, number: int
) -> tuple[float, float, float]:
    """rms over all joints at gains that `without` has not seen: identified, without, whole."""
    squares, count = np.zeros(3), 0
    for joint in range(len(whole.kind)):
        for part in samples:
            rows = np.flatnonzero(_chosen(part, (JUDGES,), number, None))
            carried = part.needed is not None
            one = part_errors(without, part, rows, joint, carried)
            other = part_errors(whole, part, rows, joint, carried)
            if one is not None and other is not None:
                squares += (one[2] ** 2).sum(), (one[3] ** 2).sum(), (other[3] ** 2).sum()
                count += one.shape[1]
    identified, unseen, seen = np.sqrt(squares / max(count, 1)).tolist()
    return identified, unseen, seen
