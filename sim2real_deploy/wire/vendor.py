"""The vendor SDK's IDL classes, to compare our codecs with.

The SDK installed from source is complete. The wheel on PyPI lacks packages that its own __init__
imports, so importing it fails although the classes we need are there; an empty package in its place
lets them load.
"""

import contextlib
import importlib
import importlib.util
import struct
import sys
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import fastcrc

from sim2real_deploy.errors import Refusal

PACKAGE = "unitree_sdk2py"


@cache
def _install() -> ModuleType:
    try:
        return importlib.import_module(PACKAGE)
    except ImportError:
        for name in [n for n in sys.modules if n == PACKAGE or n.startswith(f"{PACKAGE}.")]:
            del sys.modules[name]  # left behind by the failed import
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise Refusal(
            "the vendor SDK is not installed: `pip install --no-deps unitree-sdk2`, "
            "or install unitree_sdk2_python from its source"
        )
    package = ModuleType(PACKAGE)
    package.__path__ = list(spec.submodule_search_locations)
    package.__spec__ = spec
    sys.modules[PACKAGE] = package
    return package


@cache
def installed() -> bool:
    """Whether its classes can be used; they also need the Python binding of Cyclone DDS."""
    try:
        module("idl.unitree_go.msg.dds_")
    except (Refusal, ImportError):
        return False
    return True


def module(name: str) -> Any:
    """A module of the SDK, e.g. "rpc.client"."""
    _install()
    return importlib.import_module(f"{PACKAGE}.{name}")


def idl(type_name: str) -> Any:
    """The IDL class of a DDS type name, e.g. "unitree_api::msg::dds_::Request_"."""
    *packages, name = type_name.split("::")
    return getattr(module(".".join(["idl", *packages])), name)


@cache
def checksum() -> Callable[[Any], int]:
    """The SDK's CRC of one of its messages.

    The wheel lacks the C library for the last step; fastcrc replaces it.
    """
    crc = module("utils.crc").CRC

    class Checksum(crc):  # type: ignore[misc,valid-type]
        def __init__(self) -> None:
            with contextlib.suppress(OSError):  # the C library; everything else is set by then
                super().__init__()

        def _crc_ctypes(self, words: list[int]) -> int:
            if hasattr(self, "crc_lib"):
                return int(super()._crc_ctypes(words))
            return fastcrc.crc32.mpeg_2(struct.pack(f">{len(words)}I", *words))

    compute: Callable[[Any], int] = Checksum().Crc
    return compute
