"""Writes a program for compiled_network.py, operation by operation.

The shape of every value is known, since a policy's batch is one. So a value is an array of its
numbers' places in the program's vector, and whatever only moves numbers (reshape, slice, gather,
concatenate) is done once, by doing it to the places.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sim2real_deploy.policy import compiled_network as ops
from sim2real_deploy.policy.compiled_network import LANES, Network
from sim2real_deploy.policy.onnx_graph import Node

Array = Any  # a numpy array
Ports = Sequence[tuple[str, tuple[int, ...]]]  # names and shapes
MOST_ROWS = 1000  # a program of more moves single numbers about: onnxruntime does that better
MOST_NUMBERS = 1_000_000  # in the vector: no policy has as many, but a hostile file may


class Inexpressible(Exception):
    """The network needs more than such programs have."""


class Builder:
    """The program's vector begins with `inputs`."""

    def __init__(self, inputs: Ports, constants: Mapping[str, Array]) -> None:
        self.size = 0
        self.rows: list[tuple[int, ...]] = []
        self.weights: list[Array] = []
        self.weights_size = 0
        self.constants = dict(constants)
        self.places: dict[str, Array] = {}  # of each value that is computed
        self.given: list[tuple[Array, Array]] = []  # places and values of constants in the vector
        for name, shape in inputs:
            self.places[name] = self.take(math.prod(shape)).reshape(shape)

    def network(self) -> Network:
        if len(self.rows) > MOST_ROWS:
            raise Inexpressible(f"it takes {len(self.rows)} operations")
        scratch = np.zeros(self.size, np.float32)
        for places, values in self.given:
            scratch[places] = values
        program = np.array(self.rows, np.int64).reshape(-1, ops.WEIGHTS + 1)
        return Network(program, np.concatenate([*self.weights, np.zeros(1, np.float32)]), scratch)

    def take(self, count: int) -> Array:
        """New places."""
        if self.size + count > MOST_NUMBERS:
            raise Inexpressible(f"it works on {self.size + count} numbers")
        self.size += count
        return np.arange(self.size - count, self.size)

    def of(self, name: str, shape: Sequence[int] = ()) -> Array:
        """The places of a value; a constant is put into the vector, repeated to fill `shape`."""
        if name in self.places:
            return self.places[name]
        values = self.constants[name]
        if values.dtype != np.float32:
            raise Inexpressible(f"'{name}' is not in single precision")
        values = np.broadcast_to(values, np.broadcast_shapes(values.shape, shape))
        self.given.append((self.take(values.size).reshape(values.shape), values))
        return self.given[-1][0]

    def constant(self, node: Node, place: int, attribute: str = "", default: Any = None) -> Any:
        """An attribute, or since a later version of the operation an input, which must be known."""
        if attribute in node.attributes:
            return node.attributes[attribute]
        if place >= len(node.inputs) or not node.inputs[place]:
            return default
        return self.constants[node.inputs[place]]

    def told(self, node: Node, *states: Array) -> None:
        """A recurrent layer's outputs: all its steps, of which there is one, then its states."""
        values = [states[0].reshape(1, *states[0].shape), *states]
        self.places.update(zip(node.outputs, values, strict=False))

    def keep(self, *weights: Array) -> int:
        """Their place among the weights."""
        start = self.weights_size
        for values in weights:
            self.weights.append(np.asarray(values, np.float32).ravel())
            self.weights_size += self.weights[-1].size
        return start

    def row(self, operation: int, to: int, count: int, first: int, *rest: int) -> None:
        self.rows.append((operation, to, count, first, *rest, *(0,) * (2 - len(rest))))

    def copy(self, places: Array, to: int) -> None:
        """In as few stretches as possible."""
        cuts = np.flatnonzero(np.diff(places) != 1) + 1
        for stretch in np.split(places, cuts):
            if stretch.size:
                self.row(ops.COPY, to, stretch.size, stretch[0])
                to += stretch.size

    def start(self, places: Array) -> int:
        """The first of places in a row; they are brought together if they are apart."""
        if places.size > MOST_NUMBERS:
            raise Inexpressible(f"it repeats a number {places.size} times")
        flat = places.ravel()
        if flat.size and np.any(np.diff(flat) != 1):
            together = self.take(flat.size)[0]
            self.copy(flat, together)
            return int(together)
        return int(flat[0])

    def matrix(self, x: Array, columns: Array, bias: Array) -> Array:
        """x @ columns + bias."""
        inputs, outputs = columns.shape
        if x.size != inputs or x.shape[-1] != inputs:
            raise Inexpressible("a product of two matrices")
        room = -outputs % LANES
        rows = np.zeros((inputs + 1, outputs + room), np.float32)
        rows[0, :outputs], rows[1:, :outputs] = bias, columns
        first, at = self.start(x), self.keep(rows)
        places = self.take(outputs + room)
        self.row(ops.MATRIX, places[0], outputs + room, first, inputs, at)
        return places[:outputs].reshape(*x.shape[:-1], outputs)

    def each(self, operation: int, *operands: Array, parameters: Sequence[float] = ()) -> Array:
        """An operation on each number, or pair of numbers."""
        operands = tuple(np.broadcast_arrays(*operands))
        firsts, at = [self.start(each) for each in operands], self.keep(*parameters)
        places = self.take(operands[0].size)
        second = firsts[1] if len(firsts) > 1 else 0
        self.row(operation, places[0], places.size, firsts[0], second, at)
        return places.reshape(operands[0].shape)
