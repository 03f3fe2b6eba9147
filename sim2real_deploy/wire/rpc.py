"""The vendor's request/response services over DDS: rt/api/<service>/request and /response."""

import ctypes
import itertools
import os
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from sim2real_deploy.wire.channels import Participant
from sim2real_deploy.wire.descriptor import BOOLEAN, INT32, INT64, OCTETS, TEXT, program

ASK_AGAIN_S = 1.0
NOT_IMPLEMENTED = 3203  # the SDK's code for an api id that the server does not know

# api id, parameter -> status code (0: done), data; None: silence
Handler = Callable[[int, str], tuple[int, str] | None]


_own = threading.local()


class RpcTimeout(Exception):
    """Nobody answered in time."""


@dataclass(frozen=True, slots=True)
class Request:
    number: int
    api: int
    parameter: str
    wants_answer: bool = True


@dataclass(frozen=True, slots=True)
class Response:
    number: int
    api: int
    code: int
    data: str


class _RequestType:
    """unitree_api Request_. Its lease, priority and binary part are never used."""

    type_name = "unitree_api::msg::dds_::Request_"
    # id, api id, lease, priority, whether no reply is wanted, parameter, binary
    ops = program((INT64, 0), (INT64, 8), (INT64, 16), (INT32, 24), (BOOLEAN, 28), (TEXT, 32),
                  (OCTETS, 40))  # fmt: skip
    _form = struct.Struct("@qq8x4x?3xP24x")
    c_size = _form.size

    def from_c(self, memory: bytearray, at: int) -> Request:
        number, api, no_reply, parameter = self._form.unpack_from(memory, at)
        return Request(number, api, _text(parameter), not no_reply)

    def to_c(self, value: Request, /) -> bytes:
        parameter = _kept(value.parameter)
        return self._form.pack(value.number, value.api, not value.wants_answer, parameter)


class _ResponseType:
    """unitree_api Response_."""

    type_name = "unitree_api::msg::dds_::Response_"
    # id, api id, status code, data, binary
    ops = program((INT64, 0), (INT64, 8), (INT32, 16), (TEXT, 24), (OCTETS, 32))
    _form = struct.Struct("@qqi4xP24x")
    c_size = _form.size

    def from_c(self, memory: bytearray, at: int) -> Response:
        number, api, code, data = self._form.unpack_from(memory, at)
        return Response(number, api, code, _text(data))

    def to_c(self, value: Response, /) -> bytes:
        data = _kept(value.data)
        return self._form.pack(value.number, value.api, value.code, data)


def _text(address: int) -> str:
    return ctypes.string_at(address).decode(errors="replace") if address else ""


def _kept(text: str) -> int:
    """The address of a C string that stays alive until this thread's next call."""
    _own.text = ctypes.create_string_buffer(text.encode())
    return ctypes.addressof(_own.text)


REQUEST, RESPONSE = _RequestType(), _ResponseType()


class RpcClient:
    """Calls one service, one call at a time. A request may be sent twice, so it must be idempotent:
    answers are lost while we have discovered the server but the server has not discovered us."""

    def __init__(self, participant: Participant, service: str) -> None:
        self._service = service
        self._writer = participant.writer(f"rt/api/{service}/request", REQUEST)
        self._reader = participant.reader(f"rt/api/{service}/response", RESPONSE)
        # Other clients read the same responses: start at a number that they are unlikely to use.
        self._numbers = itertools.count(time.monotonic_ns() ^ (os.getpid() << 40))

    def call(self, api: int, parameter: str, timeout_s: float) -> tuple[int, str]:
        """The status code and data of the answer; raises RpcTimeout."""
        deadline = time.monotonic() + timeout_s
        while not (self._writer.matched() and self._reader.matched()):
            if time.monotonic() >= deadline:
                raise RpcTimeout(f"no server of '{self._service}' was found in {timeout_s:g} s")
            time.sleep(0.01)
        request = Request(next(self._numbers), api, parameter)
        ask_again = 0.0
        while ask_again < deadline:
            self._writer.write(request)
            ask_again = min(deadline, time.monotonic() + ASK_AGAIN_S)
            while self._reader.wait(ask_again - time.monotonic()):
                for sample in self._reader.take():
                    if sample.data.number == request.number:
                        return sample.data.code, sample.data.data
        raise RpcTimeout(f"'{self._service}' did not answer api {api} within {timeout_s:g} s")


class RpcServer:
    """The server side, for a twin."""

    def __init__(self, participant: Participant, service: str, handler: Handler) -> None:
        self._handler = handler
        self._reader = participant.reader(f"rt/api/{service}/request", REQUEST)
        self._writer = participant.writer(f"rt/api/{service}/response", RESPONSE)

    def serve(self, timeout_s: float = 0.0) -> int:
        """Wait up to `timeout_s` for requests and answer them; returns how many there were."""
        if not self._reader.wait(timeout_s):
            return 0
        samples = self._reader.take()
        for sample in samples:
            request = sample.data
            answer = self._handler(request.api, request.parameter)
            if request.wants_answer and answer is not None:
                self._writer.write(Response(request.number, request.api, *answer))
        return len(samples)
