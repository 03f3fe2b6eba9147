"""The network's inputs: observation terms, scaled, clipped and with history.

Each input is one flat buffer that the network reads in place.
"""

import inspect
import math
import struct
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.contract import Group, Term
from sim2real_deploy.policy.terms import TERMS, Scalar, TermInput
from sim2real_deploy.robots.state import Floats
from sim2real_deploy.robots.vectors import clip


class TermRow:
    """One term of an input, with its function, scale, clip and history."""

    def __init__(self, term: Term, nothing: TermInput, where: str):
        self.name = term.name
        self.history = term.history
        self.function = _bind(term, where)
        try:
            self.size = len(self.function(nothing))
        except (TypeError, ValueError, IndexError, ZeroDivisionError) as error:
            raise Refusal(f"{where}.params: {error}") from None
        scale = term.scale
        self.scale = tuple(scale) if isinstance(scale, Sequence) else (scale,) * self.size
        if len(self.scale) != self.size:
            raise Refusal(f"{where}.scale: {len(self.scale)} values for {self.size} numbers")
        if term.clip is not None and not term.clip[0] < term.clip[1]:
            raise Refusal(f"{where}.clip: {term.clip[0]} is not below {term.clip[1]}")
        self.bounds = [term.clip or (-math.inf, math.inf)] * self.size


class Observation:
    """One network input: its terms, each with its history, in one flat buffer.

    The newest values of all terms are computed together, then copied to each term's place.
    """

    def __init__(self, group: Group, nothing: TermInput, joint_names: tuple[str, ...], where: str):
        self.group = group
        self.terms = [
            TermRow(term, nothing, f"{where}.terms.{i}") for i, term in enumerate(group.terms)
        ]
        histories = {term.history for term in self.terms}
        if group.layout == "by_frame" and len(histories) > 1:
            raise Refusal(f"{where}.layout: by_frame needs one history for all, not {histories}")
        self.labels = self._label(group, joint_names)
        self._functions = [term.function for term in self.terms]
        self._bounds = [pair for term in self.terms for pair in term.bounds]
        self._scale = [factor for term in self.terms for factor in term.scale]
        self._clips = any(term.clip is not None for term in group.terms)
        self._scales = any(factor != 1.0 for factor in self._scale)
        self._newest = np.zeros(len(self._scale), np.float32)
        self._newest_memory = self._newest.data
        self._write = struct.Struct(f"={len(self._scale)}f").pack_into
        self.place(np.zeros(len(self.labels), np.float32))
        self.fresh = True  # nothing has been pushed yet

    def place(self, buffer: Floats) -> None:
        """Write into `buffer` from now on; the network reads it in place."""
        self.values = buffer
        memory = buffer.data.cast("B")
        first = self.group.newest == "first"
        self._moves = [
            (memory[later], memory[sooner]) if first else (memory[sooner], memory[later])
            for sooner, later in self.overlaps(buffer.itemsize)
        ]
        self._histories: list[tuple[Floats, Floats]] = []  # a term's rows, and its newest values
        start = 0
        for term, rows in zip(self.terms, self.rows(buffer), strict=True):
            newest = self._newest[start : start + term.size]
            self._moves.append((rows[0 if first else -1].data.cast("B"), newest.data.cast("B")))
            self._histories.append((rows, newest))
            start += term.size

    def rows(self, buffer: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
        """Each term's (history, size) view of the input."""
        start = 0
        for term in self.terms:
            if self.group.layout == "by_frame":
                end = start + term.size
                yield buffer.reshape(term.history, -1)[:, start:end]
            else:
                end = start + term.size * term.history
                yield buffer[start:end].reshape(term.history, term.size)
            start = end

    def overlaps(self, width: int = 1) -> Iterator[tuple[slice, slice]]:
        """Of each history: the places without its last row, and without its first row."""
        sizes = [(term.history, term.size * width) for term in self.terms]
        if self.group.layout == "by_frame":
            sizes = [(sizes[0][0], sum(size for _, size in sizes))]
        start = 0
        for history, size in sizes:
            end = start + history * size
            if history > 1:
                yield slice(start, end - size), slice(start + size, end)
            start = end

    def _label(self, group: Group, joint_names: tuple[str, ...]) -> tuple[str, ...]:
        def rows(term: TermRow, age: int) -> list[str]:
            per_joint = term.size == len(joint_names)
            entries = joint_names if per_joint else [str(i) for i in range(term.size)]
            past = f"@-{age}" if age else ""
            return [f"{term.name}.{entry}{past}" for entry in entries]

        def ages(history: int) -> list[int]:
            return list(range(history)) if group.newest == "first" else [*range(history)][::-1]

        if group.layout == "by_frame":
            lines = [rows(term, age) for age in ages(self.terms[0].history) for term in self.terms]
        else:
            lines = [rows(term, age) for term in self.terms for age in ages(term.history)]
        return tuple(label for line in lines for label in line)

    def reset(self) -> None:
        self.values.fill(0.0)
        self.fresh = True

    def push(self, inputs: TermInput) -> None:
        values: list[float] = []
        for function in self._functions:
            values.extend(function(inputs))
        if self._clips and self.group.clip_first:
            values = clip(values, self._bounds)
        if self._scales:
            values = [value * factor for value, factor in zip(values, self._scale, strict=True)]
        if self._clips and not self.group.clip_first:
            values = clip(values, self._bounds)
        self._write(self._newest_memory, 0, *values)
        for to, source in self._moves:
            to[:] = source
        if self.fresh and self.group.start == "repeat":
            for rows, newest in self._histories:
                rows[:] = newest
        self.fresh = False


def _bind(term: Term, where: str) -> Scalar:
    if term.name not in TERMS:
        raise Refusal(
            f"{where}.name: there is no observation term '{term.name}'; "
            f"there are: {', '.join(sorted(TERMS))}"
        )
    function = TERMS[term.name].scalar
    parameters = {
        name: parameter
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    for name in term.params:
        if name not in parameters:
            known = ", ".join(parameters) or "it takes none"
            raise Refusal(f"{where}.params.{name}: '{term.name}' has no such parameter ({known})")
    for name, parameter in parameters.items():
        if parameter.default is inspect.Parameter.empty and name not in term.params:
            raise Refusal(f"{where}.params.{name}: '{term.name}' needs it")
    return partial(function, **term.params) if term.params else function
