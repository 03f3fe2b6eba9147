"""Loops over arrays, compiled by numba where it is installed.

Each has a plain form in numpy, of which one sees at a glance what it does. Tests hold the two to
be equal; where numba is missing, the plain one runs.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

try:
    import numba
except ModuleNotFoundError:  # not on every robot's own computer
    numba = None  # type: ignore[assignment]

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(loops: Function) -> Function:
    """`loops` as machine code, kept beside its source; as they are without numba."""
    return loops if numba is None else cast(Function, numba.njit(cache=True)(loops))


def quickest(loops: Function, plain: Function) -> Function:
    """The compiled loops; without numba their plain form, as the interpreter is slow at loops."""
    return plain if numba is None else compiled(loops)
