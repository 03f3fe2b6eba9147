"""Several policies in one control process: which one is active, and which one is the fallback.

All are loaded, warm and known to fit together. During a switch both policies run: first the new one
fills its observation history with its output unused, then joint targets and gains blend over. The
limits come after that, as for any command. The two networks never run in the same tick: the old
policy steps one tick after the new one, because a tick has no time for both.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.policy import BLIND_S, Policy
from sim2real_deploy.robots import RobotState
from sim2real_deploy.robots.vectors import Numbers
from sim2real_deploy.safety.events import Event

LEAD_S = 0.16  # the new policy runs with its output unused: its observation history fills
BLEND_S = 0.3  # from the old policy's targets and gains to the new one's
TAKE_OVER_S = 0.1  # from the last command to the fallback's: the old policy is not trusted
AT_ONCE = 2.0  # times the fallback's threshold: from here on not one more step is used
ASTRAY = "policy_astray"  # the safety event that a fallback must come before


@dataclass(frozen=True, slots=True)
class Fallback:
    """Which policy takes over when the active one is astray, and when it counts as astray."""

    name: str
    surprise: float  # more standard deviations from training than this,
    after_s: float  # for this long

    @classmethod
    def before_stop(cls, name: str, events: Iterable[Event]) -> "Fallback":
        """With half the threshold and half the time at which the supervisor stops the robot."""
        event = next(event for event in events if event.key == ASTRAY)
        return cls(name, event.threshold / 2, event.time_s / 2)


class Repertoire:
    """The policies of one robot. `active` walks; `outgoing` is the one being left in a switch."""

    def __init__(self, policies: Sequence[Policy] = (), fallback: Fallback | None = None) -> None:
        check_together(policies)
        self.policies = tuple(policies)
        self.names = tuple(policy.contract.name for policy in policies)
        self.active = 0
        self.outgoing: int | None = None  # None unless a switch is in progress
        self.fallback = fallback
        self._refuge = None if fallback is None else self.find(fallback.name)
        self._used = False  # the fallback has been used in this walk
        self._astray_since_ns: int | None = None
        self._surprise: float | None = 0.0  # None: not computed yet for this step
        self.stepped = 0  # bit k: policy k ran in the last step
        self.observe_ns = self.infer_ns = 0  # duration of the last step
        _share_odometry(self.policies)

    @classmethod
    def of(cls, policy: "Policy | Repertoire | None") -> "Repertoire":
        if isinstance(policy, Repertoire):
            return policy
        return cls(() if policy is None else (policy,))

    @property
    def policy(self) -> Policy | None:
        return self.policies[self.active] if self.policies else None

    @property
    def old(self) -> Policy | None:
        """The policy being left, while a switch is in progress."""
        return None if self.outgoing is None else self.policies[self.outgoing]

    @property
    def name(self) -> str:
        return self.names[self.active] if self.names else ""

    def find(self, name: str) -> int:
        if name not in self.names:
            known = ", ".join(self.names) or "none"
            raise Refusal(f"policy '{name}' is not loaded; loaded are: {known}")
        return self.names.index(name)

    def after(self) -> str:
        """The next policy in the list, for switching with a single button."""
        return self.names[(self.active + 1) % len(self.names)] if self.names else ""

    @property
    def surprise(self) -> float:
        """The active policy's in its last step; computed on demand so that no command waits."""
        if self._surprise is None:
            self._surprise = 0.0 if self.policy is None else self.policy.surprise()
        return self._surprise

    @property
    def refuge(self) -> int | None:
        """The policy to fall back to: during a switch the old one, otherwise the fallback, once per
        walk."""
        if self.outgoing is not None:
            return self.outgoing
        return None if self._used or self._refuge == self.active else self._refuge

    def begin(self) -> None:
        """Start a walk with the active policy."""
        self._used = False
        self._take(self.active, None)
        if self.policy is not None:
            self.policy.reset()

    def choose(self, index: int) -> None:
        """While no policy moves the robot: use this one from the next walk on."""
        self._take(index, None)

    def pass_to(self, index: int) -> None:
        """While walking: the new policy starts in the same gait phase; the old one runs on until
        `settle`."""
        old, new = self.policies[self.active], self.policies[index]
        new.reset()
        new.keep_time(old)
        self._take(index, self.active)

    def fall_back(self) -> None:
        """Leave the active policy at once. One that was not running starts with empty history."""
        index = self.refuge
        assert index is not None
        if self.outgoing is None:
            self.pass_to(index)
            self._used = True
        self._take(index, None)

    def settle(self) -> None:
        """The switch is complete."""
        self.outgoing = None

    def _take(self, active: int, outgoing: int | None) -> None:
        self.active, self.outgoing = active, outgoing
        self._astray_since_ns, self._surprise = None, 0.0

    def step(self, state: RobotState, command: Numbers, now_ns: int) -> str:
        """Run the active policy. Returns why it must be left now; "" if it need not, or if there is
        no refuge."""
        self.stepped = 0
        if self.refuge is None:
            self._run(self.active, state, command)
            return ""
        if self.policies[self.active].scan_overdue:
            return f"no height scan for {BLIND_S:g} s"
        try:
            self._run(self.active, state, command)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        if not isfinite(sum(self.policies[self.active].target.tolist())):
            return "its output is not finite"
        if self._is_astray(now_ns):
            return f"it is far from its training: {self.surprise:.3g} standard deviations"
        return ""

    def step_outgoing(self, state: RobotState, command: Numbers) -> None:
        """Run the policy being left, in a tick of its own."""
        assert self.outgoing is not None
        self.stepped = 0
        self._run(self.outgoing, state, command)

    def _run(self, index: int, state: RobotState, command: Numbers) -> None:
        policy, start = self.policies[index], time.monotonic_ns()
        policy.observe(state, command)
        seen = time.monotonic_ns()
        policy.infer()
        self.observe_ns, self.infer_ns = seen - start, time.monotonic_ns() - seen
        self.stepped |= 1 << index
        if index == self.active:
            self._surprise = None

    def catch_up(self, surprise: float) -> None:
        """A compiled loop has stepped the active policy."""
        assert self.policy is not None
        self.policy.catch_up()
        self._surprise = surprise

    def _is_astray(self, now_ns: int) -> bool:
        """Whether the active policy is far from its training, for too long or by so much that not
        even this step can be trusted."""
        if self.fallback is None or self.surprise <= self.fallback.surprise:
            self._astray_since_ns = None
            return False
        if self._astray_since_ns is None:
            self._astray_since_ns = now_ns
        if self.surprise > AT_ONCE * self.fallback.surprise:
            return True
        return now_ns - self._astray_since_ns >= self.fallback.after_s * 1e9


def check_together(policies: Sequence[Policy]) -> None:
    """Refuse policies that cannot be switched between. That each fits the robot was checked when it
    was loaded."""
    if not policies:
        return
    first = policies[0].contract
    names = [policy.contract.name for policy in policies]
    for other in (policy.contract for policy in policies[1:]):
        pair = f"policies '{first.name}' and '{other.name}'"
        if names.count(other.name) > 1:
            raise Refusal(f"policies: '{other.name}' is listed more than once; names must differ")
        if other.robot != first.robot:
            raise Refusal(f"{pair}: made for different robots, {first.robot} and {other.robot}")
        if other.rate_hz != first.rate_hz:
            raise Refusal(
                f"{pair}: run at {first.rate_hz:g} and {other.rate_hz:g} Hz; policies that are "
                "switched between need one rate"
            )
        if set(other.joints) != set(first.joints):
            apart = ", ".join(sorted(set(other.joints) ^ set(first.joints)))
            raise Refusal(f"{pair}: do not move the same joints; only one of them moves: {apart}")


def _share_odometry(policies: Sequence[Policy]) -> None:
    """One odometry for all policies that observe velocity, so that none starts from zero."""
    observing = [policy for policy in policies if policy.odometry is not None]
    for policy in observing[1:]:
        policy.odometry = observing[0].odometry
