"""A policy.yaml to fill in, for a network that comes without a description.

What the network and the robot tell is filled in; what only a person knows is `???`, and the import
refuses it by its key until it is answered.
"""

import inspect
import shutil
from collections.abc import Iterator
from pathlib import Path

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.importers import network, places
from sim2real_deploy.policy.importers.own import UNKNOWN
from sim2real_deploy.policy.importers.vocabulary import TERM_ORDERS
from sim2real_deploy.policy.terms import TERMS
from sim2real_deploy.robots import RobotSpec

LONGEST_HISTORY = 30


def write_skeleton(source: Path, spec: RobotSpec, folder: Path) -> Path:
    """A new folder with the network and a policy.yaml to fill in; the file to edit."""
    if not source.is_file() or source.suffix not in places.NETWORKS:
        raise Refusal(f"{source}: no network ({', '.join(places.NETWORKS)})")
    places.checked(source)
    if folder.exists():
        raise Refusal(f"{folder}: is there already; nothing is overwritten")
    text = "\n".join(_lines(source, spec)) + "\n"
    folder.mkdir(parents=True)
    shutil.copyfile(source, folder / source.name)
    weights = source.with_name(source.name + ".data")
    if weights.is_file():
        shutil.copyfile(weights, folder / weights.name)
    (folder / "policy.yaml").write_text(text, encoding="utf-8")
    return folder / "policy.yaml"


def _lines(source: Path, spec: RobotSpec) -> Iterator[str]:
    orders = ", ".join(["sdk", *spec.joint_orders])
    yield f"# What {source.name} sees and sends. Replace every {UNKNOWN}, check the rest, then:"
    yield "#   sim2real policy import THIS_FOLDER --output policies/NAME"
    yield f"robot: {spec.name}"
    yield f"network: {source.name}"
    yield f"rate_hz: {UNKNOWN}  # 1 / (physics time step x decimation), mostly 50"
    yield f"joints: {UNKNOWN}  # in the network's order: {orders}, or the list of names"
    yield "# In the network's joint order; one number stands for all joints."
    yield f"default_position: {UNKNOWN}  # rad, a list: what the joint positions are relative to"
    yield f"kp: {UNKNOWN}  # Nm/rad, as trained"
    yield f"kd: {UNKNOWN}  # Nms/rad, as trained"
    yield "action:"
    yield f"  scale: {UNKNOWN}  # target = offset + scale x clip(action)"
    yield "  # offset: the default position, unless given"
    yield "  # clip: [-100, 100]  # of the action, before it is scaled"
    yield "  observed: raw  # what last_action shows: raw, or clipped"
    yield "observations:"
    sizes = network.input_sizes(source) if source.suffix == ".onnx" else {"": 0}
    for name, size in sizes.items():
        if not name.endswith("_in"):
            yield from _group(name, size, spec)
    yield "command_ranges:  # what it was trained for; commands are clipped to it"
    yield from (f"  {axis}: {UNKNOWN}  # [lowest, highest]" for axis in ("vx", "vy", "wz"))
    yield "# Terms there are (each takes scale, clip and history):"
    for name, forms in TERMS.items():
        yield f"#   {name}{_parameters(forms.scalar)}"


def _group(name: str, size: int, spec: RobotSpec) -> Iterator[str]:
    terms, history = _guess(size, spec.joint_count)
    told = f"of the network's input '{name}', {size} numbers" if size else "of the network's input"
    yield f"  # {told}. Their order is the usual trap: check it."
    yield f"  - input: '{name}'" if name else "  - input: ''  # found in the network"
    if history > 1:
        yield "    layout: by_frame  # or by_term: each term's past together"
        yield "    newest: last  # or first"
        yield "    start: zeros  # or repeat: the first frame stands for the past"
    yield "    terms:"
    past = f", history: {history}" if history > 1 else ""
    for term in terms:
        params = f', params: {{period: "{UNKNOWN}"}}' if term == "gait_phase" else ""
        yield f'      - {{name: "{term}", scale: 1.0{past}{params}}}'


def _guess(size: int, joints: int) -> tuple[tuple[str, ...], int]:
    """Terms whose numbers add up to the input's size, and over how many frames."""
    usual = TERM_ORDERS["unitree"]
    plain = 9 + 3 * joints
    for extra, terms in (
        (0, usual),
        (3, ("base_lin_vel", *usual)),
        (2, (*usual, "gait_phase")),
    ):
        frames, rest = divmod(size, plain + extra)
        if size and not rest and 1 <= frames <= LONGEST_HISTORY:
            return terms, frames
    return (UNKNOWN,), 1


def _parameters(scalar: object) -> str:
    parameters = [
        name if parameter.default is inspect.Parameter.empty else f"{name}={parameter.default}"
        for name, parameter in inspect.signature(scalar).parameters.items()  # type: ignore[arg-type]
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    return f"  params: {', '.join(parameters)}" if parameters else ""
