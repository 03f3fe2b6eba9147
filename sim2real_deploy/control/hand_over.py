"""Blending from one command to a policy's own, with no jump in targets or gains."""

from dataclasses import dataclass

import numpy as np

from sim2real_deploy.control.trajectory import mix, smooth
from sim2real_deploy.policy.policy import Policy
from sim2real_deploy.robots import JointCommand


@dataclass(frozen=True, slots=True)
class HandOver:
    """`before` may change meanwhile, if it is the command of a policy that still runs."""

    before: JointCommand
    start_ns: int
    seconds: float

    def fill(self, policy: Policy, now_ns: int, asked: JointCommand) -> bool:
        """Write the command for `now_ns`; True once it is the policy's own."""
        share = (now_ns - self.start_ns) / (self.seconds * 1e9)
        before, x = self.before, smooth(share)
        mix(before.q, policy.target, x, asked.q)
        mix(before.kp, policy.kp, x, asked.kp)
        mix(before.kd, policy.kd, x, asked.kd)
        mix(before.dq, policy.speed, x, asked.dq)
        asked.torque.fill(0.0)
        return share >= 1.0


def command_of(policy: Policy) -> JointCommand:
    """A view of a policy's targets and gains: it follows each of the policy's steps."""
    return JointCommand(
        policy.target, policy.speed, policy.kp, policy.kd, np.zeros_like(policy.target)
    )
