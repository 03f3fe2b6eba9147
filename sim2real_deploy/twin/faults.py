"""Fault injection with PX4's vocabulary: a table of what can fail, and one mechanism for how.

A signal is a small array of readings, a stream a sequence of messages. Both fail in the same seven
ways; only "off", "garbage" and "wrong" differ between them.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar, get_args

import numpy as np
import numpy.typing as npt
from pydantic import Field

from sim2real_deploy.configfile import Strict
from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots import RobotSpec

Word = Literal["off", "stuck", "garbage", "wrong", "slow", "delayed", "intermittent"]
Value = TypeVar("Value")
Signal = npt.NDArray[np.floating]

_EVERY: tuple[Word, ...] = get_args(Word)
_SLOW_READINGS: tuple[Word, ...] = ("off", "stuck", "garbage", "wrong", "intermittent")


@dataclass(frozen=True, slots=True)
class Target:
    """What can fail: in which ways, for one joint or as a whole, and by how much."""

    words: tuple[Word, ...]
    per_joint: bool
    wrong_by: float  # what "wrong" adds when no amount is given, in the reading's unit
    garbage: float  # "garbage" is uniform between plus and minus this


TARGETS = {
    "state": Target(_EVERY, False, 0.0, 0.0),
    "command": Target(_EVERY, False, 0.0, 0.0),
    "encoder": Target(_EVERY, True, 0.3, 3.0),  # rad and rad/s
    "motor": Target(_EVERY, True, 8.0, 20.0),  # Nm
    "imu": Target(_EVERY, False, 0.4, 20.0),  # quaternion, rad/s, m/s^2
    "temperature": Target(_SLOW_READINGS, True, 60.0, 120.0),  # degrees C
    "switcher": Target(("off", "wrong", "delayed"), False, 0.0, 0.0),  # the robot's mode service
    "second_state": Target(("wrong",), False, 0.0, 0.0),  # another robot's states on the same bus
    "battery": Target(_SLOW_READINGS, False, -60.0, 100.0),  # percent, volt, ampere
}
SECONDS = {"slow": 0.05, "delayed": 0.05, "intermittent": 0.1}  # when no amount is given


class Fault(Strict):
    """One request. `amount`: seconds for slow, delayed, intermittent; the error for wrong."""

    target: str
    word: str
    joint: str | None = None
    amount: float | None = None
    duration: float | None = Field(default=None, gt=0)  # s; without it, until cleared


class Distortion(Generic[Value]):
    """Applies a fault to a value; None means nothing is sent. Time is an argument."""

    def __init__(
        self,
        word: Word,
        seconds: float,
        nothing: Callable[[Value], Value | None],
        noise: Callable[[Value], Value],
        wrong: Callable[[Value], Value],
    ) -> None:
        acts: dict[Word, Callable[[Value, int], Value | None]] = {
            "off": lambda value, _: nothing(value),
            "stuck": self._stuck,
            "garbage": lambda value, _: noise(value),
            "wrong": lambda value, _: wrong(value),
            "slow": self._slow,
            "delayed": self._delayed,
            "intermittent": self._intermittent,
        }
        self._act = acts[word]
        self._period_ns = round(seconds * 1e9)
        self._nothing = nothing
        self._held: Value | None = None
        self._held_ns = 0
        self._past: deque[tuple[int, Value]] = deque()

    def __call__(self, value: Value, now_ns: int) -> Value | None:
        return self._act(value, now_ns)

    def _stuck(self, value: Value, now_ns: int) -> Value | None:
        if self._held is None:
            self._held = value
        return self._held

    def _slow(self, value: Value, now_ns: int) -> Value | None:
        """A reading is refreshed once per period; a stream passes one message per period."""
        if self._held is None or now_ns - self._held_ns >= self._period_ns:
            self._held, self._held_ns = value, now_ns
            return value
        return None if isinstance(value, bytes) else self._held

    def _delayed(self, value: Value, now_ns: int) -> Value | None:
        self._past.append((now_ns, value))
        while len(self._past) > 1 and self._past[1][0] <= now_ns - self._period_ns:
            self._past.popleft()
        then, old = self._past[0]
        if isinstance(value, bytes) and then > now_ns - self._period_ns:
            return None
        return old

    def _intermittent(self, value: Value, now_ns: int) -> Value | None:
        """Off and on, half a period each."""
        gone = (now_ns // max(self._period_ns // 2, 1)) % 2 == 0
        return self._nothing(value) if gone else value


class Faults:
    """The faults in force, applied to readings and messages."""

    def __init__(self, robot: RobotSpec, rng: np.random.Generator) -> None:
        self._robot = robot
        self._rng = rng
        # By target and joint; usually empty, so check it first.
        self.in_force: dict[tuple[str, int], tuple[Fault, int | None, Distortion[object]]] = {}

    @property
    def active(self) -> tuple[Fault, ...]:
        return tuple(fault for fault, _, _ in self.in_force.values())

    def concern(self, *targets: str) -> bool:
        return any(name in targets for name, _ in self.in_force)

    def inject(self, fault: Fault, now_ns: int) -> None:
        """Put a fault in force; it replaces one on the same target and joint."""
        target, joint = self._checked(fault)
        end = None if fault.duration is None else now_ns + round(fault.duration * 1e9)
        distortion = self._distortion(fault, target)
        self.in_force[fault.target, joint] = (fault, end, distortion)

    def clear(self) -> None:
        self.in_force.clear()

    def expire(self, now_ns: int) -> None:
        for key, (_, end, _) in list(self.in_force.items()):
            if end is not None and now_ns >= end:
                del self.in_force[key]

    def readings(self, target: str, values: Signal, now_ns: int, joints: bool = False) -> None:
        """Distort readings in place: the whole array, or its columns, one per joint."""
        for (name, joint), (_, _, distortion) in self.in_force.items():
            if name == target:
                part = values[..., joint] if joints else values
                part[...] = distortion(np.array(part), now_ns)  # type: ignore[call-overload]

    def message(self, target: str, message: bytes, now_ns: int) -> bytes | None:
        entry = self.in_force.get((target, -1))
        return message if entry is None else entry[2](message, now_ns)  # type: ignore[return-value]

    def _checked(self, fault: Fault) -> tuple[Target, int]:
        target = TARGETS.get(fault.target)
        if target is None:
            raise Refusal(f"fault: no target '{fault.target}'; there are: {', '.join(TARGETS)}")
        if fault.word not in target.words:
            raise Refusal(
                f"fault: '{fault.word}' cannot happen to '{fault.target}'; "
                f"it can be: {', '.join(target.words)}"
            )
        if not target.per_joint:
            if fault.joint is not None:
                raise Refusal(f"fault: '{fault.target}' fails as a whole; leave out the joint")
            return target, -1
        if fault.joint not in self._robot.joint_names:
            raise Refusal(
                f"fault: '{fault.target}' needs a joint, and there is no joint '{fault.joint}'; "
                f"there are: {', '.join(self._robot.joint_names)}"
            )
        return target, self._robot.joint_names.index(fault.joint)

    def _distortion(self, fault: Fault, target: Target) -> Distortion[object]:
        word: Word = fault.word  # type: ignore[assignment]
        seconds = SECONDS.get(word, 0.0) if fault.amount is None else fault.amount
        rng = self._rng
        if fault.target in ("state", "command"):

            def flip(message: bytes) -> bytes:
                broken = bytearray(message)
                broken[len(broken) // 2] ^= 0xFF
                return bytes(broken)

            def scramble(message: bytes) -> bytes:
                return message[:4] + rng.bytes(len(message) - 4)  # DDS refuses a foreign header

            return Distortion[bytes](  # type: ignore[return-value]
                word, seconds, lambda m: None, scramble, flip
            )
        error = target.wrong_by if fault.amount is None else fault.amount
        spread = target.garbage
        return Distortion[Signal](  # type: ignore[return-value]
            word,
            seconds,
            lambda v: np.zeros_like(v),
            lambda v: rng.uniform(-spread, spread, v.shape),
            lambda v: v + error,
        )
