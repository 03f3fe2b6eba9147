"""Monitors of the state stream (present, fresh, intact) and of the robot's posture."""

import math
from typing import ClassVar

from sim2real_deploy.robots.geometry import tilt, to_world
from sim2real_deploy.robots.spec import RobotSpec
from sim2real_deploy.robots.state import RobotState
from sim2real_deploy.safety.chain import RECOVERING
from sim2real_deploy.safety.inputs import Inputs, Rate, Reading, Readings
from sim2real_deploy.wire.intake import LEAP_MS

LIES_NS = 2_000_000_000  # after damping for this long a robot has come to rest
GYROSCOPE_RANGE = 34.9  # rad/s: +-2000 deg/s, the full scale of the usual sensor
ACCELEROMETER_RANGE = 157.0  # m/s^2: +-16 g
GRAVITY_FILTER_S = 0.3
SUPPORTED = 4.9  # m/s^2: below this the accelerometer does not show which way is down
LONGEST_LOOK_S = 0.01  # a later cycle was itself delayed; the states it missed are queued


class StateMonitor:
    """Whether rt/lowstate is alive, changing, on time, intact and from one robot.

    Silence counts only while this process runs: when the computer stalls for a moment, it is not
    the robot that fell silent. But a driven robot whose own counter leaps was without us for so
    long: it restarted, or this computer slept, and the monotonic clock with it.
    """

    MEASURES: ClassVar = frozenset(
        {
            *("state_corrupt_per_s", "state_not_finite_per_s", "idle_state_age_s", "state_age_s"),
            *("state_unchanged_s", "state_rate_loss", "state_rate_excess"),
            *("mixed_states_per_s", "idle_mixed_states_per_s"),
        }
    )

    def __init__(self, robot: RobotSpec) -> None:
        self._rate_hz = robot.wire.rate_hz
        self._last_ns: int | None = None
        self._looked_ns: int | None = None
        self._silence_s = 0.0
        self._repeated = 0
        self._changed_ns = 0
        self._content = b""
        self._received, self._corrupt, self._not_finite = Rate(), Rate(), Rate()
        self._mixed, self._leaps = Rate(), Rate()

    def measure(self, inputs: Inputs, now_ns: int) -> Readings:
        counters = inputs.counters
        corrupt = self._corrupt(counters.bad_crc + counters.bad_length, now_ns)
        readings: Readings = {
            "state_corrupt_per_s": Reading(corrupt),
            "state_not_finite_per_s": Reading(self._not_finite(counters.not_finite, now_ns)),
        }
        self._listen(inputs.state, counters.duplicate, now_ns)
        mixed = Reading(self._mixed(counters.foreign + counters.leaps, now_ns))
        readings["mixed_states_per_s" if inputs.driving else "idle_mixed_states_per_s"] = mixed
        leapt = self._leaps(counters.leaps, now_ns) > 0
        share = self._share(counters.received, now_ns)
        if self._last_ns is not None:
            age = Reading(self._silence_s)
            readings["idle_state_age_s"] = age
            if inputs.driving:
                readings["state_age_s"] = Reading(LEAP_MS / 1000) if leapt else age
                readings["state_unchanged_s"] = Reading((self._last_ns - self._changed_ns) / 1e9)
                readings["state_rate_loss"] = None if share is None else Reading(1.0 - share)
                readings["state_rate_excess"] = None if share is None else Reading(share - 1.0)
        return readings

    def _listen(self, state: RobotState | None, repeated: int, now_ns: int) -> None:
        if state is not None:
            self._see(state)
            self._silence_s = 0.0
        elif self._looked_ns is not None:
            self._silence_s += min((now_ns - self._looked_ns) / 1e9, LONGEST_LOOK_S)
            if repeated > self._repeated and self._last_ns is not None:
                self._last_ns = now_ns  # it still sends, but repeats itself
        self._looked_ns, self._repeated = now_ns, repeated

    def _see(self, state: RobotState) -> None:
        # A real sensor is never bit-identical twice; a stuck one is, however its counter runs.
        content = state.gyroscope.tobytes() + state.accelerometer.tobytes() + state.dq.tobytes()
        if content != self._content:
            self._content = content
            self._changed_ns = state.received_ns
        self._last_ns = state.received_ns

    def _share(self, received: int, now_ns: int) -> float | None:
        """The share of the last second's expected states that arrived; None before the first."""
        if not received:
            return None
        got = self._received(received, now_ns)
        window_s = (now_ns - self._received.since_ns) / 1e9
        return None if window_s < 0.9 else got / (window_s * self._rate_hz)


class PostureMonitor:
    """Whether orientation and acceleration are plausible, and whether the robot is upright.

    If the robot `may_recover`, a fall no longer counts once it has lain damped for a while, nor
    while it gets up: it can be reset as it lies. How long it tries is measured instead.
    """

    MEASURES: ClassVar = frozenset(
        {
            *("quaternion_error", "imu_range", "gravity_error_rad"),
            *("tilt_rad", "fallen_rad", "recovering_s", "acceleration"),
        }
    )

    def __init__(self, may_recover: bool = False) -> None:
        self._may_recover = may_recover
        self._recovering_ns: int | None = None  # when recovery began
        self._driven_ns: int | None = None  # when it was last driven
        self._average = (0.0, 0.0, 9.81)  # acceleration in the world frame
        self._last_ns: int | None = None
        self._readings: Readings = {}

    def measure(self, inputs: Inputs, now_ns: int) -> Readings:
        if inputs.state is not None:
            self._readings = self._see(inputs.state)
        if not self._readings:
            return {}
        recovering = inputs.report is not None and inputs.report.mode == RECOVERING
        if not recovering:
            self._recovering_ns = None
        elif self._recovering_ns is None:
            self._recovering_ns = now_ns
        since_ns = now_ns if self._recovering_ns is None else self._recovering_ns
        if inputs.driving or self._driven_ns is None:
            self._driven_ns = now_ns
        lies = now_ns - self._driven_ns > LIES_NS
        excused = self._may_recover and (recovering or lies)
        return self._readings | {
            "fallen_rad": Reading(0.0) if excused else self._readings.get("tilt_rad"),
            "recovering_s": Reading((now_ns - since_ns) / 1e9),
        }

    def _see(self, state: RobotState) -> Readings:
        w, x, y, z = state.quaternion.tolist()
        acceleration = state.accelerometer.tolist()
        support = math.hypot(*acceleration)
        spin = math.hypot(*state.gyroscope.tolist())
        self._follow(to_world((w, x, y, z), acceleration), state.received_ns)
        return {
            "quaternion_error": Reading(abs(math.sqrt(w * w + x * x + y * y + z * z) - 1.0)),
            "imu_range": Reading(max(spin / GYROSCOPE_RANGE, support / ACCELEROMETER_RANGE)),
            "gravity_error_rad": self._gravity_error(),
            "tilt_rad": Reading(tilt((w, x, y, z))),
            "acceleration": Reading(support),
        }

    def _follow(self, world: tuple[float, float, float], now_ns: int) -> None:
        """Average the acceleration in the world frame, where walking cancels and gravity stays."""
        elapsed_s = 0.0 if self._last_ns is None else (now_ns - self._last_ns) / 1e9
        self._last_ns = now_ns
        weight = min(1.0, elapsed_s / GRAVITY_FILTER_S)
        ax, ay, az = self._average
        self._average = (
            ax + weight * (world[0] - ax),
            ay + weight * (world[1] - ay),
            az + weight * (world[2] - az),
        )

    def _gravity_error(self) -> Reading | None:
        ax, ay, az = self._average
        if math.hypot(ax, ay, az) < SUPPORTED:
            return None
        return Reading(math.atan2(math.hypot(ax, ay), az))
