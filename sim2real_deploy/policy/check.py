"""Static checks of a bundle that loads: its margins, as figures with their bounds."""

import numpy as np

from sim2real_deploy.checks import Check
from sim2real_deploy.policy.bundle import GOLDEN_TOLERANCE, LARGEST_SCALE, Bundle
from sim2real_deploy.policy.policy import Policy
from sim2real_deploy.robots.spec import FULL_TORQUE_RAD
from sim2real_deploy.robots.state import Floats

RANDOM_STEPS = 200
LATEST = 5  # steps within which a policy must respond at all
WILD = 5.0  # standard deviation of random inputs, far beyond what a robot observes


def static_checks(bundle: Bundle) -> list[Check]:
    contract, spec = bundle.contract, bundle.spec
    joints = [spec.joints[spec.joint_names.index(name)] for name in contract.joints]
    low, high = np.array([joint.position for joint in joints]).T
    torque = np.array([joint.torque for joint in joints])
    pose = np.array(contract.default_position)
    scale = np.array(contract.action.scale)
    kp = np.maximum(np.array(contract.kp), 1e-9)
    policy = bundle.open()
    return [
        Check.at_least("policy rate", contract.rate_hz, 10, "Hz"),
        Check.at_least(
            "pose to the nearest stop", float(np.min([pose - low, high - pose])), 0, "rad"
        ),
        Check.at_least("error at full torque", float(np.min(torque / kp)), FULL_TORQUE_RAD, "rad"),
        Check.at_most(
            "range moved by an action of 1", float(np.max(scale / (high - low))), LARGEST_SCALE
        ),
        Check.at_most("golden steps, largest error", golden_error(policy), GOLDEN_TOLERANCE),
        Check.at_most("actions that are not finite", wild_actions(policy), 0),
        Check.at_most("steps until it responds to its input", steps_to_respond(policy), 0),
    ]


def golden_error(policy: Policy) -> float:
    """The largest error in the recorded steps, relative to their size."""
    policy.reset()
    worst = 0.0
    for step in policy.contract.golden:
        for name, values in step.inputs.items():
            policy.session.inputs[name][:] = values
        policy.session.run()
        expected = np.array(step.action)
        worst = max(worst, float(np.max(np.abs(policy.action - expected) / (1 + np.abs(expected)))))
    policy.reset()
    return worst


def wild_actions(policy: Policy) -> int:
    """The number of random observations for which the action is not finite."""
    random = np.random.default_rng(1)
    broken = 0
    for _ in range(RANDOM_STEPS):
        for values in policy.session.inputs.values():
            values[:] = random.normal(0.0, WILD, values.size)
        policy.session.run()
        broken += not np.isfinite(policy.action).all()
    policy.reset()
    return broken


def steps_to_respond(policy: Policy) -> int:
    """How many steps the action lags behind the observation: a policy that lags may still walk in
    the twin, but it trembles on the robot."""

    def actions(first: float) -> list[Floats]:
        policy.reset()
        given = []
        for observation in (first, *[0.0] * (LATEST - 1)):
            for values in policy.session.inputs.values():
                values[:] = observation
            policy.session.run()
            given.append(policy.action.copy())
        return given

    pairs = zip(actions(0.0), actions(1.0), strict=True)
    late = [np.array_equal(calm, stirred) for calm, stirred in pairs]
    policy.reset()
    return late.index(False) if not all(late) else LATEST
