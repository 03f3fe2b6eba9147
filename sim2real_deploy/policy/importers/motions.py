"""Reading recorded motions for policies that follow one: CSV, NPZ, or out of the network itself.

CSV, as unitree_rl_lab and whole_body_tracking take it: position and quaternion (x y z w) of the
base, then the joints in motor order. NPZ, as they write it: joints in the policy's order, and the
orientations (w x y z) of all bodies, the base first. A network exported by whole_body_tracking or
mjlab holds its motion: asked for a time step, it returns that frame.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.contract import Contract
from sim2real_deploy.policy.importers import foreign_yaml
from sim2real_deploy.policy.importers.draft import Answers
from sim2real_deploy.policy.motion import Motion
from sim2real_deploy.policy.onnx_file import open_network
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.robots.geometry import multiply, turn_about

Array = npt.NDArray[np.float64]

STANDS_STILL = dict.fromkeys(("vx", "vy", "wz"), (0.0, 0.0))  # it takes no velocity command
SUFFIXES = (".csv", ".npz")
STEP_INPUT = "time_step"  # of a network that holds its motion
BASE_COLUMNS = 7  # of a CSV file, before the joints
FURTHEST, MOST_FRAMES, SAME_FRAMES = 1e6, 100_000, 250
_ANCESTORS = 6
_RATE = re.compile(r"(\d+)_?(?:hz|fps)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RecordedMotion:
    """A motion as it was read, at its own rate."""

    source: str
    rate_hz: float
    q: Array
    motor_order: bool  # of `q`; else the policy's
    base: Array | None  # orientations, w x y z; None if `anchor` is known
    anchor: Array | None = None
    body: str = ""  # the anchor's name; "": the first one in the robot's file
    start_s: float = 0.0
    end_s: float | None = None

    def frames(self, contract: Contract, spec: RobotSpec) -> tuple[str, Motion]:
        """The name of the anchor, and the frames at the policy's rate in its joint order."""
        body = self.body or next(iter(spec.bodies), "")
        if body not in spec.bodies:
            known = ", ".join(spec.bodies) or "none"
            raise Refusal(
                f"{self.source}: the motion is compared by '{body or 'a body'}', and {spec.name}'s "
                f"file knows: {known}"
            )
        names = spec.joint_names if self.motor_order else contract.joints
        if self.q.shape[1] != len(names):
            raise Refusal(f"{self.source}: {self.q.shape[1]} joints, not {len(names)}")
        places = [names.index(name) for name in contract.joints]
        length_s = (len(self.q) - 1) / self.rate_hz
        end_s = length_s if self.end_s is None else min(self.end_s, length_s)
        if not 0 <= self.start_s < end_s:
            raise Refusal(
                f"{self.source}: from {self.start_s:g} to {end_s:g} s: it lasts {length_s:.1f} s"
            )
        times = np.arange(self.start_s, end_s, 1 / contract.rate_hz) * self.rate_hz
        anchor = self.anchor
        if anchor is None:
            assert self.base is not None
            anchor = _of_body(self.base, self.q, names, body, spec)
        q = _between(self.q[:, places], times)
        dq = np.gradient(q, 1 / contract.rate_hz, axis=0)
        turns = _between(_same_side(anchor), times)
        turns /= np.linalg.norm(turns, axis=1, keepdims=True)
        return body, Motion(*(np.float32(values) for values in (q, dq, turns)))


def beside(file: Path, answers: Answers, rate_hz: float | None = None) -> RecordedMotion:
    """The motion of a description: the file that the user named, the one in unitree_rl_lab's
    config.yaml, or the only one beside the description. `rate_hz` is the project's own rule, for a
    file whose name does not tell its rate."""
    told = _state_machine(file)
    named = answers.optional("motion", "") or told.get("motion_file", "")
    path = _find(file, str(named))
    in_name = _RATE.search(path.stem)
    usual = float(in_name[1]) if in_name else rate_hz
    rate = answers.optional("motion_fps", told.get("fps", usual))
    settings = {
        "start_s": float(answers.optional("motion_start", told.get("time_start", 0.0))),
        "end_s": answers.optional("motion_end", told.get("time_end")),
        "body": str(answers.optional("anchor", "")),
    }
    return read(path, rate, settings, f"{file}: --set motion_fps")


def read(path: Path, rate_hz: Any, settings: dict[str, Any], where: str) -> RecordedMotion:
    """A motion's file. `where` its rate is to be given, if a CSV file's is not."""
    if not path.is_file():
        raise Refusal(f"{path}: there is no such file")
    if path.suffix == ".npz":
        return _read_npz(path, rate_hz, settings)
    if rate_hz is None:
        raise Refusal(f"{where}: how many frames per second {path.name} has must be given")
    return _read_csv(path, float(rate_hz), settings)


def embedded(network: Path, rate_hz: float, anchor: str) -> RecordedMotion:
    """The motion that one of our own bundles holds."""
    found = Motion.read(
        open_network(network, network).get_modelmeta().custom_metadata_map, str(network)
    )
    q, turns = found.q.astype(float), found.anchor.astype(float)
    return RecordedMotion(
        network.name, rate_hz, q, motor_order=False, base=None, anchor=turns, body=anchor
    )


def in_network(
    network: Path, rate_hz: float, anchor: str, bodies: list[str]
) -> RecordedMotion | None:
    """The motion that a network holds; None if it has no input for the time step."""
    session = open_network(network, network)
    inputs = {node.name: node.shape for node in session.get_inputs()}
    if STEP_INPUT not in inputs:
        return None
    if anchor not in bodies:
        raise Refusal(f"{network}: metadata body_names: lack the anchor '{anchor}'")
    feed = {name: np.zeros(shape, np.float32) for name, shape in inputs.items()}
    wanted = ["joint_pos", "body_quat_w"]

    def frame(step: float) -> tuple[Array, Array]:
        feed[STEP_INPUT].fill(step)
        q, turns = session.run(wanted, feed)
        return q.ravel().astype(float), turns.reshape(-1, 4)[bodies.index(anchor)].astype(float)

    last = frame(FURTHEST)
    found: list[tuple[Array, Array]] = []
    same = 0
    while same < SAME_FRAMES and len(found) < MOST_FRAMES:
        found.append(frame(len(found)))
        still = all(np.array_equal(one, other) for one, other in zip(found[-1], last, strict=True))
        same = same + 1 if still else 0
    found = found[: len(found) - same + 1]
    q, turns = (np.array(part) for part in zip(*found, strict=True))
    return RecordedMotion(
        network.name, rate_hz, q, motor_order=False, base=None, anchor=turns, body=anchor
    )


def _state_machine(file: Path) -> dict[str, Any]:
    """What unitree_rl_lab's config.yaml says of the policy in this folder."""
    folders = {path.name for path in (file.absolute().parent, *file.absolute().parents[:3])}
    for folder in file.absolute().parents[1 : _ANCESTORS + 1]:
        path = folder / "config.yaml"
        content = foreign_yaml.read(path) if path.is_file() else None
        states = content.get("FSM") if isinstance(content, dict) else None
        for state in states.values() if isinstance(states, dict) else ():
            told = state if isinstance(state, dict) and "motion_file" in state else {}
            if told and Path(str(told.get("policy_dir", ""))).name in folders:
                return dict(told)
    return {}


def _find(file: Path, named: str) -> Path:
    folder = file.absolute().parent
    if named:
        places = [Path(named), folder / Path(named).name]
        found = [place for place in places if place.is_file()]
        if not found:
            raise Refusal(
                f"{file}: its motion '{named}' is not there; name it with --set motion=FILE"
            )
        return found[0]
    near = [folder, folder.parent, folder.parent / "params", folder.parent / "motion"]
    for place in near:
        files = sorted(p for p in place.glob("*") if p.suffix in SUFFIXES and p.is_file())
        if len(files) > 1:
            names = ", ".join(path.name for path in files)
            raise Refusal(f"{file}: several motions ({names}); name one: --set motion=FILE")
        if files:
            return files[0]
    raise Refusal(
        f"{file}: it follows a recorded motion, and there is no {' or '.join(SUFFIXES)} file near "
        "it; name it with --set motion=FILE"
    )


def _read_csv(path: Path, rate_hz: float, settings: dict[str, Any]) -> RecordedMotion:
    try:
        rows = np.loadtxt(path, delimiter=",", ndmin=2)
    except ValueError as error:
        raise Refusal(f"{path}: not rows of numbers, separated by commas: {error}") from None
    if len(rows) < 2 or rows.shape[1] <= BASE_COLUMNS:
        raise Refusal(
            f"{path}: {rows.shape[0]} rows of {rows.shape[1]} numbers; position (3) and quaternion "
            "(x y z w) of the base and the joints were expected"
        )
    base = rows[:, [6, 3, 4, 5]]
    return _checked(
        RecordedMotion(
            path.name, rate_hz, rows[:, BASE_COLUMNS:], motor_order=True, base=base, **settings
        )
    )


def _read_npz(path: Path, rate_hz: Any, settings: dict[str, Any]) -> RecordedMotion:
    try:
        with np.load(path, allow_pickle=False) as found:
            q, turns = found["joint_pos"].astype(float), found["body_quat_w"].astype(float)
            rate = float(np.ravel(found["fps"])[0]) if rate_hz is None else float(rate_hz)
    except (KeyError, ValueError, OSError) as error:
        raise Refusal(
            f"{path}: a motion holds joint_pos, body_quat_w and fps, as whole_body_tracking writes "
            f"it: {error}"
        ) from None
    return _checked(
        RecordedMotion(path.name, rate, q, motor_order=False, base=turns[:, 0], **settings)
    )


def _checked(motion: RecordedMotion) -> RecordedMotion:
    assert motion.base is not None
    lengths = np.linalg.norm(motion.base, axis=1)
    if not np.isfinite(motion.q).all() or not np.allclose(lengths, 1.0, atol=0.05):
        raise Refusal(
            f"{motion.source}: a joint is not finite, or columns 4 to 7 are no quaternion: "
            "the file is not in the form that was expected"
        )
    return motion


def _of_body(base: Array, q: Array, names: tuple[str, ...], body: str, spec: RobotSpec) -> Array:
    """The body's orientation, from the base's and the joints between them."""
    chain = spec.bodies[body]
    turns = []
    for turn, angles in zip(base.tolist(), q.tolist(), strict=True):
        for joint, axis in zip(chain.joints, chain.axes, strict=True):
            turn = multiply(turn, turn_about(axis, angles[names.index(joint)]))
        turns.append(turn)
    return np.array(turns)


def _same_side(turns: Array) -> Array:
    """The same rotations, without jumps in sign, so that neighbours can be interpolated."""
    steps = np.sign(np.sum(turns[1:] * turns[:-1], axis=1))
    signs = np.cumprod(np.where(steps < 0, -1.0, 1.0))
    return turns * np.concatenate(([1.0], signs))[:, None]


def _between(rows: Array, places: Array) -> Array:
    """Rows interpolated at fractional places."""
    low = np.minimum(places.astype(int), len(rows) - 1)
    high = np.minimum(low + 1, len(rows) - 1)
    share = (places - low)[:, None]
    return np.asarray(rows[low] * (1 - share) + rows[high] * share)
