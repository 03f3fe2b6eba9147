"""The excitation for identification: with the legs in the air, every joint is moved.

Standing still; triangle waves at rising speeds, for friction; a chirp at the policy's gains; a
downward chirp at stiffer gains, for fast motion. Left and right legs move in antiphase, and so do
front and rear, so that the trunk hardly swings. Time is an argument.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim2real_deploy.control.trajectory import mix, smooth
from sim2real_deploy.robots import JointCommand, RobotSpec, RobotState

Array = npt.NDArray[np.float64]

BLEND_S = 3.0  # from the initial to the middle pose
PAUSE_S = 0.5  # after each part
TAPER_HZ = 1.5  # above this the amplitude falls with the frequency
MOST_SWING = 1.5  # rad/s of the trunk
MOST_PRESS = 60.0  # reading of a foot's force sensor
MOST_HEAT = 70.0  # degrees C
OTHERWISE, ROOM = 0.2, 0.7  # rad, amplitude of other joints; most, as a share of the way to a stop
REACH = {"hip_joint": 0.25, "thigh_joint": 0.30, "calf_joint": 0.45}  # rad, amplitudes


@dataclass(frozen=True, slots=True)
class ExcitationPart:
    """One kind of movement at one pair of gains."""

    name: str
    seconds: float
    kp: float
    kd: float
    speeds: tuple[float, ...] = ()  # rad/s, of triangle waves
    chirp: tuple[float, float] | None = None  # Hz, first and last

    def wave(self, t: float, reach: Array, phase: Array) -> Array:
        """Displacement of each joint, zero at both ends."""
        if self.chirp is not None:
            low, high = self.chirp
            rate = (high - low) / self.seconds
            frequency = low + rate * t
            angle = 2 * np.pi * (low * t + rate * t * t / 2)
            size = min(1.0, TAPER_HZ / max(frequency, 1e-6))
            fade = min(1.0, t / 0.5, (self.seconds - t) / 0.5)
            return np.asarray(reach * size * fade * np.sin(angle + phase))
        if self.speeds:
            each = self.seconds / len(self.speeds)
            number = min(int(t / each), len(self.speeds) - 1)
            local = t - number * each
            travel = np.minimum(reach, self.speeds[number] * each / 8)  # at least two full cycles
            turns = self.speeds[number] * local / (4 * travel)
            fade = min(1.0, local / 0.2, (each - local) / 0.2)
            return np.asarray(fade * travel * _triangle(turns + phase / (2 * np.pi)))
        return np.zeros_like(reach)


def _triangle(turns: Array) -> Array:
    return np.asarray(4 * np.abs((turns - 0.25) % 1.0 - 0.5) - 1)


def protocol(kp: float, kd: float, minutes: float = 4.0) -> tuple[ExcitationPart, ...]:
    """Built around the gains of the policy to deploy; `minutes` scales every part."""
    unit = minutes * 60 / 8
    return (
        ExcitationPart("still", 0.5 * unit, kp, kd),
        ExcitationPart("triangles", 2.5 * unit, 2.4 * kp, 4 * kd, speeds=(0.1, 0.3, 0.8, 2.0)),
        ExcitationPart("chirp at deployment gains", 2.5 * unit, kp, kd, chirp=(0.1, 3.0)),
        ExcitationPart("chirp at stiff gains, downwards", 2.5 * unit, kp, 4 * kd, chirp=(8.0, 0.1)),
    )


class Excitation:
    """A movement for the controller, like `Trajectory`; starts from the pose held now."""

    def __init__(
        self, start: JointCommand, parts: tuple[ExcitationPart, ...], spec: RobotSpec, now_ns: int
    ) -> None:
        self.parts = parts
        self.part = ""  # name of the current one
        self._start, self._start_ns = start.copy(), now_ns
        self._middle = spec.stand_pose.astype(np.float64)
        self._reach, self._phase = _reach(spec), _phase(spec)
        self.duration_s = BLEND_S + sum(part.seconds + PAUSE_S for part in parts)

    def fill(self, now_ns: int, out: JointCommand) -> bool:
        """Write the command for `now_ns`; True when the last part has ended."""
        elapsed = (now_ns - self._start_ns) / 1e9
        out.dq.fill(0.0)
        out.torque.fill(0.0)
        if elapsed < BLEND_S:
            self.part = "to the middle pose"
            share, first = smooth(elapsed / BLEND_S), self.parts[0]
            mix(self._start.q, self._middle.astype(np.float32), share, out.q)
            mix(self._start.kp, np.full_like(out.kp, first.kp), share, out.kp)
            mix(self._start.kd, np.full_like(out.kd, first.kd), share, out.kd)
            return False
        left = elapsed - BLEND_S
        for part in self.parts:
            if left < part.seconds + PAUSE_S:
                self.part = part.name
                moving = left < part.seconds
                out.q[:] = self._middle
                if moving:
                    out.q[:] += part.wave(left, self._reach, self._phase).astype(np.float32)
                out.kp.fill(part.kp)
                out.kd.fill(part.kd)
                return False
            left -= part.seconds + PAUSE_S
        self.part = "done"
        return True

    def objection(self, state: RobotState) -> str:
        """Why it must end, "" if it may go on: the trunk swings, a foot touches, a motor is hot."""
        rate = float(np.abs(state.gyroscope).max())
        if rate > MOST_SWING:
            return f"the trunk swings at {rate:.1f} rad/s"
        felt = state.whole()
        pressed = float(np.max(felt.foot_force, initial=0))
        if pressed > MOST_PRESS:
            return f"a foot presses on something with {pressed:.0f}: the legs must hang free"
        hottest = float(np.max(felt.temperature, initial=0))
        return f"a motor is at {hottest:.0f} C" if hottest > MOST_HEAT else ""


def _reach(spec: RobotSpec) -> Array:
    """Amplitude of each joint: as in REACH, and never near a stop."""
    named = [
        next((r for end, r in REACH.items() if name.endswith(end)), OTHERWISE)
        for name in spec.joint_names
    ]
    room = np.minimum(spec.stand_pose - spec.position_low, spec.position_high - spec.stand_pose)
    return np.asarray(np.minimum(named, ROOM * room), np.float64)


def _phase(spec: RobotSpec) -> Array:
    """Phase of each joint: neighbouring legs in antiphase, the joints of a leg staggered."""
    joints = max(spec.joint_count // max(len(spec.legs), 1), 1)
    leg, joint = np.divmod(np.arange(spec.joint_count), joints)
    return np.asarray(np.pi * ((leg + leg // 2) % 2) + 0.7 * joint)
