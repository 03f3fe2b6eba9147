"""Reading other projects' YAML as data, without running anything.

Their files come from `yaml.dump`, so they contain aliases and Python tags. Slices, tuples and names
become plain values; any other tag becomes `Opaque`, which is refused where the value is needed.
Aliases are resolved, but not recursively and not into more nodes than such a file can need.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sim2real_deploy import configfile

MOST_NODES = 100_000


class _ForeignLoader(yaml.SafeLoader):
    def get_single_node(self) -> Any:
        node = super().get_single_node()
        if node is not None:
            _count(node, {}, set())
        return node


def _count(node: yaml.Node, known: dict[int, int], open_: set[int]) -> int:
    """The number of nodes with all aliases expanded."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    key = id(node)
    if key in open_:
        raise yaml.YAMLError(f"an alias refers to itself{node.start_mark}")
    if key not in known:
        open_.add(key)
        pairs = node.value if isinstance(node, yaml.MappingNode) else [node.value]
        total = 1 + sum(_count(child, known, open_) for pair in pairs for child in pair)
        if total > MOST_NODES:
            raise yaml.YAMLError(f"aliases expand to more than {MOST_NODES} values")
        known[key] = total
        open_.discard(key)
    return known[key]


def _slice(loader: yaml.SafeLoader, node: Any) -> slice:
    arguments = loader.construct_sequence(node)
    if not 1 <= len(arguments) <= 3:
        raise yaml.YAMLError(f"a slice of {len(arguments)} arguments{node.start_mark}")
    return slice(*arguments)


def _tuple(loader: yaml.SafeLoader, node: Any) -> list[Any]:
    return loader.construct_sequence(node, deep=True)


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value that only running code could make."""

    tag: str


def _name(loader: yaml.SafeLoader, suffix: str, node: Any) -> str:
    return suffix


def _opaque(loader: yaml.SafeLoader, suffix: str, node: Any) -> Opaque:
    return Opaque(suffix)


_PYTHON = "tag:yaml.org,2002:python/"
_ForeignLoader.add_constructor(f"{_PYTHON}object/apply:builtins.slice", _slice)
_ForeignLoader.add_constructor(f"{_PYTHON}tuple", _tuple)
_ForeignLoader.add_multi_constructor(f"{_PYTHON}name:", _name)
_ForeignLoader.add_multi_constructor(_PYTHON, _opaque)


def read(path: Path) -> Any:
    return configfile.read_yaml(path, _ForeignLoader)
