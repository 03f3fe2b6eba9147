"""Outputs of a network beside the action: what it believes of its robot.

A contract declares them (`estimates`). Networks that were exported before contracts could do so
are recognised by the names of their outputs.
"""

from collections.abc import Mapping

from sim2real_deploy.policy.contract import Contract, Estimate

MISSED = Estimate(
    output="missed_velocity",  # reached less commanded
    names=("missed_vx", "missed_vy", "missed_wz"),
    units=("m/s", "m/s", "rad/s"),
)


def of_robot(name: str, unit: str) -> Estimate:
    """A property of the robot or its floor, as training randomises it."""
    return Estimate(output=f"estimated_{name}", names=(name,), units=(unit,))


RECOGNISED = (
    MISSED,
    of_robot("friction", "1"),
    of_robot("payload", "kg"),
    of_robot("motor_strength", "1"),
    of_robot("delay", "s"),
)


def estimates_of(contract: Contract, sizes: Mapping[str, int]) -> tuple[Estimate, ...]:
    """Those of a network whose outputs have these sizes."""
    if contract.estimates:
        return contract.estimates
    return tuple(one for one in RECOGNISED if sizes.get(one.output) == len(one.names))
