"""Garbage on the wire: counted, dropped, nothing raised, nothing changed."""

import dataclasses
from collections import Counter
from collections.abc import Callable

import fastcrc
import numpy as np
import pytest

from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.wire.in_process import InProcessLink
from sim2real_deploy.wire.layout import Layout
from sim2real_deploy.wire.messages import FAMILIES
from support.wire_support import robot, state_sample

SAMPLES = 50_000  # of each family
BATCH = 500


class Garbage:
    """A plant gone mad: each kind of bad sample by turns, at random within the kind."""

    def __init__(self, spec: RobotSpec, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._spec = spec
        self._layout: Layout = FAMILIES[spec.wire.family].state
        self._good = state_sample(spec, tick=4)
        self._now = 0
        self.expected: Counter[str] = Counter()
        self._kinds: list[tuple[str, Callable[[], bytes]]] = [
            ("bad_length", self._truncated),
            ("bad_length", self._oversized),
            ("bad_length", self._random_length),
            ("bad_length", self._foreign_header),
            ("bad_crc", self._flipped),
            ("bad_crc", self._random_body),
            ("not_finite", self._not_finite),
        ]

    def now_ns(self) -> int:
        return self._now

    def advance(self, command: bytes | None) -> bytes:
        self._now += 2_000_000
        what, make = self._kinds[self._rng.integers(len(self._kinds))]
        self.expected[what] += 1
        return make()

    def _truncated(self) -> bytes:
        return self._good[: self._rng.integers(len(self._good))]

    def _oversized(self) -> bytes:
        return self._good + self._rng.bytes(int(self._rng.integers(1, 3000)))

    def _random_length(self) -> bytes:
        length = int(self._rng.integers(0, 70_000)) if self._rng.random() < 0.01 else 99
        return self._rng.bytes(length if length != self._layout.size else 0)

    def _foreign_header(self) -> bytes:
        return b"\x00\x00" + self._good[2:]

    def _flipped(self) -> bytes:
        """One bit of the message changed, but none of CDR's padding, which the CRC leaves out."""
        covered = self._layout.crc_gather
        at = int(self._rng.choice(covered[covered > 0]))
        raw = bytearray(self._good)
        raw[at] ^= 1 << int(self._rng.integers(8))
        return bytes(raw)

    def _random_body(self) -> bytes:
        return b"\x00\x01\x00\x00" + self._rng.bytes(self._layout.size - 4)

    def _not_finite(self) -> bytes:
        """A perfect checksum over a value that is none."""
        layout, joints = self._layout, self._spec.joint_count
        raw = np.frombuffer(bytearray(self._good), np.uint8)
        places = [np.r_[layout.floats(f"motor_state.{n}", joints)] for n in ("q", "dq", "tau_est")]
        places.append(np.r_[layout.floats("imu_state.quaternion")])
        raw.view(np.float32)[self._rng.choice(np.concatenate(places))] = self._rng.choice(
            [np.nan, np.inf, -np.inf]
        )
        raw[-4:].view("<u4")[0] = fastcrc.crc32.mpeg_2(raw[layout.crc_gather].data)
        return raw.tobytes()


@pytest.mark.parametrize("family", list(FAMILIES))
def test_garbage_is_counted_and_leaves_no_trace(family: str) -> None:
    spec = robot(family)
    plant = Garbage(spec, seed=20)
    link = InProcessLink(spec, plant)
    good = link._intake.accept(state_sample(spec, tick=2), received_ns=1)
    before = dataclasses.astuple(good.whole())
    period = 0.002
    for _ in range(SAMPLES // BATCH):
        assert link.wait(period * BATCH) is None
        assert link.latest is good
    assert sum(plant.expected.values()) == SAMPLES
    counters = link.counters
    for what, count in plant.expected.items():
        assert getattr(counters, what) == count, what
        assert count > SAMPLES / 20, f"hardly any {what}"
    assert (counters.received, counters.lost, counters.duplicate) == (1, 0, 0)
    for now, then in zip(dataclasses.astuple(good.whole()), before, strict=True):
        np.testing.assert_array_equal(now, then)
    assert link._intake.accept(state_sample(spec, tick=4), received_ns=2) is not None
