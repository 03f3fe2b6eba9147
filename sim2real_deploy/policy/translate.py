"""From an ONNX graph to a program for compiled_network.py: each operation in terms of its own."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sim2real_deploy.policy import compiled_network as ops
from sim2real_deploy.policy.compiled_network import Network
from sim2real_deploy.policy.network_builder import Builder, Inexpressible, Ports
from sim2real_deploy.policy.onnx_graph import Node, read_graph

Array = Any  # a numpy array
MOST_NORMALISED = 2048  # numbers, since their mean is a matrix of so many rows and columns


def translate(model: bytes, inputs: Ports, outputs: Ports) -> Network:
    """The program's vector begins with the inputs, then the outputs, in the order given."""
    try:
        return _translate(model, inputs, outputs)
    except (LookupError, TypeError, ValueError) as error:
        raise Inexpressible(f"{type(error).__name__}: {error}") from None


def _translate(model: bytes, inputs: Ports, outputs: Ports) -> Network:
    graph = read_graph(model)
    builder = Builder(inputs, graph.constants)
    ends = [(name, builder.take(math.prod(shape))) for name, shape in outputs]
    needed, nodes = {name for name, _ in outputs}, list[Node]()
    for node in reversed(graph.nodes):
        if needed & {*node.outputs}:
            needed |= {*node.inputs}
            nodes.append(node)
    for node in reversed(nodes):
        if node.operation not in OPERATIONS:
            raise Inexpressible(f"it has a {node.operation}")
        OPERATIONS[node.operation](builder, node)
    for name, end in ends:
        found = builder.of(name).ravel()
        if len(found) != len(end):
            raise Inexpressible(f"'{name}' has another size")
        builder.copy(found, end[0])
    return builder.network()


def _gemm(build: Builder, node: Node) -> None:
    told = node.attributes
    if told.get("transA"):
        raise Inexpressible("a product with its input transposed")
    columns = build.constants[node.inputs[1]] * np.float32(told.get("alpha", 1.0))
    columns = columns.T if told.get("transB") else columns
    bias = build.constant(node, 2, default=np.float32(0)) * np.float32(told.get("beta", 1.0))
    build.places[node.outputs[0]] = build.matrix(build.of(node.inputs[0]), columns, bias)


def _matmul(build: Builder, node: Node) -> None:
    columns = build.constants[node.inputs[1]]
    build.places[node.outputs[0]] = build.matrix(build.of(node.inputs[0]), columns, np.float32(0))


def _length(build: Builder, node: Node) -> None:
    x, axes = build.of(node.inputs[0]), build.constant(node, 1, "axes")
    if x.shape[-1] != x.size or [axis % x.ndim for axis in axes] != [x.ndim - 1]:
        raise Inexpressible("lengths of several vectors")
    squares, ones = build.each(ops.MULTIPLY, x, x), np.ones((x.size, 1), np.float32)
    found = build.each(ops.ROOT, build.matrix(squares, ones, np.float32(0)))
    build.places[node.outputs[0]] = found if node.attributes.get("keepdims", 1) else found[..., 0]


def _layer_normalization(build: Builder, node: Node) -> None:
    """Each number gets the mean by a matrix, and so does each square."""
    x, scale = build.of(node.inputs[0]), build.constants[node.inputs[1]]
    if scale.shape != (x.size,) or x.size > MOST_NORMALISED:
        raise Inexpressible("layers normalised together")
    mean = np.full((x.size, x.size), 1 / x.size, np.float32)
    apart = build.each(ops.SUBTRACT, x, build.matrix(x, mean, np.float32(0)))
    squares = build.each(ops.MULTIPLY, apart, apart)
    spread = build.each(ops.ROOT, build.matrix(squares, mean, node.attributes.get("epsilon", 1e-5)))
    found = build.each(ops.DIVIDE, apart, spread)
    for operation, name in zip((ops.MULTIPLY, ops.ADD), node.inputs[1:], strict=False):
        found = build.each(operation, found, build.of(name, found.shape))
    build.places[node.outputs[0]] = found


def _cell(build: Builder, node: Node) -> tuple[Array, Array, list[Array]]:
    """Of a recurrent layer that makes one step: input, state, and its matrices and biases, first
    for the input, then for the state."""
    if node.attributes.keys() - {"hidden_size", "linear_before_reset", "direction"}:
        raise Inexpressible(f"a {node.operation} with {', '.join(node.attributes)}")
    x, count = build.of(node.inputs[0]), node.attributes["hidden_size"]
    if x.shape[:2] != (1, 1) or node.attributes.get("direction", "forward") != "forward":
        raise Inexpressible(f"a {node.operation} of several steps")
    (columns,), (again,) = (build.constants[name].swapaxes(1, 2) for name in node.inputs[1:3])
    biases = build.constant(node, 3, default=np.zeros((1, 2 * again.shape[1]), np.float32))
    state = build.of(node.inputs[5], (1, 1, count))
    return x, state, [columns, again, *np.split(biases[0], 2)]


def _lstm(build: Builder, node: Node) -> None:
    x, h, (columns, again, bias, more) = _cell(build, node)
    both = build.matrix(np.concatenate([x, h], 2), np.concatenate([columns, again]), bias + more)
    i, o, f, c = np.split(both, 4, 2)
    gate, g = build.each(ops.SIGMOID, np.concatenate([i, o, f], 2)), build.each(ops.TANH, c)
    i, o, f = np.split(gate, 3, 2)
    kept = build.each(ops.MULTIPLY, f, build.of(node.inputs[6], f.shape))
    c = build.each(ops.ADD, kept, build.each(ops.MULTIPLY, i, g))
    build.told(node, build.each(ops.MULTIPLY, o, build.each(ops.TANH, c)), c)


def _gru(build: Builder, node: Node) -> None:
    if not node.attributes.get("linear_before_reset"):
        raise Inexpressible("a GRU that resets before its matrix")
    x, h, (columns, again, bias, more) = _cell(build, node)
    size = h.shape[2]
    seen, known = build.matrix(x, columns, bias), build.matrix(h, again, more)
    z, r = np.split(
        build.each(ops.SIGMOID, build.each(ops.ADD, seen[..., :-size], known[..., :-size])), 2, 2
    )
    recalled = build.each(ops.MULTIPLY, r, known[..., -size:])
    n = build.each(ops.TANH, build.each(ops.ADD, seen[..., -size:], recalled))
    moved = build.each(ops.MULTIPLY, z, build.each(ops.SUBTRACT, h, n))
    build.told(node, build.each(ops.ADD, n, moved))


def _each(operation: int, *parameters: Callable[[Builder, Node], float]) -> Any:
    def add(build: Builder, node: Node) -> None:
        found = [np.asarray(parameter(build, node)).item() for parameter in parameters]
        first = build.of(node.inputs[0])
        build.places[node.outputs[0]] = build.each(operation, first, parameters=found)

    return add


def _pair(operation: int) -> Any:
    def add(build: Builder, node: Node) -> None:
        shapes = [build.places[name].shape for name in node.inputs if name in build.places]
        both = [build.of(name, shapes[0]) for name in node.inputs]
        build.places[node.outputs[0]] = build.each(operation, *both)

    return add


def _told(attribute: str, default: float, place: int = 9) -> Callable[[Builder, Node], float]:
    """A parameter by its attribute, or the input in its place."""
    return lambda build, node: build.constant(node, place, attribute, default)


def _moves(move: Callable[..., Any]) -> Any:
    """`move` of the first input, as an array, with what else the node says."""

    def add(build: Builder, node: Node) -> None:
        source, target = node.inputs[0], node.outputs[0]
        kind = build.places if source in build.places else build.constants
        kind[target] = move(kind[source], build, node)

    return add


def _reshape(array: Array, build: Builder, node: Node) -> Array:
    shape = [int(size) for size in build.constants[node.inputs[1]]]
    if not node.attributes.get("allowzero"):
        shape = [size or array.shape[i] for i, size in enumerate(shape)]
    return array.reshape(shape)


def _flatten(array: Array, build: Builder, node: Node) -> Array:
    axis = node.attributes.get("axis", 1)
    return array.reshape(math.prod(array.shape[:axis]), -1)


def _squeeze(array: Array, build: Builder, node: Node) -> Array:
    axes = build.constant(node, 1, "axes")
    return np.squeeze(array, None if axes is None else tuple(map(int, axes)))


def _unsqueeze(array: Array, build: Builder, node: Node) -> Array:
    return np.expand_dims(array, tuple(map(int, build.constant(node, 1, "axes"))))


def _transpose(array: Array, build: Builder, node: Node) -> Array:
    return np.transpose(array, node.attributes.get("perm"))


def _slice(array: Array, build: Builder, node: Node) -> Array:
    starts, ends = build.constant(node, 1, "starts"), build.constant(node, 2, "ends")
    axes = build.constant(node, 3, "axes", range(len(starts)))
    steps = build.constant(node, 4, "steps", [1] * len(starts))
    cut = [slice(None)] * array.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step < 0:
            raise Inexpressible("a slice that runs backwards")
        cut[axis] = slice(int(start), int(end), int(step))
    return array[tuple(cut)]


def _expand(array: Array, build: Builder, node: Node) -> Array:
    shape = tuple(map(int, build.constants[node.inputs[1]]))
    return np.broadcast_to(array, np.broadcast_shapes(array.shape, shape))


def _gather(array: Array, build: Builder, node: Node) -> Array:
    return np.take(array, build.constants[node.inputs[1]], node.attributes.get("axis", 0))


def _cast(array: Array, build: Builder, node: Node) -> Array:
    wanted = {1: np.float32, 6: np.int32, 7: np.int64}[node.attributes["to"]]
    if node.inputs[0] in build.places:
        if wanted is not np.float32:
            raise Inexpressible("a conversion to another type")
        return array
    return array.astype(wanted)


def _split(build: Builder, node: Node) -> None:
    array, axis = build.of(node.inputs[0]), node.attributes.get("axis", 0)
    sizes = build.constant(node, 1, "split")
    if sizes is None:
        length, parts = array.shape[axis], len(node.outputs)
        most = -(-length // parts)
        sizes = [min(most, length - most * i) for i in range(parts)]
    for name, piece in zip(node.outputs, np.split(array, np.cumsum(sizes)[:-1], axis), strict=True):
        build.places[name] = piece


def _concat(build: Builder, node: Node) -> None:
    known = all(name in build.constants for name in node.inputs)
    arrays = [build.constants[name] if known else build.of(name) for name in node.inputs]
    found = np.concatenate(arrays, node.attributes["axis"])
    (build.constants if known else build.places)[node.outputs[0]] = found


def _constant(build: Builder, node: Node) -> None:
    ((name, value),) = node.attributes.items()
    kind = {"value": None, "value_float": np.float32}.get(name, np.int64)
    build.constants[node.outputs[0]] = np.asarray(value, kind)


def _shape(build: Builder, node: Node) -> None:
    build.constants[node.outputs[0]] = np.array(build.of(node.inputs[0]).shape, np.int64)


OPERATIONS: Mapping[str, Callable[[Builder, Node], None]] = {
    "Gemm": _gemm,
    "MatMul": _matmul,
    "LSTM": _lstm,
    "GRU": _gru,
    "Add": _pair(ops.ADD),
    "Sub": _pair(ops.SUBTRACT),
    "Mul": _pair(ops.MULTIPLY),
    "Div": _pair(ops.DIVIDE),
    "Relu": _each(ops.LIMIT, lambda *_: 0.0, lambda *_: math.inf),
    "Clip": _each(ops.LIMIT, _told("min", -math.inf, 1), _told("max", math.inf, 2)),
    "LeakyRelu": _each(ops.LEAK, _told("alpha", 0.01)),
    "Elu": _each(ops.ELU, _told("alpha", 1.0)),
    "Sigmoid": _each(ops.SIGMOID),
    "Tanh": _each(ops.TANH),
    "Sqrt": _each(ops.ROOT),
    "ReduceL2": _length,
    "LayerNormalization": _layer_normalization,
    "Identity": _moves(lambda array, *_: array),
    "Dropout": _moves(lambda array, *_: array),
    "Reshape": _moves(_reshape),
    "Flatten": _moves(_flatten),
    "Squeeze": _moves(_squeeze),
    "Unsqueeze": _moves(_unsqueeze),
    "Transpose": _moves(_transpose),
    "Slice": _moves(_slice),
    "Expand": _moves(_expand),
    "Gather": _moves(_gather),
    "Cast": _moves(_cast),
    "Split": _split,
    "Concat": _concat,
    "Constant": _constant,
    "Shape": _shape,
}
