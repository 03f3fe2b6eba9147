"""The vendor's request/response services over DDS: rt/api/<service>/request and /response.

Low rate, so the SDK's own classes serialise; only the waiting is ours, with a timeout on each.
"""

import itertools
import os
import time
from collections.abc import Callable
from functools import cache
from typing import Any

from sim2real_deploy.wire import vendor
from sim2real_deploy.wire.channels import Kind, Participant

_REQUEST = "unitree_api::msg::dds_::Request_"
_RESPONSE = "unitree_api::msg::dds_::Response_"
ASK_AGAIN_S = 1.0
NOT_IMPLEMENTED = 3203  # the SDK's code for an api id that the server does not know

# api id, parameter -> status code (0: done), data
Handler = Callable[[int, str], tuple[int, str]]


class RpcTimeout(Exception):
    """Nobody answered in time."""


class RpcClient:
    """Calls of one service, one at a time, of what does no harm when it is asked for twice: an
    answer is lost while the server has not found us yet, though we have found it."""

    def __init__(self, participant: Participant, service: str, kind: Kind = "robot") -> None:
        _warm_up()
        self._service = service
        self._writer = participant.writer(f"rt/api/{service}/request", _REQUEST, kind)
        self._reader = participant.reader(f"rt/api/{service}/response", _RESPONSE, kind)
        # Other clients read the same responses: start where none of them is likely to be.
        self._numbers = itertools.count(time.monotonic_ns() ^ (os.getpid() << 40))

    def call(self, api: int, parameter: str, timeout_s: float) -> tuple[int, str]:
        """The status code and the data of the answer, or RpcTimeout."""
        deadline = time.monotonic() + timeout_s
        while not (self._writer.matched() and self._reader.matched()):
            if time.monotonic() >= deadline:
                raise RpcTimeout(f"no server of '{self._service}' was found in {timeout_s:g} s")
            time.sleep(0.01)
        number = next(self._numbers)
        request = _request(number, api, parameter).serialize()
        ask_again = 0.0
        while ask_again < deadline:
            self._writer.write(request)
            ask_again = min(deadline, time.monotonic() + ASK_AGAIN_S)
            while self._reader.wait(ask_again - time.monotonic()):
                for sample in self._reader.take_bytes():
                    response = vendor.idl(_RESPONSE).deserialize(sample)
                    if response.header.identity.id == number:
                        return int(response.header.status.code), str(response.data)
        raise RpcTimeout(f"'{self._service}' did not answer api {api} within {timeout_s:g} s")


class RpcServer:
    """The other side of RpcClient: what a twin runs. `serve` answers all that has come."""

    def __init__(
        self, participant: Participant, service: str, handler: Handler, kind: Kind = "robot"
    ) -> None:
        self._handler = handler
        self._reader = participant.reader(f"rt/api/{service}/request", _REQUEST, kind)
        self._writer = participant.writer(f"rt/api/{service}/response", _RESPONSE, kind)

    def serve(self, timeout_s: float = 0.0) -> int:
        """Wait for requests as long as told and answer them; how many there were."""
        if not self._reader.wait(timeout_s):
            return 0
        samples = self._reader.take_bytes()
        for sample in samples:
            request = vendor.idl(_REQUEST).deserialize(sample)
            code, data = self._handler(request.header.identity.api_id, request.parameter)
            if not request.header.policy.noreply:
                self._writer.write(_response(request.header.identity, code, data).serialize())
        return len(samples)


@cache
def _warm_up() -> None:
    """Have the SDK build its serialisers now: the first use holds the interpreter for 50 ms, which
    a control loop in another thread cannot spare."""
    request = _request(0, 0, "")
    vendor.idl(_REQUEST).deserialize(request.serialize())
    response = _response(request.header.identity, 0, "")
    vendor.idl(_RESPONSE).deserialize(response.serialize())


def _request(number: int, api: int, parameter: str) -> Any:
    api_types = vendor.module("idl.unitree_api.msg.dds_")
    header = api_types.RequestHeader_(
        api_types.RequestIdentity_(number, api),
        api_types.RequestLease_(0),
        api_types.RequestPolicy_(0, False),
    )
    return api_types.Request_(header, parameter, [])


def _response(identity: Any, code: int, data: str) -> Any:
    api_types = vendor.module("idl.unitree_api.msg.dds_")
    header = api_types.ResponseHeader_(identity, api_types.ResponseStatus_(code))
    return api_types.Response_(header, data, [])
