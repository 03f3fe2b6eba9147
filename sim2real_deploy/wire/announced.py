"""How an endpoint announces its type, so that the other side believes it is of the same.

"robot" is byte for byte what Cyclone DDS 0.10.2 and the vendor's SDK announce, and what the robot
accepts; "native" is what the installed binding would say, for an SDK on the same newer binding.
Neither matches the other, and worse: a process on Cyclone DDS 0.10.2 that shares a topic with a
native endpoint as well as a robot one crashes in its type lookup. So native endpoints are opened
only where somebody has announced the same (`kind_of` tells), never towards a robot unasked.
"""

import json
from functools import cache
from importlib import resources
from types import SimpleNamespace
from typing import Any, Literal, get_args

Kind = Literal["robot", "native"]


@cache
def announcements() -> dict[str, dict[str, list[str]]]:
    text = resources.files(__package__).joinpath("typeinfo.json").read_text(encoding="utf-8")
    content: dict[str, dict[str, list[str]]] = json.loads(text)
    return content


@cache
def announced_type(type_name: str, kind: Kind) -> Any:
    """What cyclonedds wants of an IDL class to make a topic, with the announcement ready made."""
    information, mapping = (bytes.fromhex(part) for part in announcements()[kind][type_name])
    idl = SimpleNamespace(
        idl_transformed_typename=type_name,
        keyless=True,
        supported_versions=5,  # XCDR 1 and 2, as any type without optional members
        data_type_props=0,
        _xt_bytedata=(information, mapping),
        populate=lambda: None,
        fill_type_data=lambda: None,
    )
    return SimpleNamespace(__idl__=idl, __idl_typename__=type_name)


def kind_of(type_name: str, type_hash: bytes) -> Kind | None:
    """Which way of announcing a type has this hash in it, as discovery tells it."""
    kinds: tuple[Kind, ...] = get_args(Kind)
    for kind in kinds:
        information, _ = announcements()[kind].get(type_name, ("", ""))
        if type_hash in bytes.fromhex(information):
            return kind
    return None
