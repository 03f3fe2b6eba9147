"""Machine code of earlier sources must never run: numbers of the sources are frozen into it."""

import ast
import inspect
import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import pytest

from sim2real_deploy.compiled import AVAILABLE
from sim2real_deploy.control import plain_ticks

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="numba is not installed")
PACKAGE = "sim2real_deploy"


def imported(module: ModuleType) -> dict[str, str]:
    """Names that a module has from others of the package, and from which."""
    return {
        alias.asname or alias.name: node.module
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE)
        for alias in node.names
        if node.module
    }


def plain(value: Any) -> Any:
    return getattr(value, "py_func", value)


def sources(loops: FunctionType, seen: set[FunctionType]) -> Iterator[str]:
    """The modules of all functions and numbers that compiled loops use."""
    if loops in seen or not loops.__module__.startswith(PACKAGE):
        return
    seen.add(loops)
    yield loops.__module__
    origins, names = imported(sys.modules[loops.__module__]), loops.__code__.co_names
    for value in (loops.__globals__.get(name) for name in names):
        places = [vars(value).get(name) for name in names] if inspect.ismodule(value) else [value]
        for found in map(plain, places):
            if isinstance(found, FunctionType):
                yield from sources(found, seen)
    yield from (
        origins[name]
        for name in names
        if name in origins and isinstance(loops.__globals__[name], (int, float, tuple))
    )


def test_compiled_ticks_are_compiled_again_when_any_of_their_sources_changes() -> None:
    used = set(sources(plain(plain_ticks.run), set()))
    assert "sim2real_deploy.safety.chain" in used
    stamped = {module.__name__ for module in plain_ticks.MODULES} | {plain_ticks.__name__}
    assert used <= stamped
