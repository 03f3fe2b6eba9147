"""TorchScript to ONNX, with a network's hidden state made visible.

A recurrent policy exported as TorchScript keeps its state in buffers that it overwrites, or in
attributes that it sets anew; in ONNX each becomes an input and an output. The result is compared
with the original on random inputs before anyone sees it.
"""

import io
import warnings
from collections.abc import Mapping, Sequence
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
STATE_NAMES = ("h", "c", "s2", "s3")  # the first two as rsl_rl names them
LOST_STATE = "keeps a state in a way that cannot be followed; export it as ONNX"


def convert(path: Path, sizes: Sequence[int]) -> bytes:
    """The network as ONNX, with one input for each of `sizes`: obs[, obs1...][, h_in[, c_in]] in,
    actions[, h_out[, c_out]] out."""
    torch.set_num_threads(1)
    module = _load(path)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        states = _states(module, sizes, path)
        model = _export(module, states, sizes, path)
        _compare(module, states, model, path)
    return model


def shape(path: Path) -> tuple[dict[str, int], int]:
    """How many numbers its input takes, by name, and how many its action has: a size that one of
    its weights takes.

    Nothing where it has several inputs: which sizes belong together, weights do not tell."""
    module = _load(path)
    if len(list(module.graph.inputs())) != 2:  # itself and one more
        return {}, 0
    sizes = dict.fromkeys(w.shape[-1] for w in module.parameters() if w.dim() >= 1)
    with torch.no_grad():
        for size in sizes:
            try:
                given = module(torch.zeros(1, size))
            except (RuntimeError, torch.jit.Error):
                continue
            action = given[0] if isinstance(given, tuple) else given
            return {"obs": size}, action.shape[-1]
    return {}, 0


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


def _states(module: Any, sizes: Sequence[int], path: Path) -> dict[str, torch.Tensor]:
    """The buffers and attributes that a step changes, as at the start of a walk: all zeros."""
    if len(list(module.graph.inputs())) - 1 != len(sizes):
        raise Refusal(
            f"{path}: takes {len(list(module.graph.inputs())) - 1} inputs, the description "
            f"makes {len(sizes)}: the files do not tell what the network sees. Say so in a "
            "policy.yaml of your own: sim2real policy new --help"
        )
    names = {name for name, _ in module.named_buffers()}
    names |= {node.s("name") for node in module.inlined_graph.nodes() if _sets_attribute(node)}
    before = {name: _attribute(module, name).clone() for name in sorted(names)}
    try:
        module(*(torch.ones(1, size) for size in sizes))
    except (RuntimeError, torch.jit.Error) as error:
        numbers = " + ".join(str(size) for size in sizes)
        raise Refusal(
            f"{path}: does not take the {numbers} numbers that the description makes: "
            f"{str(error).strip().splitlines()[-1]}"
        ) from None
    states = {}
    for name, value in before.items():
        if not torch.equal(_attribute(module, name), value):
            states[name] = torch.zeros_like(value)
    if len(states) > len(STATE_NAMES):
        raise Refusal(
            f"{path}: keeps {len(states)} states ({', '.join(states)}), at most "
            f"{len(STATE_NAMES)} can be"
        )
    _reset(module, states)
    return states


def _sets_attribute(node: Any) -> bool:
    return bool(node.kind() == "prim::SetAttr")


def _attribute(module: Any, name: str) -> torch.Tensor:
    value: torch.Tensor = module
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _reset(module: Any, states: Mapping[str, torch.Tensor]) -> None:
    for name in states:
        _attribute(module, name).zero_()


def _export(
    module: Any, states: Mapping[str, torch.Tensor], sizes: Sequence[int], path: Path
) -> bytes:
    frozen = torch.jit.freeze(module, preserved_attrs=list(states), optimize_numerics=False)
    graph = frozen.forward.graph.copy()
    torch._C._jit_pass_inline(graph)
    assigned = _follow_assignments(graph)
    try:
        lowered: tuple[Any, list[Any]] = torch._C._jit_pass_lower_graph(graph, frozen._c)
    except RuntimeError:
        raise Refusal(f"{path}: {LOST_STATE}") from None
    graph, buffers = lowered
    _return_states(graph, len(sizes) + len(assigned), len(states) - len(assigned), path)
    first = [*(states[name] for name in assigned), *(torch.zeros_like(value) for value in buffers)]
    names = STATE_NAMES[: len(states)]
    inputs = ["obs", *(f"obs{i}" for i in range(1, len(sizes)))]
    file: Any = io.BytesIO()
    try:
        torch.onnx.export(
            torch._C._create_function_from_graph("policy", graph),
            (*(torch.zeros(1, size) for size in sizes), *first),
            file,
            dynamo=False,
            opset_version=OPSET,
            input_names=[*inputs, *(f"{name}_in" for name in names)],
            output_names=["actions", *(f"{name}_out" for name in names)],
        )
    except Exception as error:  # the exporter raises many kinds for what it cannot express
        raise Refusal(f"{path}: cannot be written as ONNX: {str(error).splitlines()[0]}") from None
    return bytes(file.getvalue())


def _follow_assignments(graph: Any) -> list[str]:
    """Attributes that are set become inputs, and what they are set to outputs; their names."""
    now: dict[str, Any] = {}
    names = {node.s("name") for node in graph.nodes() if _sets_attribute(node)}
    for name in sorted(names):
        now[name] = graph.addInput(f"state_{name}")
    for node in list(graph.nodes()):
        if _sets_attribute(node):
            now[node.s("name")] = list(node.inputs())[1]
            node.destroy()
        elif node.kind() == "prim::GetAttr" and node.s("name") in names:
            node.output().replaceAllUsesWith(now[node.s("name")])
            node.destroy()
    for value in now.values():
        graph.registerOutput(value)
    return list(now)


def _return_states(graph: Any, before: int, count: int, path: Path) -> None:
    """What the graph copies into a buffer's input becomes one more output; `before` inputs are
    no buffers."""
    inputs = [value.debugName() for value in graph.inputs()][before:]
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
    if len(list(graph.outputs())) > 1:
        graph.makeMultiOutputIntoTuple()
    torch._C._jit_pass_dce(graph)


def _compare(module: Any, states: Mapping[str, torch.Tensor], model: bytes, path: Path) -> None:
    session = open_network(model, path)
    feeds = {node.name: np.zeros(node.shape, np.float32) for node in session.get_inputs()}
    observations = [name for name in feeds if name.startswith("obs")]
    remembered = [name for name in feeds if name not in observations]
    random = np.random.default_rng(0)
    _reset(module, states)
    for step in range(STEPS):
        for name in observations:
            feeds[name] = np.asarray(random.standard_normal(feeds[name].shape), np.float32)
        action, *after = session.run(None, feeds)
        feeds.update(zip(remembered, after, strict=True))
        expected = module(*(torch.from_numpy(feeds[name]) for name in observations)).numpy()
        error = float(np.max(np.abs(action - expected) / (1.0 + np.abs(expected))))
        if not error <= TOLERANCE:
            raise Refusal(
                f"{path}: as ONNX it answers differently at step {step} (by {error:.2g}): "
                "the network keeps something that the conversion loses"
            )
