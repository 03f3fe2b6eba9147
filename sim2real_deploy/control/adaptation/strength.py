"""How strong each motor is: recursive least squares of reported torque on the PD law.

The boards answer a command that was sent some ticks ago with the joint's present position and
velocity. The regression runs for every delay in question at once; the delay that explains the
torques of all joints best is the one believed. It has an intercept, so an offset of the torque
sensor does no harm and a joint that does not move teaches nothing.
"""

import numpy as np
import numpy.typing as npt

from sim2real_deploy.robots.state import Floats

Vector = npt.NDArray[np.float64]

DELAYS = 8  # ticks: from one to so many
MEMORY_S = 1.0  # time constant of forgetting: two seconds hold most of the weight
FULL_S = 0.5  # of samples, before anything is believed
EXCITED = 0.04  # of the torque limit: the spread of the law's torque from which on it is a lesson
CORRELATED = 16.0  # samples that follow each other err alike: so many count as one
CERTAIN = 0.03  # standard error up to which an estimate is used
SANE = 1.2  # of the torque limit: no motor reports or follows more
NEVER = 1.0  # standard error of a joint of which nothing is known


class StrengthEstimator:
    """`remember` every command, `learn` at `rate_hz`, `estimate` as often as the result is used."""

    def __init__(self, torque_limit: Floats, nominal: Vector, rate_hz: float) -> None:
        joints = len(torque_limit)
        self.strength = nominal.copy()
        self.error = np.full(joints, NEVER)  # one standard error of each
        self.delay_ticks = 0  # 0: not known yet
        self._sane = SANE * torque_limit.astype(np.float64)
        self._excited = (EXCITED * torque_limit.astype(np.float64)) ** 2
        self._keep = 1.0 - float(np.exp(-1.0 / (MEMORY_S * rate_hz)))
        self._full = FULL_S * rate_hz
        # The last commands twice over, so that they always lie in a row, the oldest first.
        self._sent = np.zeros((2 * DELAYS, 5, joints), np.float32)
        self._at = 0
        self._known = 0  # commands since `restart`
        self._weight = np.zeros(joints)
        self._mean_law = np.zeros((DELAYS, joints))
        self._mean_torque = np.zeros(joints)
        self._law_law = np.zeros((DELAYS, joints))  # weighted means of products about the means
        self._law_torque = np.zeros((DELAYS, joints))
        self._torque_torque = np.zeros(joints)

    def restart(self) -> None:
        """The commands before this one were not seen."""
        self._known = 0

    def remember(self, sent: Floats) -> None:
        """A command as it left: rows of q, dq, kp, kd, torque."""
        self._sent[self._at] = sent
        self._sent[self._at + DELAYS] = sent
        self._at = (self._at + 1) % DELAYS
        self._known += 1

    def learn(self, q: Vector, dq: Vector, torque: Vector, usable: npt.NDArray[np.bool_]) -> None:
        """A state; joints that are not `usable` (a limit acted on them) are left out."""
        if self._known < DELAYS:
            return
        sent = self._sent[self._at : self._at + DELAYS]
        law = sent[:, 2] * (sent[:, 0] - q)
        law += sent[:, 3] * (sent[:, 1] - dq)
        law += sent[:, 4]
        usable = usable & (np.abs(torque) < self._sane) & (np.abs(law) < self._sane).all(axis=0)
        if not usable.all():
            law = np.where(usable, law, self._mean_law)
            torque = np.where(usable, torque, self._mean_torque)
        share = self._keep * usable
        self._weight += share * (1.0 - self._weight)
        # While little is known a sample counts as much as each of those before it.
        share = share / np.maximum(self._weight, self._keep)
        law -= self._mean_law
        off = torque - self._mean_torque
        self._mean_law += share * law
        self._mean_torque += share * off
        rest = 1.0 - share
        for product, by in ((self._law_law, law * law), (self._law_torque, law * off)):
            by *= share
            product += by
            product *= rest
        self._torque_torque += share * off * off
        self._torque_torque *= rest

    def estimate(self) -> None:
        """Strength, its standard error and the delay, where there is enough to tell."""
        explained = self._law_torque**2 / np.maximum(self._law_law, 1e-9)
        ready = (self._weight > self._keep * self._full) & (self._law_law[0] > self._excited)
        if not ready.any():
            return
        total = np.maximum(self._torque_torque, 1e-9)
        best = int(np.argmax((explained / total)[:, ready].sum(axis=1)))
        self.delay_ticks = DELAYS - best
        law, both = self._law_law[best], self._law_torque[best]
        unexplained = np.maximum(total - explained[best], 0.0)
        samples = np.maximum(self._weight / self._keep, 1.0) / CORRELATED
        error = np.sqrt(unexplained / np.maximum(law, 1e-9) / samples)
        found = ready & (error < CERTAIN) & (both > 0.0)
        self.strength[found] = (both / np.maximum(law, 1e-9))[found]
        self.error[found] = error[found]
