"""What every importer ends in: a draft of the contract, with nothing filled in by guessing.

What a format leaves open is asked for, all of it at once, and given with `--set key=value`.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict

from sim2real_deploy.errors import Refusal

Numbers = float | tuple[float, ...]
Range = tuple[float, float]

RANGES_HINT = (
    "the velocities it was trained on: '{vx: [-1, 1], vy: [-0.4, 0.4], wz: [-1, 1]}', m/s and rad/s"
)


class Foreign(BaseModel):
    """Base of what is read from other projects' files: they may say more than we use."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class Held:
    """A joint the policy leaves alone, and how it is held meanwhile."""

    joint: str | int
    position: float
    kp: float
    kd: float


@dataclass(slots=True)
class Draft:
    """A contract but for the robot, the names of inputs and outputs, and what the network proves.

    A joint is a name, or a number: its place among the motors on the wire.
    """

    source: Path  # the file that says all this
    network: Path
    joints: Sequence[str | int]
    claims: dict[str, Any]  # the contract's fields, in the policy's joint order
    robot: str | None = None  # its name, where the source gives one
    held: Sequence[Held] = ()
    notes: dict[str, str] = field(default_factory=dict)  # what was taken from where, for provenance


class Answers:
    """What the user said beside the files."""

    def __init__(self, given: Mapping[str, Any] | None = None, network: Path | None = None) -> None:
        self._given = dict(given or {})
        self._used: set[str] = set()
        self.network = network

    def require(self, source: Path, wanted: Mapping[str, str]) -> dict[str, Any]:
        """The answers to `wanted` (key: what it is), or a refusal that asks for all missing."""
        self._used |= wanted.keys()
        missing = [
            f"  --set {key}=...   {what}" for key, what in wanted.items() if not self.has(key)
        ]
        if missing:
            raise Refusal(
                f"{source}: does not say all that a robot must know. Give it:\n"
                + "\n".join(missing)
            )
        return {key: self._given[key] for key in wanted}

    def optional(self, key: str, default: Any) -> Any:
        self._used.add(key)
        return self._given.get(key, default)

    def has(self, key: str) -> bool:
        return key in self._given

    def refuse_unused(self, source: Path) -> None:
        unused = sorted(self._given.keys() - self._used)
        if unused:
            raise Refusal(
                f"--set {', '.join(unused)}: {source} says that itself, or it has no such thing"
            )


class Format(Protocol):
    """One way in which other projects write a policy down: a module of this package."""

    NAME: str

    def find(self, source: Path) -> Path | None:
        """The file of this format that `source` (a file or a folder) is or holds."""

    def read(self, file: Path, answers: Answers) -> Draft: ...


def first_file(source: Path, *relative: str) -> Path | None:
    """`source` itself when its name fits, or the first of these below it."""
    if source.is_file():
        return source if any(source.name == Path(name).name for name in relative) else None
    return next((source / name for name in relative if (source / name).is_file()), None)


def find_network(file: Path, answers: Answers, *relative: str) -> Path:
    """The network beside a description, unless the user named one."""
    if answers.network is not None:
        if not answers.network.is_file():
            raise Refusal(f"--network {answers.network}: there is no such file")
        return answers.network
    for name in relative:
        path = Path(os.path.normpath(file.parent / name))
        if path.is_file():
            return path
    raise Refusal(
        f"{file}: no network beside it ({', '.join(relative)}); name it with --network FILE"
    )


def spread(values: Numbers, count: int, where: str) -> list[float]:
    """One number for each joint; a single one stands for all."""
    if isinstance(values, float | int):
        return [float(values)] * count
    if len(values) != count:
        raise Refusal(f"{where}: {len(values)} values for {count} joints")
    return list(values)


def translate(name: str, table: Mapping[str, str], where: str) -> str:
    """Our name of an observation term of theirs."""
    if name in table:
        return table[name]
    if name in ("base_lin_vel", "lin_vel"):
        raise Refusal(
            f"{where}: the policy wants its linear velocity, which no sensor of the robot "
            "measures; train it without"
        )
    raise Refusal(f"{where}: observation '{name}' is not known; known are: {', '.join(table)}")


def action_clip(
    target_clip: Sequence[Range], scale: Sequence[float], offset: Sequence[float], where: str
) -> list[Range]:
    """Where a format clips the joint target, the same bounds on the network's action."""
    bounds = []
    for i, ((low, high), factor, middle) in enumerate(zip(target_clip, scale, offset, strict=True)):
        if factor == 0:
            raise Refusal(f"{where}: scale.{i}: is 0: that joint could not move")
        ends = sorted(((low - middle) / factor, (high - middle) / factor))
        bounds.append((ends[0], ends[1]))
    return bounds
