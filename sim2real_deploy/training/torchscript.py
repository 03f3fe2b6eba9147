"""TorchScript to ONNX, with a network's hidden state made visible.

A recurrent policy exported as TorchScript keeps its state in buffers that it changes itself; in
ONNX those become an input and an output. The result is compared with the original on random
inputs before anyone sees it.
"""

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.onnx_file import open_network

OPSET = 17
STEPS = 20  # compared, in one run, so that a lost state shows
TOLERANCE = 1e-4
NAMESPACES = ("aten::", "prim::")
FORBIDDEN = ("aten::save", "aten::from_file")  # operators that reach for the disk
STATE_NAMES = ("h", "c")
LOST_STATE = "keeps a state in a way that cannot be followed; export it as ONNX"


def convert(path: Path, observation_size: int) -> bytes:
    """The network as ONNX: inputs obs[, h_in[, c_in]], outputs actions[, h_out[, c_out]]."""
    torch.set_num_threads(1)
    module = _load(path)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        states = _changed_buffers(module, observation_size, path)
        model = _export(module, states, observation_size, path)
        _compare(module, states, model, observation_size, path)
    return model


def _load(path: Path) -> Any:
    try:
        module = torch.jit.load(str(path), map_location="cpu").eval()  # type: ignore[no-untyped-call]
    except (RuntimeError, ValueError) as error:
        raise Refusal(
            f"{path}: not a TorchScript file (a training checkpoint must be exported first): "
            f"{str(error).splitlines()[0]}"
        ) from None
    for kind in _kinds(module.inlined_graph):
        if not kind.startswith(NAMESPACES) or kind in FORBIDDEN:
            raise Refusal(f"{path}: holds the operator {kind}, which no policy needs")
    return module


def _kinds(block: Any) -> set[str]:
    kinds = set()
    for node in block.nodes():
        kinds.add(node.kind())
        for inner in node.blocks():
            kinds |= _kinds(inner)
    return kinds


def _changed_buffers(module: Any, size: int, path: Path) -> list[str]:
    """The buffers that a step changes; all set to zero, as at the start of a walk."""
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    try:
        module(torch.ones(1, size))
    except RuntimeError as error:
        raise Refusal(
            f"{path}: does not take the {size} numbers that the description makes: "
            f"{str(error).strip().splitlines()[-1]}"
        ) from None
    changed = []
    for name, buffer in module.named_buffers():
        if not torch.equal(buffer, before[name]):
            changed.append(name)
            buffer.zero_()
    if len(changed) > len(STATE_NAMES):
        raise Refusal(
            f"{path}: keeps {len(changed)} states ({', '.join(changed)}), at most 2 can be"
        )
    return changed


def _export(module: Any, states: list[str], size: int, path: Path) -> bytes:
    frozen = torch.jit.freeze(module, preserved_attrs=states, optimize_numerics=False)
    graph = frozen.forward.graph.copy()
    torch._C._jit_pass_inline(graph)
    try:
        lowered: tuple[Any, list[Any]] = torch._C._jit_pass_lower_graph(graph, frozen._c)
    except RuntimeError:
        raise Refusal(f"{path}: {LOST_STATE}") from None
    graph, buffers = lowered
    _return_states(graph, len(states), path)
    names = STATE_NAMES[: len(states)]
    file: Any = io.BytesIO()
    try:
        torch.onnx.export(
            torch._C._create_function_from_graph("policy", graph),
            (torch.zeros(1, size), *(torch.zeros_like(buffer) for buffer in buffers)),
            file,
            dynamo=False,
            opset_version=OPSET,
            input_names=["obs", *(f"{name}_in" for name in names)],
            output_names=["actions", *(f"{name}_out" for name in names)],
        )
    except Exception as error:  # the exporter raises many kinds for what it cannot express
        raise Refusal(f"{path}: cannot be written as ONNX: {str(error).splitlines()[0]}") from None
    return bytes(file.getvalue())


def _return_states(graph: Any, count: int, path: Path) -> None:
    """What the graph copies into a state's input becomes one more output of it."""
    inputs = [value.debugName() for value in graph.inputs()][1:]
    written: dict[str, Any] = {}
    for node in list(graph.nodes()):
        if node.kind() != "aten::copy_":
            continue
        target, value = list(node.inputs())[:2]
        while target.node().kind() == "aten::slice":
            target = next(target.node().inputs())
        if target.debugName() in inputs and not node.output().uses():
            written[target.debugName()] = value
            node.destroy()
    if len(inputs) != count or len(written) != count:
        raise Refusal(f"{path}: {LOST_STATE}")
    for name in inputs:
        graph.registerOutput(written[name])
    if inputs:
        graph.makeMultiOutputIntoTuple()
    torch._C._jit_pass_dce(graph)


def _compare(module: Any, states: list[str], model: bytes, size: int, path: Path) -> None:
    session = open_network(model, path)
    feeds = {node.name: np.zeros(node.shape, np.float32) for node in session.get_inputs()}
    random = np.random.default_rng(0)
    for name, buffer in module.named_buffers():
        if name in states:
            buffer.zero_()
    for step in range(STEPS):
        feeds["obs"] = random.standard_normal((1, size)).astype(np.float32)
        action, *after = session.run(None, feeds)
        feeds.update(zip(list(feeds)[1:], after, strict=True))
        expected = module(torch.from_numpy(feeds["obs"])).numpy()
        error = float(np.max(np.abs(action - expected) / (1.0 + np.abs(expected))))
        if not error <= TOLERANCE:
            raise Refusal(
                f"{path}: as ONNX it answers differently at step {step} (by {error:.2g}): "
                "the network keeps something that the conversion loses"
            )
