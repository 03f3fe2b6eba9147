"""A policy that follows a recorded motion: the whole of it, once, in the ideal twin."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sim2real_deploy.checks import Check
from sim2real_deploy.errors import Refusal
from sim2real_deploy.gate.drive import SEEN_EVERY, Drive, fallen
from sim2real_deploy.policy.bundle import Bundle
from sim2real_deploy.policy.motion import Motion
from sim2real_deploy.twin.robot import TwinRobot

ROPE_OFF_S = 1.0  # into the motion; a robot that crouches would otherwise lean into its rope
MOST_ERROR = 0.25  # rad, mean over joints and time


@dataclass(frozen=True, slots=True)
class MotionOutcome:
    """How the robot followed its motion."""

    seconds: float  # of the motion, without a fall
    length: float  # s, of the whole motion
    error: float  # rad, mean distance of the joints from the motion's

    def checks(self) -> list[Check]:
        return [
            Check.at_least("motion: stays up", self.seconds, self.length, "s"),
            Check.at_most("motion: mean distance of its joints", self.error, MOST_ERROR, "rad"),
        ]


def follow(bundle: Bundle, step: Callable[[str], None]) -> MotionOutcome:
    """Stand up, follow the motion to its end or until the robot falls."""
    claim, rate_hz = bundle.contract.motion, bundle.contract.rate_hz
    assert claim is not None
    length = claim.frames / rate_hz
    step(f"{claim.source}, {length:.1f} s")
    twin = TwinRobot(bundle.spec)
    twin.reset(0)
    drive = Drive(bundle, twin)
    policy = drive.controller.policy
    assert policy is not None
    wanted = Motion.read(policy.session.metadata, str(bundle.folder)).q
    places = [bundle.spec.joint_names.index(name) for name in bundle.contract.joints]
    try:
        drive.stand()
        drive.start()
    except Refusal:
        return MotionOutcome(0.0, length, float("inf"))
    errors, tick = [], 0
    while policy.steps < claim.frames:
        state = drive.tick()
        tick += 1
        if policy.steps >= ROPE_OFF_S * rate_hz:
            twin.unhook()
        if tick % SEEN_EVERY == 0 and state is not None:
            errors.append(np.abs(state.q[places] - wanted[policy.steps - 1]).mean())
            if fallen(twin, twin.truth):
                break
    return MotionOutcome(policy.steps / rate_hz, length, float(np.mean(errors)))
