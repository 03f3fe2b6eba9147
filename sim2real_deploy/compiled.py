"""Loops over arrays, compiled by numba if it is installed.

Each has a plain numpy form that is easy to read. Tests check that the two are equal; without numba
the plain form runs.
"""

import sys
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

try:
    import llvmlite.binding
    import numba
    import numba.extending
    from numba.experimental import structref
except ModuleNotFoundError:  # not available on every robot's computer
    numba = None  # type: ignore[assignment]

AVAILABLE = numba is not None

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(loops: Function) -> Function:
    """`loops` compiled, with a cache beside their source; unchanged without numba."""
    return loops if numba is None else cast(Function, numba.njit(cache=True)(loops))


def part(loops: Function) -> Function:
    """Part of compiled loops: compiled with each of its callers, which is quicker."""
    return numba.extending.register_jitable(loops) if AVAILABLE else loops


def assembled(*modules: str, unlocked: bool = False) -> Callable[[Function], Function]:
    """Like `compiled`, of parts that `modules` contain: numba alone does not notice changes in
    files other than the loops' own."""

    def decorate(loops: Function) -> Function:
        if not AVAILABLE:
            return loops
        found: Any = numba.njit(cache=True, nogil=unlocked)(loops)
        files = [Path(sys.modules[name].__file__ or "") for name in (loops.__module__, *modules)]
        stamps = tuple((file.stat().st_mtime, file.stat().st_size) for file in files)
        found._cache._cache_file._source_stamp = stamps
        return cast(Function, found)

    return decorate


def unlocked(*modules: str) -> Callable[[Function], Function]:
    """Like `assembled`, but the interpreter's lock is released while they run."""
    return assembled(*modules, unlocked=True)


def c_function(name: str, result: str, *arguments: str) -> Any:
    """A C function for compiled loops; its types are named as in numba. One that is not in the C
    library needs an address (`locate`) before a loop that calls it is first run."""
    if not AVAILABLE:
        return None
    kinds = [getattr(numba.types, kind) for kind in (result, *arguments)]
    return numba.types.ExternalFunction(name, kinds[0](*kinds[1:]))


def locate(name: str, address: int) -> None:
    """Set the address of a `c_function`."""
    llvmlite.binding.add_symbol(name, address)


def prepare(loops: Any, *arguments: Any) -> Callable[..., Any]:
    """Compile loops for such arguments, or load them from the cache, without running them. Calling
    the result skips the check of argument types with which a call of the loops begins."""
    if not AVAILABLE:
        return cast(Callable[..., Any], loops)
    return cast(Callable[..., Any], loops.compile(tuple(map(numba.typeof, arguments))))


if AVAILABLE:

    @structref.register
    class _TableType(numba.types.StructRef):
        """A structure with one field, `rows`."""

    class _Table(structref.StructRefProxy):
        """Arrays that compiled loops keep in their own form."""

    structref.define_proxy(_Table, _TableType, ["rows"])  # type: ignore[no-untyped-call]

else:
    _Table = namedtuple("_Table", ["rows"])  # type: ignore[no-redef]


@compiled
def table(rows: Any) -> Any:
    """A named tuple of arrays, or of such tuples, in the form that compiled loops use, which find
    it in `rows`. It is passed at once, whereas each array of a tuple costs a call a third of a
    microsecond, and several when the caches are cold."""
    return _Table(rows)  # type: ignore[no-untyped-call]


def quickest(loops: Function, plain: Function) -> Function:
    """The compiled loops; without numba the plain form, since interpreted loops are slow."""
    return plain if numba is None else compiled(loops)
