"""Stage C: rotor, bearing and friction of every joint, so that rollouts land where the robot did.

Gauss-Newton over many short windows, each begun in the recorded state. Legs do not feel each
other, so a column of the Jacobian is one rollout for all four. Intervals come from drawing the
windows anew in blocks: the formal ones are far too tight, since neighbours err alike.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim2real_deploy.identify.figures import BOUNDS, Figures
from sim2real_deploy.identify.legs import Legs, Window, gravity

Array = npt.NDArray[np.float64]
Progress = Callable[[str, float], None]

STEPS = {  # of the finite differences, and what counts as one unit of a figure
    "armature": 0.002,
    "damping": 0.02,
    "friction": 0.02,
    "strength": 0.01,
    "speed_gain": 0.01,
    "offset": 0.005,
}
ATTITUDE_STEP = 0.01  # rad
Q_SIGMA = 0.002  # rad: what the readings of position are trusted to in the fit,
TORQUE_SIGMA = 0.25  # Nm, and those of torque
INDEPENDENT = 25.0  # rows that count as one
ATTITUDE_SIGMA = 0.15  # rad
HUBER = 3.0  # sigmas beyond which an error counts linearly
DRAWS = 200
BLOCK = 5  # windows that are drawn together


@dataclass(frozen=True, slots=True)
class Point:
    """Where the search is: figures, and roll and pitch of the trunk in each recording."""

    figures: Figures
    attitudes: Array  # recordings x 2

    def downs(self) -> list[Array]:
        return [gravity(roll, pitch) for roll, pitch in self.attitudes]


@dataclass(frozen=True, slots=True)
class Fit:
    point: Point
    spread: Array  # parameters x draws of the bootstrap, about the point
    names: tuple[str, ...]
    cost: float  # mean of squared sigmas
    q_rms: Array  # rad, by joint
    torque_rms: Array  # Nm, by joint
    iterations: int
    correlation: Array  # of the parameters, by the bootstrap

    def column(self, name: str) -> slice:
        joints = self.point.figures.armature.size
        at = self.names.index(name)
        return slice(at * joints, (at + 1) * joints)


class RolloutFit:
    """Parameters stand one name after the other, each joint by joint; attitudes come last."""

    def __init__(
        self,
        legs: Legs,
        windows: Sequence[Window],
        names: Sequence[str],
        *,
        attitude: bool,
        priors: Mapping[str, tuple[Array, Array]],
        use_torque: bool = True,
    ) -> None:
        """`priors` are value and standard deviation of what is known before, by name."""
        self._legs, self._windows, self._names = legs, windows, tuple(names)
        self._joints = legs.robot.joint_count
        self._attitude, self._use_torque = attitude, use_torque
        self._count = len(names) * self._joints + (2 * len(legs.recordings) if attitude else 0)
        self._priors = dict(priors)
        rows = [slice(w.start + 1, w.start + 1 + w.rows) for w in windows]
        chosen = [legs.recordings[w.recording] for w in windows]
        self._q = np.stack([r["q"][rows_] for r, rows_ in zip(chosen, rows, strict=True)])
        fresh = np.stack([r.fresh[rows_] for r, rows_ in zip(chosen, rows, strict=True)])
        self._weight = fresh[..., None].astype(float)
        if use_torque:
            self._torque = np.stack(
                [r["torque"][rows_] for r, rows_ in zip(chosen, rows, strict=True)]
            )

    def run(self, start: Point, progress: Progress, iterations: int = 8) -> Fit:
        point, damping = start, 1e-3
        residual, cost = self._look(point)
        for number in range(iterations):
            progress("rolling the legs out", number / iterations)
            square, slope = self._normal(point, residual)
            stiff, off = self._prior_terms(point)
            total, pull = square.sum(0) + np.diag(stiff), slope.sum(0) + stiff * off
            for _ in range(5):
                scale = np.diag(np.diag(total) + 1e-6)
                step = np.linalg.solve(total + damping * scale, pull)
                tried = self._moved(point, -step)
                tried_residual, tried_cost = self._look(tried)
                if tried_cost < cost:
                    damping /= 5
                    break
                damping *= 10
            else:
                break
            gain = 1 - tried_cost / cost
            point, residual, cost = tried, tried_residual, tried_cost
            if gain < 1e-4:
                break
        square, slope = self._normal(point, residual)
        return self._result(point, residual, cost, square, slope, number + 1)

    def _result(
        self, point: Point, residual: Array, cost: float, square: Array, slope: Array, done: int
    ) -> Fit:
        rng = np.random.default_rng(0)
        blocks = -(-len(square) // BLOCK)
        of_block = np.arange(len(square)) // BLOCK
        ridge = 1e-6 * np.diag(np.diag(square.sum(0)) + 1e-6)
        stiff, off = self._prior_terms(point)
        draws = []
        for _ in range(DRAWS):
            weights = rng.multinomial(blocks, np.full(blocks, 1 / blocks))[of_block].astype(float)
            total = np.tensordot(weights, square, 1) + ridge
            total += np.diag(stiff)
            pull = weights @ slope + stiff * off
            draws.append(-np.linalg.solve(total, pull) * self._units())
        spread = np.array(draws).T
        unweighted = self._errors(point)
        rms = [np.sqrt(np.mean(e**2, axis=(0, 1))) for e in unweighted]
        deviation = spread.std(axis=1) + 1e-12
        centred = (spread - spread.mean(axis=1, keepdims=True)) / deviation[:, None]
        return Fit(
            point,
            spread,
            self._names,
            cost,
            rms[0],
            rms[1] if self._use_torque else np.full(self._joints, np.nan),
            done,
            centred @ centred.T / DRAWS,
        )

    def _errors(self, point: Point) -> list[Array]:
        q, _, torque = self._legs.run(self._windows, [(point.figures, point.downs())])
        return self._differences(q[0], torque[0])

    def _differences(self, q: Array, torque: Array) -> list[Array]:
        parts = [(q - self._q) * self._weight]
        if self._use_torque:
            parts.append((torque - self._torque) * self._weight)
        return parts

    def _look(self, point: Point) -> tuple[Array, float]:
        """Errors in sigmas (windows x rows x parts x joints), and their mean Huber cost."""
        residual = self._sigmas(self._errors(point))
        size = np.abs(residual)
        cost = np.where(size < HUBER, size**2, 2 * HUBER * size - HUBER**2)
        stiff, off = self._prior_terms(point)
        return residual, float(cost.mean() + (stiff * off) @ off / residual.size)

    def _prior_terms(self, point: Point) -> tuple[Array, Array]:
        """Weight of each parameter's prior and how far off it is, both in units of STEPS.

        Rows of a window err alike: a prior counts as much as if only every INDEPENDENT one of
        them were a reading of its own.
        """
        stiff, off = np.zeros(self._count), np.zeros(self._count)
        units, joints = self._units(), self._joints
        for at, name in enumerate(self._names):
            if name in self._priors:
                value, sigma = self._priors[name]
                rows = slice(at * joints, (at + 1) * joints)
                stiff[rows] = INDEPENDENT * (units[rows] / sigma) ** 2
                off[rows] = (getattr(point.figures, name) - value) / units[rows]
        if self._attitude:
            rows = slice(len(self._names) * joints, None)
            stiff[rows] = INDEPENDENT * (ATTITUDE_STEP / ATTITUDE_SIGMA) ** 2
            off[rows] = point.attitudes.ravel() / ATTITUDE_STEP
        return stiff, off

    def _sigmas(self, parts: Sequence[Array]) -> Array:
        sigmas = (Q_SIGMA, TORQUE_SIGMA)
        return np.stack([e / s for e, s in zip(parts, sigmas, strict=False)], axis=2)

    def _normal(self, point: Point, residual: Array) -> tuple[Array, Array]:
        """Of each window: Gauss-Newton's matrix and right side, in units of STEPS."""
        weight = np.minimum(1.0, HUBER / np.maximum(np.abs(residual), 1e-9))
        columns = np.zeros((self._count, *residual.shape), np.float32)
        joints = self._joints
        for at in range(len(self._names)):
            for kind in range(3):  # the same joint of every leg at a time
                mine = np.arange(joints) % 3 == kind
                step = np.zeros(self._count)
                step[at * joints : (at + 1) * joints][mine] = 1.0
                moved = self._sigmas(self._errors(self._moved(point, step))) - residual
                for leg in range(joints // 3):
                    own = slice(3 * leg, 3 * leg + 3)
                    columns[at * joints + 3 * leg + kind][..., own] = moved[..., own]
        if self._attitude:
            for axis in range(2):
                step = np.zeros(self._count)
                step[len(self._names) * joints + axis :: 2] = 1.0
                moved = self._sigmas(self._errors(self._moved(point, step))) - residual
                for number, window in enumerate(self._windows):
                    at = len(self._names) * joints + 2 * window.recording + axis
                    columns[at, number] = moved[number]
        flat = columns.reshape(self._count, len(self._windows), -1)
        weights = weight.reshape(len(self._windows), -1)
        errors = residual.reshape(len(self._windows), -1)
        of_window = flat.transpose(1, 0, 2)
        weighted = of_window * weights[:, None].astype(np.float32)
        square = weighted @ of_window.transpose(0, 2, 1)
        slope = weighted @ errors[..., None].astype(np.float32)
        return np.asarray(square, float), np.asarray(slope[..., 0], float)

    def _units(self) -> Array:
        steps = np.repeat([STEPS[name] for name in self._names], self._joints)
        return np.concatenate((steps, np.full(self._count - len(steps), ATTITUDE_STEP)))

    def _moved(self, point: Point, step: Array) -> Point:
        change = step * self._units()
        figures, joints = point.figures, self._joints
        for at, name in enumerate(self._names):
            value = getattr(figures, name) + change[at * joints : (at + 1) * joints]
            figures = figures.with_(**{name: np.clip(value, *BOUNDS[name])})
        attitudes = point.attitudes
        if self._attitude:
            turned = change[len(self._names) * joints :].reshape(-1, 2)
            attitudes = np.clip(attitudes + turned, -0.4, 0.4)
        return Point(figures, attitudes)
