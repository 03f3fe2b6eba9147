"""The robot's own estimates while it walked, compared with what the recording shows afterwards."""

from dataclasses import dataclass

import numpy as np

from sim2real_deploy.analysis.gap.causes import Findings
from sim2real_deploy.bags.recorded import Recorded, labelled
from sim2real_deploy.topics import ADAPTATION, ESTIMATES


@dataclass(frozen=True, slots=True)
class Belief:
    """One quantity; None where nobody told it."""

    name: str
    unit: str
    adaptation: float | None  # from the wire, at the end of the walk
    network: float | None  # the policy's own estimate, its mean over the walk
    identified: float | None  # by this analysis

    @property
    def words(self) -> str:
        told = (
            ("adaptation", self.adaptation),
            ("the policy's network", self.network),
            ("identified", self.identified),
        )
        unit = f" {self.unit}" if self.unit else ""
        return f"{self.name}: " + ", ".join(
            f"{who} {value:.3g}{unit}" for who, value in told if value is not None
        )


def beliefs_of(recorded: Recorded, findings: Findings | None) -> list[Belief]:
    """Empty where neither adaptation nor the policy told anything."""
    series = recorded.load((ADAPTATION, ESTIMATES))
    last: dict[str, float] = {}
    mean: dict[str, float] = {}
    if ADAPTATION in series and len(series[ADAPTATION]):
        names, rows = labelled(series[ADAPTATION])
        last = dict(zip(names, rows[-1].tolist(), strict=True))
    if ESTIMATES in series and len(series[ESTIMATES]):
        names, rows = labelled(series[ESTIMATES])
        mean = dict(zip(names, rows.mean(axis=0).tolist(), strict=True))
    if not last and not mean:
        return []
    world = None if findings is None else findings.world
    strengths = [value for name, value in last.items() if name.startswith("strength.")]
    weak = {} if findings is None else findings.weak_joints
    delay = mean.get("delay")
    rows_of = [
        Belief(
            "motor strength, of the twin's",
            "",
            float(np.median(strengths)) if strengths else None,
            mean.get("motor_strength"),
            None if world is None else world.strength,
        ),
        *(
            Belief(f"strength of {joint}", "", last.get(f"strength.{joint}"), None, value)
            for joint, value in weak.items()
        ),
        Belief(
            "payload",
            "kg",
            last.get("payload_kg"),
            mean.get("payload"),
            None if world is None else world.payload,
        ),
        Belief(
            "command delay",
            "ms",
            last.get("delay_ms"),
            None if delay is None else 1e3 * delay,
            None if findings is None else 1e3 * findings.delay_s,
        ),
        Belief(
            "floor friction",
            "",
            None,
            mean.get("friction"),
            None if findings is None else findings.floor_friction,
        ),
    ]
    return rows_of
