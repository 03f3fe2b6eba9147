"""From bags to a delta action that is worth having, or to the words why there is none."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import numpy as np
import numpy.typing as npt

from sim2real_deploy import __version__
from sim2real_deploy.errors import Refusal
from sim2real_deploy.identify.learn.action import (
    CONTROL_S,
    WINDOW,
    Deltas,
    Progress,
    fit_deltas,
    replay_error,
    search,
    windows,
)
from sim2real_deploy.identify.learn.samples import hangs
from sim2real_deploy.identify.learn.simulator import Motion, Simulator, motion_of
from sim2real_deploy.identify.recording import Recording
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.config import Imperfections, Learned, Motors
from sim2real_deploy.twin.delta_action import DeltaWeights

Array = npt.NDArray[np.float64]

LEAST_S = 20.0  # of moving on the ground, in all recordings together
HORIZONS = (0.1, 0.2, 0.5)  # s
ROUND = 5  # blocks of which one judges
BLOCK = 2 * WINDOW  # control steps
HELPS = 0.97  # of the identified twin's error
HEAD = ("after, s", "ideal motor", "identified", "+ delta action", "explains, %")


@dataclass(frozen=True, slots=True)
class Found:
    robot: RobotSpec
    network: DeltaWeights | None  # None: it does not help in held-out windows
    horizons: tuple[float, ...]
    ideal: Array  # rad rms, horizons x joints
    identified: Array
    learned: Array
    search_rms: float  # rad, of the changes that were found

    @property
    def verdict(self) -> str:
        if self.network is not None:
            return ""
        return "a delta action does not help in held-out windows: the twin is kept without one"

    def rows(self) -> list[tuple[str, float, float, float, float]]:
        result = []
        for k, horizon in enumerate(self.horizons):
            ideal, plain, learned = (
                float(np.sqrt(np.mean(e[k] ** 2)))
                for e in (self.ideal, self.identified, self.learned)
            )
            share = 100 * (1 - (learned / plain) ** 2)
            result.append((f"{horizon:g}", ideal, plain, learned, share))
        return result

    def card(self, twin: str, recordings: Sequence[Recording]) -> dict[str, Any]:
        return {
            "kind": "delta action",
            "robot": self.robot.name,
            "joints": list(self.robot.joint_names),
            "twin": twin,
            "version": __version__,
            "recordings": {recording.name: recording.digest for recording in recordings},
            "held_out_rms_rad": [dict(zip(HEAD, row, strict=True)) for row in self.rows()],
        }

    def source(self, recordings: Sequence[Recording]) -> str:
        names = ", ".join(f"{recording.name} ({recording.digest})" for recording in recordings)
        after, _, plain, learned, _ = self.rows()[1]
        return (
            f"Learnt on {datetime.now(timezone.utc).date().isoformat()} from {names}. Joints in "
            f"held-out windows after {after} s: {learned:.4f} rad rms, {plain:.4f} as identified."
        )


def learn_action(
    robot: RobotSpec, recordings: Sequence[Recording], twin: Imperfections, progress: Progress
) -> Found:
    """On all recordings; of each, one block of time in five is kept back to judge."""
    check(robot, recordings)
    kp, kd = _gains(recordings)
    plain = twin.model_copy(update={"learned": Learned()})
    simulator = Simulator(robot, plain, kp, kd)
    ideal = Simulator(robot, plain.model_copy(update={"motors": _perfect(plain)}), kp, kd)
    try:
        motions = [motion_of(steady(r, kp, kd), simulator) for r in recordings]
        parts: list[Deltas] = []
        for number, motion in enumerate(motions):
            progress("searching the smallest changes", 0.7 * number / len(motions))
            starts = windows(motion, robot.wire.rate_hz, WINDOW)
            fitting = starts[~_judges(starts, robot)]
            parts.append(search(simulator, motion, fitting))
        network = fit_deltas(robot, parts, lambda what, done: progress(what, 0.7 + 0.2 * done))
        held = [
            (m, s[_judges(s, robot)])
            for m in motions
            for s in [windows(m, robot.wire.rate_hz, WINDOW)]
        ]
        progress("judging", 0.9)
        errors = [
            judge(one, held, net)
            for one, net in ((ideal, None), (simulator, None), (simulator, network))
        ]
    finally:
        simulator.close()
        ideal.close()
    total = [np.sqrt(np.mean(e**2)) for e in errors]
    helps = total[2] < HELPS * total[1]
    changes = np.concatenate([part.deltas for part in parts])
    rms = float(np.sqrt(np.mean(changes**2)))
    learned = errors[2] if helps else errors[1]
    return Found(robot, network if helps else None, HORIZONS, errors[0], errors[1], learned, rms)


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
    for recording in recordings:
        if recording.robot.name != robot.name:
            raise Refusal(f"{recording.name}: is of {recording.robot.name}, not of {robot.name}")
        if "gyroscope" not in recording or not ({"quaternion", "gravity"} & set(recording.columns)):
            raise Refusal(
                f"{recording.name}: has no gyro or no attitude, so nothing says how the trunk "
                "moved: record rt/lowstate with its IMU"
            )
        if "foot_force" in recording and hangs(recording):
            raise Refusal(
                f"{recording.name}: the robot hangs. Delta actions are learnt where it walks: "
                "record half a minute of walking; for hung bags use `sim2real learn actuator`"
            )
    if any(len(leg.joints) != 3 for leg in robot.legs.values()):
        raise Refusal(f"{robot.name}: delta actions need legs of three joints each")


def steady(recording: Recording, kp: Array, kd: Array) -> Recording:
    """Its longest stretch at these gains with moving joints."""
    same = (np.abs(recording["kp"] - kp).max(1) < 1e-3) & (
        np.abs(recording["kd"] - kd).max(1) < 1e-3
    )
    edges = np.flatnonzero(np.diff(np.concatenate(([False], same, [False])).astype(int)))
    begins, ends = edges[::2], edges[1::2]
    longest = int(np.argmax(ends - begins))
    return recording.part(slice(int(begins[longest]), int(ends[longest])))


def _gains(recordings: Sequence[Recording]) -> tuple[Array, Array]:
    """Those at which the joints move most: a policy's."""
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
        len(part)
        for recording in recordings
        if (np.abs(recording["kp"] - kp).max(1) < 1e-3).any()
        for part in [steady(recording, kp, kd)]
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


def _perfect(twin: Imperfections) -> Motors:
    return Motors(heat=twin.motors.heat)
