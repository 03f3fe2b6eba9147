"""Loops over arrays, compiled by numba if it is installed.

Each has a plain numpy form that is easy to read. Tests check that the two are equal; without numba
the plain form runs.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

try:
    import numba
except ModuleNotFoundError:  # not available on every robot's computer
    numba = None  # type: ignore[assignment]

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(loops: Function) -> Function:
    """`loops` compiled, cached beside their source; unchanged without numba."""
    return loops if numba is None else cast(Function, numba.njit(cache=True)(loops))


def quickest(loops: Function, plain: Function) -> Function:
    """The compiled loops; without numba the plain form, because interpreted loops are slow."""
    return plain if numba is None else compiled(loops)
