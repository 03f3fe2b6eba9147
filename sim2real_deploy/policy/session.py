"""A policy's network with its inputs and outputs in fixed places.

Most networks are translated and run in our own loops (compiled_network.py), with the same bits on
every machine. onnxruntime is the reference they are compared with when they are opened; it runs
those that cannot be translated or do not agree, and all where numba is not installed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import onnxruntime

from sim2real_deploy.compiled import AVAILABLE
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.compiled_network import Network, execute
from sim2real_deploy.policy.contract import Contract
from sim2real_deploy.policy.estimates import estimates_of
from sim2real_deploy.policy.network_builder import Inexpressible
from sim2real_deploy.policy.onnx_file import open_network
from sim2real_deploy.policy.translate import translate
from sim2real_deploy.robots.state import Floats

SPREADS = np.geomspace(0.1, 10.0, 20)  # of the random inputs on which the two must agree
AGREEMENT = 1e-4  # as of golden steps; it is usually 1e-6


class Port(NamedTuple):
    """An input or output of a network."""

    name: str
    shape: tuple[int, ...]


class Session:
    """The caller writes into `inputs`, the parts of `observation`; `run` fills `action`, and
    `estimates`, the outputs beside it that are named in `told`. Keeps network states."""

    def __init__(self, model: bytes, contract: Contract, sizes: Mapping[str, int], where: str):
        """`sizes`: how many numbers each input observes."""
        onnx = open_network(model, where)
        self.metadata: Mapping[str, str] = onnx.get_modelmeta().custom_metadata_map
        self.told = estimates_of(contract, {node.name: _count(node) for node in onnx.get_outputs()})
        fed, filled = self._ports(contract, sizes, onnx, where)
        network, self.why_onnx = _translated(model, fed, filled)  # "": our own loops run it
        observed, states = sum(sizes.values()), sum(map(_size, fed[len(sizes) :]))
        told = sum(len(estimate.names) for estimate in self.told)
        ends = [*accumulate((observed, states, len(contract.joints), told, states))]
        memory = np.zeros(ends[-1], np.float32) if network is None else network.scratch
        parts = np.split(memory, ends)
        self.observation, self.before, self.action, self.estimates, self.after, _ = parts
        self.inputs = dict(zip(sizes, _split(self.observation, fed[: len(sizes)]), strict=True))
        goes_in, comes_out = memory[: ends[1]], memory[ends[1] : ends[-1]]
        onnxs = _onnxs_run(onnx, fed, goes_in, filled, comes_out)
        self.network: Network | None = None  # what compiled loops can run, too
        self._compute = onnxs
        if network is not None:
            ours = partial(execute, *network)
            if _agree(ours, onnxs, goes_in, comes_out):
                self.network, self._compute = network, ours
            else:
                self.why_onnx = "our own loops get other results"
        self.reset()

    def reset(self) -> None:
        for buffer in (self.observation, self.action, self.estimates, self.before):
            buffer.fill(0.0)

    def run(self) -> None:
        self._compute()
        np.copyto(self.before, self.after)

    def _ports(
        self,
        contract: Contract,
        sizes: Mapping[str, int],
        onnx: onnxruntime.InferenceSession,
        where: str,
    ) -> tuple[list[Port], list[Port]]:
        """What the contract feeds and reads, and in which shapes: inputs, then states; the action,
        estimates, then states."""
        wanted = {node.name: node for node in onnx.get_inputs()}
        given = {node.name: node for node in onnx.get_outputs()}
        names = sizes.keys() | {state.input for state in contract.recurrence}
        if names != wanted.keys():
            raise Refusal(
                f"{where}: observations: the contract feeds the inputs {sorted(names)}, "
                f"the network wants {sorted(wanted)}"
            )
        action = contract.action.output
        needed = [("action", action, len(contract.joints))]
        needed += [(f"estimates.{i}", x.output, len(x.names)) for i, x in enumerate(self.told)]
        fed = [
            _port(wanted[group.input], sizes[group.input], f"{where}: observations.{i}")
            for i, group in enumerate(contract.observations)
        ]
        for i, state in enumerate(contract.recurrence):
            size = _count(wanted[state.input])
            fed.append(_port(wanted[state.input], size, f"{where}: recurrence.{i}.input"))
            needed.append((f"recurrence.{i}", state.output, size))
        filled = []
        for key, name, size in needed:
            if name not in given:
                told = f"the network has no output '{name}'; it has: {', '.join(given)}"
                raise Refusal(f"{where}: {key}.output: {told}")
            filled.append(_port(given[name], size, f"{where}: {key}.output"))
        return fed, filled


def _translated(
    model: bytes, fed: Sequence[Port], filled: Sequence[Port]
) -> tuple[Network | None, str]:
    """The network for our own loops; or none, and why."""
    if not AVAILABLE:
        return None, "numba is not installed"
    try:
        return translate(model, fed, filled), ""
    except Inexpressible as why:
        return None, str(why)


def _onnxs_run(
    onnx: onnxruntime.InferenceSession,
    fed: Sequence[Port],
    goes_in: Floats,
    filled: Sequence[Port],
    comes_out: Floats,
) -> Callable[[], None]:
    """The network in onnxruntime, from and to the same memory."""
    places = zip(fed, _split(goes_in, fed), strict=True)
    feeds = {port.name: place.reshape(port.shape) for port, place in places}
    names, results = [port.name for port in filled], _split(comes_out, filled)

    def run() -> None:
        for place, found in zip(results, onnx.run(names, feeds), strict=True):
            place[:] = found.ravel()

    return run


def _agree(
    ours: Callable[[], None], onnxs: Callable[[], None], goes_in: Floats, comes_out: Floats
) -> bool:
    random = np.random.default_rng(0)
    for spread in SPREADS:
        goes_in[:] = random.normal(0.0, spread, goes_in.size)
        onnxs()
        expected = comes_out.copy()
        ours()
        if not np.allclose(comes_out, expected, AGREEMENT, AGREEMENT, equal_nan=True):
            return False
    return True


def _split(memory: Floats, ports: Sequence[Port]) -> list[Floats]:
    return np.split(memory, [*accumulate(map(_size, ports))])[:-1]


def _size(port: Port) -> int:
    return math.prod(port.shape)


def _shape(node: onnxruntime.NodeArg) -> tuple[int, ...]:
    """The node's shape, with a dynamic batch size as 1."""
    return tuple(dim if isinstance(dim, int) and dim > 0 else 1 for dim in node.shape)


def _count(node: onnxruntime.NodeArg) -> int:
    return math.prod(_shape(node))


def _port(node: onnxruntime.NodeArg, size: int, where: str) -> Port:
    """One whose numbers are those that the contract has."""
    if node.type != "tensor(float)":
        raise Refusal(f"{where}: '{node.name}' is {node.type}, only float32 is supported")
    if _count(node) != size:
        raise Refusal(
            f"{where}: '{node.name}' of the network has {_count(node)} numbers "
            f"{list(node.shape)}, the contract has {size}"
        )
    return Port(node.name, _shape(node))
