"""An ONNX network with its inputs and outputs bound to fixed buffers."""

import math
from collections.abc import Mapping

import numpy as np
import onnxruntime

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.c_network import CNetwork, CNetworkError, Tensor
from sim2real_deploy.policy.contract import Contract
from sim2real_deploy.policy.estimates import estimates_of
from sim2real_deploy.policy.onnx_file import open_network
from sim2real_deploy.robots.state import Floats

WARM_UP_RUNS = 20


class Session:
    """Reads `inputs` where the caller writes them; `run` fills `action` and `estimates`,
    the outputs beside it that are named in `told`. Keeps network states."""

    def __init__(self, model: bytes, contract: Contract, inputs: Mapping[str, Floats], where: str):
        self._model = model
        self._session = open_network(model, where)
        self.metadata: Mapping[str, str] = self._session.get_modelmeta().custom_metadata_map
        self._binding = self._session.io_binding()
        self.inputs = inputs
        self._fed: list[Tensor] = []
        self._filled: list[Tensor] = []
        wanted = {node.name: node for node in self._session.get_inputs()}
        given = {node.name: node for node in self._session.get_outputs()}
        told = inputs.keys() | {state.input for state in contract.recurrence}
        if told != wanted.keys():
            raise Refusal(
                f"{where}: observations: the contract feeds the inputs {sorted(told)}, "
                f"the network wants {sorted(wanted)}"
            )
        for i, group in enumerate(contract.observations):
            values = inputs[group.input]
            self._bind_input(wanted[group.input], values, f"{where}: observations.{i}")
        self._open_states(contract, wanted, given, where)
        action = contract.action.output
        if action not in given:
            raise Refusal(
                f"{where}: action.output: the network has no output '{action}'; "
                f"it has: {', '.join(given)}"
            )
        self.action = np.zeros(len(contract.joints), np.float32)
        self._bind_output(given[action], self.action, f"{where}: action.output")
        self.told = estimates_of(contract, {name: _count(node) for name, node in given.items()})
        self.estimates = np.zeros(sum(len(estimate.names) for estimate in self.told), np.float32)
        self._bind_estimates(given, where)
        bound = {action, *(state.output for state in contract.recurrence)}
        bound |= {estimate.output for estimate in self.told}
        for name in given.keys() - bound:
            self._binding.bind_output(name)
            self._filled.append(Tensor(name, (), None))
        for _ in range(WARM_UP_RUNS):
            self.run()
        self.reset()

    def reset(self) -> None:
        for buffer in (*self.inputs.values(), self.action, self.estimates, self.before):
            buffer.fill(0.0)

    def run(self) -> None:
        self._session.run_with_iobinding(self._binding)
        np.copyto(self.before, self.after)

    def rehearse(self) -> None:
        """Run the network without advancing its recurrent state."""
        self._session.run_with_iobinding(self._binding)

    def compile(self) -> CNetwork | None:
        """The same network on the same buffers for compiled loops; None where that cannot be, or
        where its outputs are not equal bit for bit. Clears inputs and states."""
        random = np.random.default_rng(0)
        try:
            network = CNetwork(self._model, self._fed, self._filled)
            for _ in range(WARM_UP_RUNS):
                for buffer in (*self.inputs.values(), self.before):
                    buffer[:] = random.normal(0.0, 1.0, buffer.size)
                found = []
                for run in (self.rehearse, network.run):
                    run()
                    results = self.action, self.estimates, self.after
                    found.append([values.tobytes() for values in results])
                if found[0] != found[1]:
                    return None
        except CNetworkError:
            return None
        finally:
            self.reset()
        return network

    def _open_states(
        self,
        contract: Contract,
        wanted: Mapping[str, onnxruntime.NodeArg],
        given: Mapping[str, onnxruntime.NodeArg],
        where: str,
    ) -> None:
        """Network states before and after a step, all in one array each."""
        sizes = [_count(wanted[state.input]) for state in contract.recurrence]
        self.before, self.after = np.zeros((2, sum(sizes)), np.float32)
        start = 0
        for i, (state, size) in enumerate(zip(contract.recurrence, sizes, strict=True)):
            key, place = f"{where}: recurrence.{i}", slice(start, start + size)
            if state.output not in given:
                raise Refusal(f"{key}.output: the network has no output '{state.output}'")
            self._bind_input(wanted[state.input], self.before[place], f"{key}.input")
            self._bind_output(given[state.output], self.after[place], f"{key}.output")
            start += size

    def _bind_estimates(self, given: Mapping[str, onnxruntime.NodeArg], where: str) -> None:
        start = 0
        for i, estimate in enumerate(self.told):
            key, end = f"{where}: estimates.{i}", start + len(estimate.names)
            if estimate.output not in given:
                raise Refusal(f"{key}.output: the network has no output '{estimate.output}'")
            self._bind_output(given[estimate.output], self.estimates[start:end], key)
            start = end

    def _bind_input(self, node: onnxruntime.NodeArg, values: Floats, where: str) -> None:
        shape = _checked_shape(node, values, where)
        self._binding.bind_input(node.name, "cpu", 0, np.float32, shape, values.ctypes.data)
        self._fed.append(Tensor(node.name, shape, values))

    def _bind_output(self, node: onnxruntime.NodeArg, values: Floats, where: str) -> None:
        shape = _checked_shape(node, values, where)
        self._binding.bind_output(node.name, "cpu", 0, np.float32, shape, values.ctypes.data)
        self._filled.append(Tensor(node.name, shape, values))


def _shape(node: onnxruntime.NodeArg) -> tuple[int, ...]:
    """The node's shape, with a dynamic batch size as 1."""
    return tuple(dim if isinstance(dim, int) and dim > 0 else 1 for dim in node.shape)


def _count(node: onnxruntime.NodeArg) -> int:
    return math.prod(_shape(node))


def _checked_shape(node: onnxruntime.NodeArg, values: Floats, where: str) -> tuple[int, ...]:
    if node.type != "tensor(float)":
        raise Refusal(f"{where}: '{node.name}' is {node.type}, only float32 is supported")
    if _count(node) != values.size:
        raise Refusal(
            f"{where}: '{node.name}' of the network has {_count(node)} numbers "
            f"{list(node.shape)}, the contract has {values.size}"
        )
    return _shape(node)
