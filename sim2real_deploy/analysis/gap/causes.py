"""Named causes of a gap, each with its size and what to do about it.

Every estimate is made on the robot's walk and on the twin's own walk, and the two are compared:
errors of the method cancel.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sim2real_deploy.analysis.gap.walk import Array, Walk
from sim2real_deploy.analysis.gap.world_fit import World, fit_world
from sim2real_deploy.identify.motor_law import fit_motor_law
from sim2real_deploy.identify.recording import from_arrays
from sim2real_deploy.twin.config import Imperfections
from sim2real_deploy.twin.floors import Floor

# The least that is worth naming, several times what chance makes of two walks of one twin.
STRENGTH = 0.05  # share
JOINT_STRENGTH = 0.10  # share, one joint against the others
DELAY_S = 0.0015
FRICTION = 0.5  # times
PAYLOAD = 0.5  # kg
FLOOR = 0.2  # share


@dataclass(frozen=True, slots=True)
class Cause:
    name: str
    size: float
    unit: str
    words: str
    remedy: str
    apply: Callable[[World], World]  # to a world without it
    explains: float = 0.0  # share of the gap that goes when the twin is given it


@dataclass(frozen=True, slots=True)
class Findings:
    world: World  # the twin's difference from the robot, as estimated
    weak_joints: dict[str, float]  # strength by the twin's, where it stands out
    delay_s: float = 0.0  # of the robot's commands, in all
    floor_friction: float = 0.0


def _motor_law(walk: Walk) -> tuple[Array, float]:
    """Strength of each joint, and the delay (s) that all share, by identification's own law."""
    names = {"target_q": "target", **{n: n for n in ("q", "dq", "torque", "feed_forward")}}
    columns = {name: walk[column] for name, column in names.items()}
    recording = from_arrays(walk.name, walk.robot, columns | {g: walk[g] for g in ("kp", "kd")})
    rng, no_lag = np.random.default_rng(0), np.zeros(1)
    joints = range(walk.robot.joint_count)
    laws = [fit_motor_law([recording], joint, rng, lags=no_lag) for joint in joints]
    strength = np.array([law.strength if law.excited else np.nan for law in laws])
    return strength, float(np.median([law.delay for law in laws if law.excited] or [0.0]))


def find(robot: Walk, twin: Walk, imperfections: Imperfections, floor: Floor) -> Findings:
    """Both walks need torque readings."""
    (seen_strength, seen_delay), (own_strength, own_delay) = _motor_law(robot), _motor_law(twin)
    ratio = seen_strength / np.maximum(own_strength, 1e-6)  # NaN where a joint hardly works
    strength = float(np.nanmedian(ratio)) if np.isfinite(ratio).any() else 1.0
    delay_s = seen_delay - own_delay
    known = World(strength=strength, delay_s=delay_s)
    seen, _ = fit_world(robot, imperfections, floor, known)
    own, _ = fit_world(twin, imperfections, floor, World())
    world = replace(
        known,
        friction=max(1.0 + seen.friction - own.friction, 0.0),
        payload=seen.payload - own.payload,
        floor=seen.floor / own.floor,
    )
    weak = {
        name: float(value)
        for name, value in zip(robot.robot.joint_names, ratio, strict=True)
        if abs(value / strength - 1) > JOINT_STRENGTH
    }
    return Findings(world, weak, seen_delay, world.floor * floor.friction)


def causes_of(findings: Findings, floor: Floor) -> list[Cause]:
    """Those that are large enough to name."""
    world = findings.world
    found: list[Cause] = []
    if abs(world.strength - 1) > STRENGTH:
        word = "weaker" if world.strength < 1 else "stronger"
        found.append(
            Cause(
                f"{word} motors",
                world.strength,
                "of the twin's torque",
                f"motors give {world.strength:.0%} of the torque that the twin's give",
                "identify this robot (motors.strength), and train with a strength range that "
                "reaches below it; check battery and heat first",
                lambda w: replace(w, strength=world.strength),
            )
        )
    if abs(world.delay_s) > DELAY_S:
        word = "later" if world.delay_s > 0 else "sooner"
        found.append(
            Cause(
                "delay",
                world.delay_s * 1e3,
                "ms",
                f"commands act {abs(world.delay_s) * 1e3:.1f} ms {word} than in the twin",
                "find what delays them (network, another process); else motors.delay in the twin "
                "and a delay range in training around it",
                lambda w: replace(w, delay_s=world.delay_s),
            )
        )
    if abs(world.friction - 1) > FRICTION:
        found.append(
            Cause(
                "joint friction",
                world.friction,
                "times the twin's",
                f"joints have {world.friction:.1f} times the dry friction of the twin's",
                "identify friction with the robot on its hoist; widen the friction range to it",
                lambda w: replace(w, friction=world.friction),
            )
        )
    if abs(world.payload) > PAYLOAD:
        word = "heavier" if world.payload > 0 else "lighter"
        found.append(
            Cause(
                "payload",
                world.payload,
                "kg",
                f"the trunk is {abs(world.payload):.1f} kg {word} than the twin's",
                "weigh what it carries; trunk.mass in the twin, and a payload range in training",
                lambda w: replace(w, payload=world.payload),
            )
        )
    if world.floor < 1 - FLOOR:
        friction = world.floor * floor.friction
        found.append(
            Cause(
                "slippery floor",
                friction,
                "friction coefficient",
                f"feet slip as on a floor of friction {friction:.2f}; the twin's is "
                f"{floor.friction:g}",
                "widen the floor friction range in training down to it; check the feet",
                lambda w: replace(w, floor=world.floor),
            )
        )
    return found


def in_order(causes: Sequence[Cause]) -> list[Cause]:
    return sorted(causes, key=lambda cause: -cause.explains)
