"""Adaptation while walking: estimates of the robot, and bounded corrections made of them."""

from sim2real_deploy.control.adaptation.adaptation import Adaptation, Own
from sim2real_deploy.control.adaptation.reference import load_reference
from sim2real_deploy.control.stages import Adapts
from sim2real_deploy.errors import Refusal
from sim2real_deploy.robots import RobotSpec

__all__ = ["Adaptation", "Adapts", "Own", "allowed", "open_adaptation"]


def allowed(chosen: str, most: Adapts) -> Adapts:
    """What was chosen, if it is no more than the stage allows."""
    if chosen not in list(Adapts):
        raise Refusal(f"adaptation:={chosen}: it is one of {', '.join(Adapts)}")
    adapts = Adapts(chosen)
    if not adapts.within(most):
        raise Refusal(
            f"adaptation:={chosen}: this stage allows '{most.value}' at most (config/stages.yaml)"
        )
    return adapts


def open_adaptation(spec: RobotSpec, chosen: str, most: Adapts = Adapts.ALL) -> Adaptation | None:
    """None for `none`: nothing is estimated, nothing corrected. `most` is what the stage allows."""
    adapts = allowed(chosen, most)
    return None if adapts is Adapts.NONE else Adaptation(spec, adapts, load_reference(spec))
