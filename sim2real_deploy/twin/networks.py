"""Small learned networks of a twin: file, digest and kernels.

A file is an npz of plain arrays and one line of JSON, the card; it contains no code. A twin stores
the digest of its network file, and any other file is refused.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sim2real_deploy import paths
from sim2real_deploy.compiled import compiled
from sim2real_deploy.errors import Refusal
from sim2real_deploy.twin.config import NetworkFile

Array = Any  # a numpy array of any layout
Weights = npt.NDArray[np.float32]

CARD = "card"
DIGEST_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Stored:
    """A network's arrays by name, and its card, which tells its origin and performance."""

    arrays: Mapping[str, npt.NDArray[Any]]
    card: Mapping[str, Any]

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self.arrays[name]


def write_network(path: Path, stored: Stored) -> str:
    """Returns the digest. The same arrays and card give the same file, byte for byte."""
    card = np.array(json.dumps(stored.card, sort_keys=True))
    with path.open("xb") as file:
        arrays: dict[str, Any] = {**stored.arrays, CARD: card}
        np.savez(file, **arrays)
    return digest(path)


def read_network(named: NetworkFile) -> Stored:
    """Refuses a file that is missing, changed or not a network."""
    path = place(named)
    if not path.is_file():
        raise Refusal(f"{path}: the twin uses this network, but the file does not exist")
    found = digest(path)
    if found != named.digest:
        raise Refusal(
            f"{path}: is not the network that the twin was made with (its digest is {found}, the "
            f"twin has {named.digest}); learn it again with `sim2real learn`, or restore the file"
        )
    with np.load(path, allow_pickle=False) as content:
        arrays = {name: content[name] for name in content.files if name != CARD}
        card = json.loads(str(content[CARD]))
    return Stored(arrays, card)


def check_joints(stored: Stored, joints: tuple[str, ...], what: str) -> None:
    if tuple(stored.card.get("joints", ())) != joints:
        raise Refusal(f"{what}: was learnt on {stored.card.get('robot')}, not on this robot")


def place(named: NetworkFile) -> Path:
    """Beside the twins in config/, unless it is a path."""
    path = Path(named.file)
    return path if path.is_absolute() else paths.config_file(f"twins/{named.file}")


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:DIGEST_DIGITS]


def softsign(values: Weights) -> Weights:
    """Smooth enough here, and far cheaper than tanh."""
    return np.asarray(values / (1 + np.abs(values)), np.float32)


@compiled
def layer(values: Array, weights: Array, bias: Array, to: Array) -> None:
    """values @ weights + bias; the inner loop is contiguous in memory, so that it vectorises."""
    for h in range(bias.size):
        to[h] = bias[h]
    for i in range(weights.shape[0]):
        value = values[i]
        for h in range(bias.size):
            to[h] += value * weights[i, h]


@compiled
def squash(values: Array) -> None:
    """Softsign, in place."""
    for h in range(values.size):
        values[h] /= 1.0 + abs(values[h])


@compiled
def fading(values: Array, spread: Array, reach: float) -> float:
    """1 within the training data's `reach`, falling to 0 at 1.5 times that.

    `values` are centred; `spread` maps them to axes along which the data has unit variance.
    """
    square = 0.0
    for k in range(spread.shape[0]):
        along = 0.0
        for i in range(spread.shape[1]):
            along += spread[k, i] * values[i]
        square += along * along
    return float(min(max(3.0 - 2.0 * np.sqrt(square) / reach, 0.0), 1.0))
