"""Adaptation while walking: estimates of the robot, and bounded corrections made of them."""

from sim2real_deploy.control.adaptation.adaptation import Adaptation, Adapts
from sim2real_deploy.control.adaptation.reference import load_reference
from sim2real_deploy.robots import RobotSpec

__all__ = ["Adaptation", "Adapts", "open_adaptation"]


def open_adaptation(spec: RobotSpec, adapts: str) -> Adaptation | None:
    """None for `none`: then nothing is estimated and nothing corrected."""
    chosen = Adapts(adapts)
    return None if chosen is Adapts.NONE else Adaptation(spec, chosen, load_reference(spec))
