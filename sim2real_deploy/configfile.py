"""YAML files into typed, checked values. Every refusal names the file and the key.

Strict on purpose: an unknown key is a typo that would silently leave a default in force.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from sim2real_deploy.errors import Refusal

MAX_BYTES = 4_000_000  # a policy.yaml with golden vectors is ~100 kB
MOST_LINES = 10  # of faults told at once
EMPTY = "must not be empty"


class Strict(BaseModel):
    """Base of everything read from a file: no unknown keys, no NaN, immutable."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, arbitrary_types_allowed=True
    )


Model = TypeVar("Model", bound=BaseModel)


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader that refuses duplicate keys and aliases."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "aliases (*name) are not allowed", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key '{key.value}' is given twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path, loader: type[yaml.SafeLoader] = _StrictLoader) -> Any:
    """The file's plain content; a Refusal tells what is wrong and where."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise Refusal(f"{path}: {size} bytes is too large for such a file")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise Refusal(f"{path}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal(f"{path}: cannot be read: {error}") from None
    try:
        return yaml.load(text, Loader=loader)
    except Exception as error:  # PyYAML also lets through errors of int(), date() and dict()
        raise Refusal(f"{path}: not a YAML file we can read: {error}") from None


def parse(content: Any, model: type[Model], source: str) -> Model:
    """Validate plain content; problems are listed as `source: key: what`."""
    if not isinstance(content, dict):
        raise Refusal(f"{source}: a mapping was expected, not {type(content).__name__}")
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise Refusal("\n".join(f"{source}: {line}" for line in _lines(error.errors()))) from None


def load(path: Path, model: type[Model]) -> Model:
    return parse(read_yaml(path), model, str(path))


def _lines(problems: Sequence[Any]) -> list[str]:
    """One line each, at most `MOST_LINES`; entries of one list with the same fault share one."""
    lines: dict[tuple[Any, ...], list[str]] = {}
    for problem in problems:
        loc, words = problem["loc"], _words(problem)
        if words == EMPTY and any(key[: len(loc)] == loc for key in lines):
            continue  # its entries were all faulty
        in_list = bool(loc) and isinstance(loc[-1], int)
        line = f"{'.'.join(str(part) for part in loc) or 'file'}: {words}"
        lines.setdefault((*loc[:-1], words) if in_list else (*loc, ""), []).append(line)
    return [
        first + (f" (and {len(more)} more like it)" if more else "")
        for first, *more in list(lines.values())[:MOST_LINES]
    ]


def _words(problem: Any) -> str:
    if problem["type"] == "extra_forbidden":
        return "unknown key; take it out or correct its spelling"
    if problem["type"] == "missing":
        return "is missing"
    if problem["type"] == "too_short" and not problem["ctx"]["actual_length"]:
        return EMPTY
    text = str(problem["msg"]).removeprefix("Value error, ")
    given = problem.get("input")
    if isinstance(given, (str, int, float, bool)):
        text += f" (it is {given!r})"
    return text
