"""A network through onnxruntime's C API, for compiled loops: no interpreter on its way.

The library lies beside the Python module in most of its wheels, and has the same kernels. Where it
is missing, or where its outputs differ by a single bit, the network runs through Python alone.
"""

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import onnxruntime

from sim2real_deploy.compiled import c_function, locate, part
from sim2real_deploy.robots.state import Floats

Array = Any  # a numpy array
API_VERSION = 11  # of OrtApi: later ones only append to it
SEQUENTIAL, FATAL, ARENA, DEFAULT_MEMORY, FLOAT32 = 0, 4, 1, 0, 1  # the C API's enumerations
# Places in OrtApi, and the arguments; each returns a status, which is null for success.
FUNCTIONS: Mapping[str, tuple[int, tuple[Any, ...]]] = {
    "CreateEnv": (3, (c_int, c_char_p, c_void_p)),
    "CreateSessionFromArray": (8, (c_void_p, c_char_p, c_size_t, c_void_p, c_void_p)),
    "CreateSessionOptions": (10, (c_void_p,)),
    "SetSessionExecutionMode": (13, (c_void_p, c_int)),
    "SetSessionLogSeverityLevel": (22, (c_void_p, c_int)),
    "SetIntraOpNumThreads": (24, (c_void_p, c_int)),
    "SetInterOpNumThreads": (25, (c_void_p, c_int)),
    "CreateTensorWithDataAsOrtValue": (
        49,
        (c_void_p, c_void_p, c_size_t, POINTER(c_int64), c_size_t, c_int, c_void_p),
    ),
    "CreateCpuMemoryInfo": (69, (c_int, c_int, c_void_p)),
    "RunWithBinding": (133, (c_void_p, c_void_p, c_void_p)),
    "CreateIoBinding": (134, (c_void_p, c_void_p)),
    "BindInput": (136, (c_void_p, c_char_p, c_void_p)),
    "BindOutput": (137, (c_void_p, c_char_p, c_void_p)),
    "BindOutputToDevice": (138, (c_void_p, c_char_p, c_void_p)),
}
RUN = "sim2real_ort_run_with_binding"
_run = c_function(RUN, "uintp", "uintp", "uintp", "uintp")


class CNetworkError(Exception):
    """The C API cannot be used here."""


class Tensor(NamedTuple):
    """One input or output; without values, an output that nobody reads."""

    name: str
    shape: Sequence[int]
    values: Floats | None


class _Api:
    """The C API's functions, as attributes."""

    def __init__(self) -> None:
        folder = Path(onnxruntime.__file__).parent / "capi"
        found = sorted(folder.glob("libonnxruntime.so*"))
        if not found:
            raise CNetworkError(f"no libonnxruntime in {folder}")
        try:
            base = ctypes.CDLL(str(found[0])).OrtGetApiBase
        except (OSError, AttributeError) as error:
            raise CNetworkError(str(error)) from None
        base.restype = POINTER(c_void_p)
        table = ctypes.CFUNCTYPE(c_void_p, c_uint32)(base()[0])(API_VERSION)
        if not table:
            raise CNetworkError(f"{found[0]}: does not know version {API_VERSION} of its API")
        places = ctypes.cast(table, POINTER(c_void_p))
        self.addresses = {name: places[at] for name, (at, _) in FUNCTIONS.items()}
        self._functions = {
            name: ctypes.CFUNCTYPE(c_void_p, *arguments)(self.addresses[name])
            for name, (_, arguments) in FUNCTIONS.items()
        }
        self.environment = self.create("CreateEnv", FATAL, b"sim2real_deploy")
        self.memory = self.create("CreateCpuMemoryInfo", ARENA, DEFAULT_MEMORY)

    def call(self, name: str, *arguments: Any) -> None:
        if self._functions[name](*arguments):
            raise CNetworkError(f"{name} failed")

    def create(self, name: str, *arguments: Any) -> c_void_p:
        """What a function returns through its last argument."""
        made = c_void_p()
        self.call(name, *arguments, byref(made))
        return made


@cache
def _api() -> _Api:
    return _Api()


class CNetwork:
    """A network bound to its buffers. Never released: it lives as long as the process's loop."""

    def __init__(self, model: bytes, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        self._api = api = _api()
        options = api.create("CreateSessionOptions")  # as in onnx_file.py
        api.call("SetIntraOpNumThreads", options, 1)
        api.call("SetInterOpNumThreads", options, 1)
        api.call("SetSessionExecutionMode", options, SEQUENTIAL)
        api.call("SetSessionLogSeverityLevel", options, FATAL)
        self._model = model
        self.session = api.create(
            "CreateSessionFromArray", api.environment, model, len(model), options
        )
        self.binding = api.create("CreateIoBinding", self.session)
        self._kept = [*inputs, *outputs]  # the network reads and writes their memory
        for tensor in inputs:
            api.call("BindInput", self.binding, tensor.name.encode(), _value(api, tensor))
        for tensor in outputs:
            bind, to = "BindOutput", _value(api, tensor)
            if tensor.values is None:
                bind, to = "BindOutputToDevice", api.memory
            api.call(bind, self.binding, tensor.name.encode(), to)

    def run(self) -> None:
        self._api.call("RunWithBinding", self.session, None, self.binding)


def _value(api: _Api, tensor: Tensor) -> c_void_p:
    if tensor.values is None:
        return c_void_p()
    shape = (c_int64 * len(tensor.shape))(*tensor.shape)
    place, size = tensor.values.ctypes.data, tensor.values.nbytes
    return api.create(
        "CreateTensorWithDataAsOrtValue", api.memory, place, size, shape, len(shape), FLOAT32
    )


def locate_network() -> None:
    """Before a loop that calls `run_network` is compiled. Without the library none does: the call
    would end the process."""
    try:
        address = _api().addresses["RunWithBinding"]
    except CNetworkError:
        address = ctypes.cast(ctypes.CDLL(None).abort, c_void_p).value
    locate(RUN, address or 0)


@part
def run_network(session: int, binding: int) -> bool:
    """False on an error: Python will run the network once more, and meet it."""
    return _run(session, 0, binding) == 0  # type: ignore[no-any-return]
