"""Cyclone DDS through its public C API, with any libddsc of version 0.10 or 11 on this machine.

Nothing is compiled and no Python binding is needed. The functions and structs used here are the
same in all those versions, on x86-64 and aarch64.
"""

import ctypes
import ctypes.util
import importlib.util
import os
import struct
from collections.abc import Iterator
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

from sim2real_deploy.errors import Refusal

LIBRARY_VARIABLE = "SIM2REAL_LIBDDSC"
SYSTEM_FOLDERS = ("/usr/local/lib", "/usr/lib", "/lib")

# Built-in entities: the topics on which discovery reports.
PARTICIPANTS, PUBLICATIONS = 0x7FFF0001, 0x7FFF0003
NOT_READ_STATE, ANY_STATE = 2 | 4 | 8 | 16 | 32 | 64, 1 | 2 | 4 | 8 | 16 | 32 | 64
ALIVE = 16
BEST_EFFORT, RELIABLE = 0, 1
KEEP_LAST = 0

# dds_sample_info_t: instance state, valid data, source time, instance handle, publication handle.
SAMPLE_INFO = struct.Struct("@8xI?3xqQQ24x")
# dds_builtintopic_endpoint_t: key, participant's key and handle, topic name.
ENDPOINT = struct.Struct("@16s16sQP16x")
# dds_builtintopic_participant_t: key, QoS.
PERSON = struct.Struct("@16sP")


class DdsError(RuntimeError):
    """A call into the library failed."""


class Serialised(ctypes.Structure):
    """dds_type_meta_ser: type information. Ours is always empty."""

    _fields_ = (("data", c_void_p), ("size", c_uint32))


class TopicDescriptor(ctypes.Structure):
    """dds_topic_descriptor_t."""

    _fields_ = (
        ("size", c_uint32),
        ("align", c_uint32),
        ("flags", c_uint32),
        ("key_count", c_uint32),
        ("type_name", c_char_p),
        ("keys", c_void_p),
        ("op_count", c_uint32),
        ("ops", POINTER(c_uint32)),
        ("meta", c_char_p),
        ("type_information", Serialised),
        ("type_mapping", Serialised),
        ("restrict_data_representation", c_uint32),
    )


_ENTITY, _CODE, _HANDLE, _TEXT = c_int32, c_int32, c_uint64, POINTER(c_void_p)
# name: result, arguments
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "dds_create_domain": (_ENTITY, c_uint32, c_char_p),
    "dds_create_participant": (_ENTITY, c_uint32, c_void_p, c_void_p),
    "dds_create_topic": (_ENTITY, _ENTITY, POINTER(TopicDescriptor), c_char_p, c_void_p, c_void_p),
    "dds_create_reader": (_ENTITY, _ENTITY, _ENTITY, c_void_p, c_void_p),
    "dds_create_writer": (_ENTITY, _ENTITY, _ENTITY, c_void_p, c_void_p),
    "dds_create_readcondition": (_ENTITY, _ENTITY, c_uint32),
    "dds_create_waitset": (_ENTITY, _ENTITY),
    "dds_waitset_attach": (_CODE, _ENTITY, _ENTITY, c_void_p),
    "dds_waitset_wait": (_CODE, _ENTITY, c_void_p, c_size_t, c_int64),
    "dds_triggered": (_CODE, _ENTITY),
    "dds_read": (_CODE, _ENTITY, c_void_p, c_void_p, c_size_t, c_uint32),
    "dds_read_instance": (_CODE, _ENTITY, c_void_p, c_void_p, c_size_t, c_uint32, _HANDLE),
    "dds_take": (_CODE, _ENTITY, c_void_p, c_void_p, c_size_t, c_uint32),
    "dds_return_loan": (_CODE, _ENTITY, c_void_p, c_int32),
    "dds_write": (_CODE, _ENTITY, c_char_p),
    "dds_delete": (_CODE, _ENTITY),
    "dds_get_guid": (_CODE, _ENTITY, c_void_p),
    "dds_get_matched_publications": (_CODE, _ENTITY, c_void_p, c_size_t),
    "dds_get_matched_subscriptions": (_CODE, _ENTITY, c_void_p, c_size_t),
    "dds_create_qos": (c_void_p,),
    "dds_delete_qos": (None, c_void_p),
    "dds_qset_reliability": (None, c_void_p, c_int32, c_int64),
    "dds_qset_history": (None, c_void_p, c_int32, c_int32),
    "dds_qset_entity_name": (None, c_void_p, c_char_p),
    "dds_qget_entity_name": (ctypes.c_bool, c_void_p, _TEXT),
    "dds_qget_prop": (ctypes.c_bool, c_void_p, c_char_p, _TEXT),
    "dds_free": (None, c_void_p),
    "dds_strretcode": (c_char_p, c_int32),
}
# These do not block (a write for a millisecond at most), so they keep the GIL: reacquiring it could
# cost the control loop up to a switch interval while another thread is busy.
_QUICK = frozenset(("dds_take", "dds_triggered", "dds_read_instance", "dds_write"))


class Library:
    """The functions of one libddsc, by their C names."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            free, holding = ctypes.CDLL(path), ctypes.PyDLL(path)
        except OSError as error:
            raise Refusal(
                f"{path}: not a library that loads here: {error}; set {LIBRARY_VARIABLE} to the "
                "libddsc.so of Cyclone DDS 0.10 or 11"
            ) from None
        for name, (result, *arguments) in _FUNCTIONS.items():
            try:
                function = getattr(holding if name in _QUICK else free, name)
            except AttributeError:
                raise Refusal(
                    f"{path}: has no function {name}; the libddsc of Cyclone DDS 0.10 or 11 was "
                    f"expected, {LIBRARY_VARIABLE} may name another one"
                ) from None
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        """For the type checker only: __init__ sets every function."""
        raise AttributeError(name)

    def checked(self, code: int, what: str) -> int:
        """`code` itself, an entity or a count; raises DdsError if it is an error code."""
        if code < 0:
            said = self.dds_strretcode(code)
            raise DdsError(f"{what}: {(said or b'unknown error').decode()}")
        return code


@cache
def library() -> Library:
    """The one library of this process: two would corrupt each other."""
    return Library(find_library())


def find_library() -> str:
    """Path of the libddsc to use; a Refusal says how to install one."""
    named = os.environ.get(LIBRARY_VARIABLE)
    if named:
        return named
    for path in _candidates():
        return path
    raise Refusal(
        "no Cyclone DDS on this machine: install one (`apt-get install libddsc0debian`, ROS 2's "
        "`ros-<distro>-cyclonedds`, or `pip install cyclonedds` where it has a wheel), or set "
        f"{LIBRARY_VARIABLE} to the path of a libddsc.so of version 0.10 or 11"
    )


def _candidates() -> Iterator[str]:
    """The Python wheel's (the vendor SDK may have loaded it already), CYCLONEDDS_HOME's, ROS 2's,
    the system's."""
    try:
        wheel = importlib.util.find_spec("cyclonedds")
    except ValueError:  # a module without a spec: not from a wheel
        wheel = None
    if wheel is not None and wheel.origin is not None:
        beside = Path(wheel.origin).parent.with_name("cyclonedds.libs")
        yield from map(str, sorted(beside.glob("libddsc*.so*")))
    prefixes = [os.environ.get("CYCLONEDDS_HOME", "")]
    prefixes += os.environ.get("AMENT_PREFIX_PATH", "").split(":")
    for prefix in filter(None, prefixes):
        lib = Path(prefix) / "lib"
        yield from map(str, sorted([*lib.glob("libddsc.so*"), *lib.glob("*/libddsc.so*")]))
    system = ctypes.util.find_library("ddsc") or _in_system_folders()
    if system:
        yield system


def _in_system_folders() -> str | None:
    """Debian's libddsc.so.0debian, which ctypes finds only with a compiler or ldconfig."""
    for folder in SYSTEM_FOLDERS:
        found = sorted([*Path(folder).glob("libddsc.so*"), *Path(folder).glob("*/libddsc.so*")])
        if found:
            return str(found[0])
    return None
