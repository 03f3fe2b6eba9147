"""Learns a delta action from recordings, and keeps it only if it helps on held-out data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sim2real_deploy.console import Progress
from sim2real_deploy.errors import Refusal
from sim2real_deploy.identify.learn.action import (
    CONTROL_S,
    WINDOW,
    Deltas,
    fit_deltas,
    replay_error,
    search,
    windows,
)
from sim2real_deploy.identify.learn.simulator import Motion, Simulator, motion_of
from sim2real_deploy.identify.learn.store import card_of, learnt_from
from sim2real_deploy.identify.recording import Recording, check_robot
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.config import Imperfections, Learned, Motors
from sim2real_deploy.twin.delta_action import DeltaWeights

Array = npt.NDArray[np.float64]

LEAST_S = 20.0  # of motion on the ground, in all recordings together
HORIZONS = (0.1, 0.2, 0.5)  # s
ROUND = 5  # every fifth block is held out
BLOCK = 2 * WINDOW  # control steps
HELPS = 0.97  # of the identified twin's error
IDEAL, IDENTIFIED, ACTUATOR = "ideal motor", "identified", "+ actuator network"
DELTA = "+ delta action"


@dataclass(frozen=True, slots=True)
class DeltaResult:
    robot: RobotSpec
    network: DeltaWeights | None  # None if it does not help in held-out windows
    horizons: tuple[float, ...]
    errors: dict[str, Array]  # rad rms, horizons x joints, for each model from ideal motors on
    search_rms: float  # rad, of the changes found

    @property
    def verdict(self) -> str:
        if self.network is not None:
            return ""
        return "A delta action does not help in held-out windows: the twin is kept without one."

    @property
    def head(self) -> tuple[str, ...]:
        return ("after, s", *self.errors, "delta action explains, %")

    def rows(self) -> list[list[str | float]]:
        """For each horizon: rms over all joints of each model, and what the last one explains."""
        result: list[list[str | float]] = []
        for k, horizon in enumerate(self.horizons):
            rms = [float(np.sqrt(np.mean(e[k] ** 2))) for e in self.errors.values()]
            share = 100 * (1 - (rms[-1] / rms[-2]) ** 2)
            result.append([f"{horizon:g}", *rms, share])
        return result

    def card(self, twin: str, recordings: Sequence[Recording]) -> dict[str, Any]:
        return card_of("delta action", self.robot, twin, recordings) | {
            "held_out_rms_rad": [dict(zip(self.head, row, strict=True)) for row in self.rows()],
        }

    def source(self, recordings: Sequence[Recording]) -> str:
        after, *_, plain, learned, _ = self.rows()[1]
        return (
            f"{learnt_from(recordings)} Joints in held-out windows after {after} s: "
            f"{learned:.4f} rad rms, {plain:.4f} without it."
        )


def learn_action(
    robot: RobotSpec, recordings: Sequence[Recording], twin: Imperfections, progress: Progress
) -> DeltaResult:
    """From all recordings; every fifth block of time of each is held out."""
    check(robot, recordings)
    kp, kd = _gains(recordings)
    simulators = _steps(robot, twin, kp, kd)
    simulator = list(simulators.values())[-1]
    try:
        motions = [motion_of(steady(r, kp, kd), simulator) for r in recordings]
        starts = [windows(motion, robot.wire.rate_hz, WINDOW) for motion in motions]
        parts: list[Deltas] = []
        for number, (motion, rows) in enumerate(zip(motions, starts, strict=True)):
            progress("searching the smallest changes", 0.7 * number / len(motions))
            parts.append(search(simulator, motion, rows[~_judges(rows, robot)]))
        network = fit_deltas(robot, parts, lambda what, done: progress(what, 0.7 + 0.2 * done))
        held = [(m, s[_judges(s, robot)]) for m, s in zip(motions, starts, strict=True)]
        progress("judging", 0.9)
        errors = {name: judge(one, held, None) for name, one in simulators.items()}
        learned = judge(simulator, held, network)
    finally:
        for one in simulators.values():
            one.close()
    last = errors[list(errors)[-1]]
    helps = bool(np.sqrt(np.mean(learned**2)) < HELPS * np.sqrt(np.mean(last**2)))
    errors[DELTA] = learned if helps else last
    changes = np.concatenate([part.deltas for part in parts])
    rms = float(np.sqrt(np.mean(changes**2)))
    return DeltaResult(robot, network if helps else None, HORIZONS, errors, rms)


def _steps(robot: RobotSpec, twin: Imperfections, kp: Array, kd: Array) -> dict[str, Simulator]:
    """Simulators from ideal motors to the twin, without its delta action."""
    bare = twin.model_copy(update={"learned": Learned()})
    steps = {IDEAL: bare.model_copy(update={"motors": Motors(heat=twin.motors.heat)})}
    steps[IDENTIFIED] = bare
    if twin.learned.actuator is not None:
        only = Learned(actuator=twin.learned.actuator)
        steps[ACTUATOR] = twin.model_copy(update={"learned": only})
    return {name: Simulator(robot, one, kp, kd) for name, one in steps.items()}


def judge(
    simulator: Simulator,
    held: Sequence[tuple[Motion, npt.NDArray[np.int64]]],
    network: DeltaWeights | None,
    horizons: Sequence[float] = HORIZONS,
) -> Array:
    """rad rms, horizons x joints."""
    result = []
    for horizon in horizons:
        rows = round(horizon * simulator.robot.wire.rate_hz)
        errors = [
            replay_error(simulator, motion, starts[starts + rows < len(motion)], horizon, network)
            for motion, starts in held
        ]
        result.append(np.sqrt(np.mean(np.concatenate(errors) ** 2, axis=0)))
    return np.stack(result)


def check(robot: RobotSpec, recordings: Sequence[Recording]) -> None:
    check_robot(robot, recordings)
    for recording in recordings:
        if "gyroscope" not in recording or not ({"quaternion", "gravity"} & set(recording.columns)):
            raise Refusal(
                f"{recording.name}: has no gyro or no attitude, so the motion of the trunk is "
                "unknown: record rt/lowstate with its IMU"
            )
        if "foot_force" in recording and recording.hangs:
            raise Refusal(
                f"{recording.name}: the robot hangs. Delta actions are learnt where it walks: "
                "record half a minute of walking; for hung bags use `sim2real learn actuator`"
            )
    if any(len(leg.joints) != 3 for leg in robot.legs.values()):
        raise Refusal(f"{robot.name}: delta actions need legs of three joints each")


def steady(recording: Recording, kp: Array, kd: Array) -> Recording:
    """The longest stretch of a recording at these gains."""
    off = np.hstack((recording["kp"] - kp, recording["kd"] - kd))
    same = np.abs(off).max(axis=1) < 1e-3
    edges = np.flatnonzero(np.diff(np.concatenate(([False], same, [False])).astype(int)))
    begins, ends = edges[::2], edges[1::2]
    longest = int(np.argmax(ends - begins))
    return recording.part(slice(int(begins[longest]), int(ends[longest])))


def _gains(recordings: Sequence[Recording]) -> tuple[Array, Array]:
    """The gains at which the joints move most, which are a policy's."""
    best: dict[bytes, tuple[float, Array, Array]] = {}
    for recording in recordings:
        gains = np.concatenate((recording["kp"], recording["kd"]), axis=1)
        moved = np.abs(np.diff(recording["target_q"], axis=0, append=0)).sum(1)
        moved[-1] = 0.0
        found, which = np.unique(gains.round(4), axis=0, return_inverse=True)
        for number, pair in enumerate(found):
            rows = which.ravel() == number
            total = float((moved[rows] > 1e-4).mean() * rows.sum()) if rows.any() else 0.0
            if pair[0] > 0:
                seen = best.get(pair.tobytes(), (0.0,))[0]
                joints = len(pair) // 2
                best[pair.tobytes()] = (seen + total, pair[:joints], pair[joints:])
    if not best:
        raise Refusal("no recording has gains above zero: nothing was commanded")
    total, kp, kd = max(best.values(), key=lambda entry: entry[0])
    period = recordings[0].period
    long = sum(
        len(steady(recording, kp, kd))
        for recording in recordings
        if (np.abs(recording["kp"] - kp).max(1) < 1e-3).any()
    )
    if long * period < LEAST_S:
        raise Refusal(
            f"only {long * period:.1f} s at one set of gains, and {LEAST_S:g} are needed: record "
            "half a minute of walking at changing speeds"
        )
    return kp, kd


def _judges(starts: npt.NDArray[np.int64], robot: RobotSpec) -> npt.NDArray[np.bool_]:
    block = starts // round(BLOCK * CONTROL_S * robot.wire.rate_hz)
    return np.asarray(block % ROUND == ROUND - 1)
