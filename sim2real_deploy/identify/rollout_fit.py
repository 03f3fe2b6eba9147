"""Stage C: fits inertia, damping and friction of every joint so that rollouts follow the robot.

Gauss-Newton over many short windows. The measured initial state of a window is noisy and would bias
the figures, so it is estimated as well, and eliminated window by window. The legs do not affect
each other, so one rollout gives a column of the Jacobian for all four. Intervals come from a
bootstrap over blocks of windows; formal ones are far too narrow, because neighbouring errors are
correlated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sim2real_deploy.console import Progress
from sim2real_deploy.identify.figures import BOUNDS, JointFigures
from sim2real_deploy.identify.legs import Legs, Window, gravity, no_corrections

Array = npt.NDArray[np.float64]

STEPS = {  # of the finite differences, and the unit of each figure in the equations
    "armature": 0.002,
    "damping": 0.02,
    "friction": 0.02,
    "strength": 0.01,
    "speed_gain": 0.01,
    "speed_feed": 0.01,
    "offset": 0.005,
    "lag": 0.001,
    "presliding": 0.0003,
    "torque_bias": 0.01,
}
ATTITUDE_STEP = 0.01  # rad
START_SIGMAS = (0.0006, 0.015)  # rad and rad/s, of the initial states
LEAST_SIGMAS = (0.0005, 0.05)  # rad and Nm: lower bound of the readings' deviations
FIRST_SIGMAS = (0.002, 0.25)  # deviations before the first fit, and their upper bound
CORRELATED = 40  # rows over which the correlation of errors is summed
ATTITUDE_SIGMA = 0.15  # rad
HUBER = 3.0  # sigmas beyond which an error counts linearly
OUTLIER = 4.0  # sigmas, for example after a lost command
LEAST_GAIN = 1e-4  # relative gain in cost below which the search ends
LARGE_STEP = 1.5  # units of STEPS, after which the Jacobian is computed again
DRAWS = 200
BLOCK = 5  # windows that the bootstrap draws together


@dataclass(frozen=True, slots=True)
class Point:
    """A point of the search: figures, and the trunk's roll and pitch in each recording."""

    figures: JointFigures
    attitudes: Array  # recordings x 2
    starts_off: Array | None = None  # windows x 2 x joints: corrections of the initial states

    def downs(self) -> list[Array]:
        return [gravity(roll, pitch) for roll, pitch in self.attitudes]


@dataclass(frozen=True, slots=True)
class Fit:
    point: Point
    spread: Array  # parameters x draws of the bootstrap, about the point
    names: tuple[str, ...]
    q_rms: Array  # rad, by joint
    correlation: Array  # of the parameters, by the bootstrap

    def column(self, name: str) -> slice:
        joints = self.point.figures.armature.size
        at = self.names.index(name)
        return slice(at * joints, (at + 1) * joints)


class RolloutFit:
    """The parameter vector holds each name for all joints in turn; attitudes come last."""

    def __init__(
        self,
        legs: Legs,
        windows: Sequence[Window],
        names: Sequence[str],
        attitude: bool,
        priors: Mapping[str, tuple[Array, Array]],
    ) -> None:
        """`priors` hold a value and a standard deviation for each joint, by name."""
        self.legs, self._windows, self.names = legs, windows, tuple(names)
        self._joints = legs.robot.joint_count
        self._attitude = attitude
        self._count = len(names) * self._joints + (2 * len(legs.recordings) if attitude else 0)
        self._priors = dict(priors)
        self._sigma = np.repeat(np.array(FIRST_SIGMAS)[:, None], self._joints, axis=1)
        self._alike = 1.0  # correlated rows that count as one
        self._changes: tuple[Array, Array] | None = None  # by figures and by initial states
        parts = [
            legs.recordings[w.recording].part(slice(w.start + 1, w.start + 1 + w.rows))
            for w in windows
        ]
        self._q = np.stack([part["q"] for part in parts])
        self._torque = np.stack([part["torque"] for part in parts])
        self._weight = np.stack([part.fresh for part in parts])[..., None].astype(float)

    def with_presliding(self) -> "RolloutFit":
        """The same fit with friction that builds up over a distance, on its own model of the
        legs."""
        legs = Legs(self.legs.robot, self.legs.recordings, self.legs.lags, presliding=True)
        names = (*self.names, "presliding")
        return RolloutFit(legs, self._windows, names, self._attitude, self._priors)

    def run(self, start: Point, progress: Progress, iterations: int) -> Fit:
        point = self.improve(start, progress, iterations)
        residual, _ = self._look(point)
        return self._result(point, self._normal(point, residual))

    def improve(self, start: Point, progress: Progress, iterations: int) -> Point:
        """The point after some iterations.

        Finite differences are most of the work and hardly change near the optimum. They are
        computed again only after a large step, or when the old ones bring no gain.
        """
        if start.starts_off is None or len(start.starts_off) != len(self._windows):
            start = replace(start, starts_off=no_corrections(self._windows, self._joints))
        point, damping, fresh = start, 1e-3, False
        self._weigh_errors(self._errors(point), first=True)
        residual, cost = self._look(point)
        for number in range(iterations):
            progress("rolling the legs out", number / iterations)
            fresh = fresh or self._changes is None
            normal = self._normal(point, residual)
            stiff, off = self._prior_terms(point)
            total, pull = normal.square.sum(0) + np.diag(stiff), normal.slope.sum(0) + stiff * off
            for _ in range(5 if fresh else 1):
                scale = np.diag(np.diag(total) + 1e-6)
                step = -np.linalg.solve(total + damping * scale, pull)
                tried = self._moved(point, step, normal.starts(step))
                tried_residual, tried_cost = self._look(tried)
                if tried_cost < cost:
                    damping /= 5
                    break
                damping *= 10
            else:
                if fresh:
                    break
                damping, self._changes = 1e-3, None
                continue
            gain = 1 - tried_cost / cost
            point, residual, cost = tried, tried_residual, tried_cost
            if gain < LEAST_GAIN:
                break
            fresh = False
            if np.abs(step).max() > LARGE_STEP:
                self._changes = None
            self._weigh_errors(self._errors(point))
            residual, cost = self._look(point)
        return point

    def misfit(self, point: Point) -> float:
        """Negative log likelihood per row, with each joint's residual as its noise.

        Unlike the cost, it can be compared between fits with different weights.
        """
        left = 0.0
        for errors in self._errors(point):
            most = OUTLIER * np.median(np.abs(errors), axis=(0, 1)) / 0.6745
            left += float(np.log(np.mean(np.minimum(np.abs(errors), most) ** 2, axis=(0, 1))).sum())
        return left / 2

    def _weigh_errors(self, parts: Sequence[Array], first: bool = False) -> None:
        """Set each joint's deviations from its residuals.

        They never exceed the first ones: an inadequate model must still fit the positions.
        """
        low, high = (FIRST_SIGMAS if first else LEAST_SIGMAS), FIRST_SIGMAS
        spread = [1.2 * np.median(np.abs(e), axis=(0, 1)) / 0.6745 for e in parts]
        self._sigma = np.stack(
            [np.clip(s, a, b) for s, a, b in zip(spread, low, high, strict=True)]
        )
        self._alike = 1.0 if first else _rows_alike(parts[0] / self._sigma[0])

    def _result(self, point: Point, normal: "_Normal") -> Fit:
        rng = np.random.default_rng(0)
        square, slope = normal.square, normal.slope
        blocks = -(-len(square) // BLOCK)
        of_block = np.arange(len(square)) // BLOCK
        ridge = 1e-6 * np.diag(np.diag(square.sum(0)) + 1e-6)
        stiff, off = self._prior_terms(point)
        draws = []
        for _ in range(DRAWS):
            weights = rng.multinomial(blocks, np.full(blocks, 1 / blocks))[of_block].astype(float)
            total = np.tensordot(weights, square, 1) + ridge + np.diag(stiff)
            pull = weights @ slope + stiff * off
            draws.append(-np.linalg.solve(total, pull) * self._units())
        spread = np.array(draws).T
        q_rms = np.sqrt(np.mean(self._errors(point)[0] ** 2, axis=(0, 1)))
        deviation = spread.std(axis=1) + 1e-12
        centred = (spread - spread.mean(axis=1, keepdims=True)) / deviation[:, None]
        correlation = centred @ centred.T / DRAWS
        return Fit(point, spread, self.names, q_rms, correlation)

    def _errors(self, point: Point) -> list[Array]:
        """In position and torque, zero in rows that were not read: windows x rows x joints each."""
        candidate = (point.figures, point.downs())
        q, _, torque = self.legs.run(self._windows, [candidate], point.starts_off)
        return [(q[0] - self._q) * self._weight, (torque[0] - self._torque) * self._weight]

    def _look(self, point: Point) -> tuple[Array, float]:
        """Errors in sigmas (windows x rows x parts x joints), and their mean Huber cost."""
        parts = zip(self._errors(point), self._sigma, strict=True)
        residual = np.stack([error / sigma for error, sigma in parts], axis=2)
        size = np.abs(residual)
        cost = np.where(size < HUBER, size**2, 2 * HUBER * size - HUBER**2)
        stiff, off = self._prior_terms(point)
        known = float((stiff * off) @ off)
        if point.starts_off is not None:
            known += self._alike * float(((point.starts_off / _START_UNITS) ** 2).sum())
        return residual, float(cost.mean() + known / residual.size)

    def _prior_terms(self, point: Point) -> tuple[Array, Array]:
        """Weight of each parameter's prior and distance from it, both in units of STEPS.

        Errors of neighbouring rows are correlated, so a prior is weighted by the number of rows
        that count as one.
        """
        stiff, off = np.zeros(self._count), np.zeros(self._count)
        units, joints = self._units(), self._joints
        for at, name in enumerate(self.names):
            if name in self._priors:
                value, sigma = self._priors[name]
                rows = slice(at * joints, (at + 1) * joints)
                stiff[rows] = self._alike * (units[rows] / sigma) ** 2
                off[rows] = (getattr(point.figures, name) - value) / units[rows]
        if self._attitude:
            rows = slice(len(self.names) * joints, None)
            stiff[rows] = self._alike * (ATTITUDE_STEP / ATTITUDE_SIGMA) ** 2
            off[rows] = point.attitudes.ravel() / ATTITUDE_STEP
        return stiff, off

    def _normal(self, point: Point, residual: Array) -> "_Normal":
        """Normal equations of each window, with its initial state eliminated."""
        weight = np.minimum(1.0, HUBER / np.maximum(np.abs(residual), 1e-9))
        if self._changes is None:
            self._changes = self._figure_changes(point), self._start_changes(point)
        scale = (1 / self._sigma).astype(np.float32)
        by_figure, by_start = (changes * scale for changes in self._changes)
        return _Normal.eliminating(
            by_figure, by_start, residual, weight, self._alike, point.starts_off
        )

    def _figure_changes(self, point: Point) -> Array:
        """Change per unit of each parameter: parameters x windows x rows x parts x joints."""
        here, joints = self._readings(point), self._joints
        columns = np.zeros((self._count, *here.shape), np.float32)
        for at in range(len(self.names)):
            for kind in range(3):
                step = np.zeros(self._count)
                step[at * joints : (at + 1) * joints][kind::3] = 1.0
                moved = self._readings(self._moved(point, step)) - here
                self._spread_over_legs(moved, kind, columns[at * joints : (at + 1) * joints])
        if self._attitude:
            for axis in range(2):
                step = np.zeros(self._count)
                step[len(self.names) * joints + axis :: 2] = 1.0
                moved = self._readings(self._moved(point, step)) - here
                for number, window in enumerate(self._windows):
                    at = len(self.names) * joints + 2 * window.recording + axis
                    columns[at, number] = moved[number]
        return columns

    def _start_changes(self, point: Point) -> Array:
        """Change per sigma of each joint's initial position and velocity."""
        here, joints = self._readings(point), self._joints
        columns = np.zeros((2 * joints, *here.shape), np.float32)
        nothing = np.zeros(self._count)
        for part in range(2):
            for kind in range(3):
                off = no_corrections(self._windows, joints)
                off[:, part, kind::3] = START_SIGMAS[part]
                moved = self._readings(self._moved(point, nothing, off)) - here
                self._spread_over_legs(moved, kind, columns[part * joints : (part + 1) * joints])
        return columns

    def _spread_over_legs(self, moved: Array, kind: int, columns: Array) -> None:
        """The same joint of every leg was changed at once; each leg shows the effect of its own."""
        for first in range(0, self._joints, 3):
            own = slice(first, first + 3)
            columns[first + kind][..., own] = moved[..., own]

    def _readings(self, point: Point) -> Array:
        """The errors as one array: windows x rows x parts x joints."""
        return np.stack(self._errors(point), axis=2)

    def _units(self) -> Array:
        steps = np.repeat([STEPS[name] for name in self.names], self._joints)
        return np.concatenate((steps, np.full(self._count - len(steps), ATTITUDE_STEP)))

    def _moved(self, point: Point, step: Array, starts: Array | None = None) -> Point:
        change = step * self._units()
        figures, joints = point.figures, self._joints
        for at, name in enumerate(self.names):
            value = getattr(figures, name) + change[at * joints : (at + 1) * joints]
            figures = figures.with_(**{name: np.clip(value, *BOUNDS[name])})
        attitudes = point.attitudes
        if self._attitude:
            turned = change[len(self.names) * joints :].reshape(-1, 2)
            attitudes = np.clip(attitudes + turned, -0.4, 0.4)
        off = point.starts_off
        return Point(figures, attitudes, off if off is None or starts is None else off + starts)


_START_UNITS = np.array(START_SIGMAS)[:, None]


@dataclass(frozen=True, slots=True)
class _Normal:
    """Normal equations of each window for the figures, in units of STEPS, after its initial state
    was eliminated."""

    square: Array  # windows x parameters x parameters
    slope: Array  # windows x parameters
    _start: Array  # windows x states: best corrections of the initial states,
    _start_by_step: Array  # windows x states x parameters: and their derivative by the figures

    @classmethod
    def eliminating(
        cls,
        columns: Array,
        start_columns: Array,
        residual: Array,
        weight: Array,
        alike: float,
        starts_off: Array | None,
    ) -> "_Normal":
        windows = len(residual)
        weights = weight.reshape(windows, 1, -1).astype(np.float32)
        errors = residual.reshape(windows, -1, 1).astype(np.float32)
        figures = columns.reshape(len(columns), windows, -1).transpose(1, 0, 2)
        starts = start_columns.reshape(len(start_columns), windows, -1).transpose(1, 0, 2)
        weighted, starts_weighted = figures * weights, starts * weights
        square = np.asarray(weighted @ figures.transpose(0, 2, 1), float)
        slope = np.asarray(weighted @ errors, float)[..., 0]
        mixed = np.asarray(starts_weighted @ figures.transpose(0, 2, 1), float)
        own = np.asarray(starts_weighted @ starts.transpose(0, 2, 1), float)
        pull = np.asarray(starts_weighted @ errors, float)[..., 0]
        own += alike * np.eye(own.shape[1])
        if starts_off is not None:
            pull += alike * (starts_off / _START_UNITS).reshape(windows, -1)
        start = -np.linalg.solve(own, pull[..., None])[..., 0]
        by_step = -np.linalg.solve(own, mixed)
        return cls(
            square + mixed.transpose(0, 2, 1) @ by_step,
            slope + np.einsum("wsp,ws->wp", mixed, start),
            start,
            by_step,
        )

    def starts(self, step: Array) -> Array:
        """Corrections of the initial states for a step of the figures."""
        moved = self._start + self._start_by_step @ step
        return np.asarray(moved.reshape(len(moved), 2, -1) * _START_UNITS)


def _rows_alike(errors: Array) -> float:
    """How many rows count as one, from the correlation of errors within a window."""
    centred = errors - errors.mean(axis=1, keepdims=True)
    power = float((centred**2).mean()) + 1e-12
    total = 1.0
    for lag in range(1, CORRELATED):
        share = float((centred[:, lag:] * centred[:, :-lag]).mean()) / power
        if share < 0.05:
            break
        total += 2 * share
    return total
