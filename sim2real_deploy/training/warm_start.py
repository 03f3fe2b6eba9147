"""Start from an exported policy: its weights, in networks that may be wider and see more.

New units have random input weights and zero output weights, so the actor acts like the old policy
at first.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import torch
from onnx import numpy_helper
from torch import nn

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.bundle import load_own_bundle
from sim2real_deploy.policy.contract import Term
from sim2real_deploy.policy.height_grid import grid_of
from sim2real_deploy.policy.terms import BY_JOINT, TERMS
from sim2real_deploy.training.config import TrainingConfig
from sim2real_deploy.training.ppo import Actor

Weights = dict[str, npt.NDArray[np.float32]]
Columns = npt.NDArray[np.int64]


def warm_start(actor: Actor, config: TrainingConfig) -> None:
    """Put the weights of the policy that the config names into a fresh actor."""
    name = config.network.warm_start
    assert name is not None
    bundle = load_own_bundle(name)
    contract = bundle.contract
    joints = len(contract.joints)
    terms = contract.observations[0].terms
    old, new = _shared_columns(terms, config.observation, joints)
    graph = onnx.load_from_string(bundle.model).graph
    weights: Weights = {
        tensor.name: numpy_helper.to_array(tensor).copy() for tensor in graph.initializer
    }
    if "feel_weight0" not in weights or "act_weight0" not in weights:
        raise Refusal(f"warm_start: '{name}' was not made by this trainer")
    seen = weights["feel_weight0"].shape[1]
    felt = next(weights[n].shape[0] for n in sorted(weights, reverse=True) if "feel_w" in n)
    _widen(actor.feel, "feel", weights, old, new)
    # The estimates follow the observation; the rest, the steering, is computed by the actor.
    old = np.concatenate([old, seen + np.arange(felt)])
    new = np.concatenate([new, _size(config.observation, joints) + np.arange(felt)])
    _widen(actor.act, "act", weights, old, new)


def _width(term: Term, joints: int) -> int:
    mirror, grid = TERMS[term.name].mirror, grid_of(term)
    if grid is not None:
        return len(grid.points)
    return joints if mirror is None or mirror == BY_JOINT else len(mirror)


def _size(terms: tuple[Term, ...], joints: int) -> int:
    return sum(_width(term, joints) * term.history for term in terms)


def _shared_columns(
    old: tuple[Term, ...], new: tuple[Term, ...], joints: int
) -> tuple[Columns, Columns]:
    """Columns of the values that both see, in the old and the new input: the newest frames."""
    pairs: list[tuple[int, int]] = []
    ends = {}
    end = 0
    for term in old:
        end += _width(term, joints) * term.history
        ends[term.name] = (end, term)
    end = 0
    for term in new:
        width = _width(term, joints)
        end += width * term.history
        if term.name not in ends:
            continue
        old_end, known = ends[term.name]
        if known.scale != term.scale or _shape(known) != _shape(term):
            raise Refusal(f"warm_start: the policy sees '{term.name}' in another way")
        shared = width * min(term.history, known.history)
        pairs += [(old_end - shared + i, end - shared + i) for i in range(shared)]
    columns = np.array(pairs, np.int64).reshape(-1, 2)
    return columns[:, 0], columns[:, 1]


def _shape(term: Term) -> dict[str, Any]:
    """What a term's values mean. A gait clock of another period is still a phase."""
    return {name: value for name, value in term.params.items() if name != "period"}


def _widen(network: nn.Sequential, name: str, weights: Weights, old: Columns, new: Columns) -> None:
    layers = [layer for layer in network if isinstance(layer, nn.Linear)]
    for i, layer in enumerate(layers):
        weight = torch.from_numpy(weights[f"{name}_weight{i}"])
        bias = torch.from_numpy(weights[f"{name}_bias{i}"])
        rows = len(bias)
        if i > 0:
            old = new = np.arange(weight.shape[1])
        if rows > layer.out_features or weight.shape[1] > layer.in_features + len(old):
            raise Refusal(f"warm_start: layer {i} of '{name}' is smaller than the policy's")
        with torch.no_grad():
            layer.weight[:rows] = 0
            layer.weight[:rows, new] = weight[:, old]
            layer.bias[:rows] = bias
