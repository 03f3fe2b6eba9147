"""A reference motion: the frames that a policy follows, and how the robot compares with them.

The frames are stored in the network's file: its hash covers them and a recording holds them. One
body, the anchor, is compared by its orientation. The motion's heading is aligned with the robot's
in the first step, so it does not matter which way the robot faces.
"""

import base64
import binascii
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy import record
from sim2real_deploy.policy.contract import Contract
from sim2real_deploy.policy.terms import TERMS, TermInput
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.robots.geometry import Quaternion, conjugate, heading, multiply, turn_about
from sim2real_deploy.robots.state import Floats
from sim2real_deploy.robots.vectors import Numbers

KEY = "motion"


@dataclass(frozen=True, slots=True)
class Motion:
    """Frames at the policy's rate, joints in the policy's order."""

    q: Floats  # rad, one row per frame
    dq: Floats  # rad/s
    anchor: Floats  # orientation of the anchor body, w x y z

    def embed(self, model: bytes) -> bytes:
        """The network's file with the frames in it."""
        buffer = io.BytesIO()
        np.savez_compressed(buffer, q=self.q, dq=self.dq, anchor=self.anchor)
        return record.attach(model, KEY, base64.b64encode(buffer.getvalue()).decode())

    @classmethod
    def read(cls, metadata: Mapping[str, str], where: str) -> "Motion":
        """The frames in a network's file."""
        try:
            packed = io.BytesIO(base64.b64decode(metadata[KEY], validate=True))
            with np.load(packed, allow_pickle=False) as found:
                q, dq, anchor = (found[name].astype(np.float32) for name in ("q", "dq", "anchor"))
        except (KeyError, ValueError, OSError, binascii.Error) as error:
            raise Refusal(
                f"{where}: motion: the network's file does not hold its frames ({error}); import "
                "the policy again"
            ) from None
        return cls(q, dq, anchor)


class MotionPlayer:
    """Shows a motion to a policy's observation, one frame per step. The last one stays, at rest."""

    def __init__(self, motion: Motion, chain: Sequence[tuple[int, str]]) -> None:
        """`chain`: the joints from the base to the anchor, each by its SDK index and its axis."""
        self._q: list[list[float]] = motion.q.tolist()
        self._dq: list[list[float]] = motion.dq.tolist()
        self._dq[-1] = [0.0] * len(self._dq[-1])
        self._anchor = [(w, x, y, z) for w, x, y, z in motion.anchor.tolist()]
        self._chain = tuple(chain)
        self._aligned: Quaternion | None = None  # turns the motion's heading to the robot's

    def reset(self) -> None:
        self._aligned = None

    def show(self, inputs: TermInput, step: int, attitude: Numbers, q: Numbers) -> None:
        """Write the frame of this step; `q` is in SDK order."""
        at = min(step, len(self._q) - 1)
        w, x, y, z = attitude
        robot: Quaternion = (w, x, y, z)
        for joint, axis in self._chain:
            robot = multiply(robot, turn_about(axis, q[joint]))
        if self._aligned is None:
            self._aligned = turn_about("z", heading(robot) - heading(self._anchor[at]))
        wanted = multiply(self._aligned, self._anchor[at])
        inputs.motion_q, inputs.motion_dq = self._q[at], self._dq[at]
        inputs.motion_turn = _two_columns(multiply(conjugate(robot), wanted))


def open_player(
    contract: Contract, spec: RobotSpec, metadata: Mapping[str, str], where: str
) -> MotionPlayer | None:
    """The player of a policy that follows a motion; None for any other."""
    names = [term.name for group in contract.observations for term in group.terms]
    following = [name for name in names if name in TERMS and TERMS[name].motion]
    claim = contract.motion
    if claim is None:
        if following:
            raise Refusal(f"{where}: observations: '{following[0]}' needs a motion to follow")
        return None
    body = spec.bodies.get(claim.anchor)
    if body is None:
        known = ", ".join(spec.bodies) or "none"
        raise Refusal(
            f"{where}: motion.anchor: how '{claim.anchor}' is joined to the base of {spec.name} is "
            f"not known (bodies in its file); known are: {known}"
        )
    motion = Motion.read(metadata, where)
    shape = (claim.frames, len(contract.joints))
    if motion.q.shape != shape or motion.dq.shape != shape or len(motion.anchor) != claim.frames:
        raise Refusal(f"{where}: motion: {motion.q.shape} frames and joints, not {shape}")
    if not all(np.isfinite(values).all() for values in (motion.q, motion.dq, motion.anchor)):
        raise Refusal(f"{where}: motion: a value is not finite")
    chain = [
        (spec.joint_names.index(joint), axis)
        for joint, axis in zip(body.joints, body.axes, strict=True)
    ]
    return MotionPlayer(motion, chain)


def _two_columns(quaternion: Quaternion) -> tuple[float, ...]:
    """Of the rotation matrix, row by row."""
    w, x, y, z = quaternion
    n = 2.0 / math.fsum((w * w, x * x, y * y, z * z))
    return (
        1.0 - n * (y * y + z * z),
        n * (x * y - w * z),
        n * (x * y + w * z),
        1.0 - n * (x * x + z * z),
        n * (x * z - w * y),
        n * (y * z + w * x),
    )
