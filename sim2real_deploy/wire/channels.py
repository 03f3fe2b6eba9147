"""DDS topics: reading and writing whole samples."""

import ctypes
import os
import socket
import threading
import time
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from sim2real_deploy.errors import Refusal
from sim2real_deploy.wire.descriptor import descriptor
from sim2real_deploy.wire.discovery import Discovery
from sim2real_deploy.wire.libddsc import (
    ANY_STATE,
    BEST_EFFORT,
    KEEP_LAST,
    RELIABLE,
    SAMPLE_INFO,
    DdsError,
    library,
)
from sim2real_deploy.wire.link import Writer

# A killed program counts as another writer until its lease expires. With more than one receive
# thread, the default of Cyclone 0.10, closing hangs once the interface has lost its address.
_CONFIG = """<CycloneDDS><Domain Id="any">
<General><Interfaces>
<NetworkInterface name="{interface}" multicast="default"/>
</Interfaces></General>
<Discovery><LeaseDuration>2s</LeaseDuration>{discovery}</Discovery>
<Internal><MultipleReceiveThreads>false</MultipleReceiveThreads></Internal>
</Domain></CycloneDDS>"""
# A loopback interface usually has no multicast, and each process takes a port of the domain. ROS
# nodes on the same domain id take such ports, too, and Cyclone 0.10 has only ten of them otherwise.
_ON_LOOPBACK = "<MaxAutoParticipantIndex>50</MaxAutoParticipantIndex>"
# Clients on Cyclone 0.10 probe the first of these ports, so a twin must have one and probe them,
# too. Nobody else has to: it discovers ROS nodes as well.
_FOR_ALL = """<ParticipantIndex>auto</ParticipantIndex>
<Peers><Peer address="127.0.0.1"/></Peers>"""
FEW = 4  # samples taken per call; there are rarely more
_DEPTH = 1000  # samples that a reader buffers: 2 s of states
_BLOCK_NS = 1_000_000  # the longest that a write may block

Data = TypeVar("Data")


class Type(Protocol[Data]):
    """A message type, and its conversion from and to DDS's C struct."""

    @property
    def type_name(self) -> str:
        """Its DDS name."""

    @property
    def ops(self) -> tuple[int, ...]:
        """How DDS serialises the C struct: see descriptor.py."""

    @property
    def c_size(self) -> int:
        """Size of the C struct in bytes."""

    def from_c(self, memory: bytearray, at: int) -> Data:
        """The value of the C struct at an offset in memory."""

    def to_c(self, value: Data, /) -> bytes:
        """The C struct of a value."""


@dataclass(slots=True)
class Sample(Generic[Data]):
    """One received message."""

    data: Data  # for a fixed-size message: CDR, header included
    source_ns: int  # when it was written, by the sender's wall clock
    received_ns: int  # when it was taken, by this machine's monotonic clock
    writer: int  # handle for `Participant.who`


def interfaces() -> list[str]:
    return [name for _, name in socket.if_nameindex()]


def check_interface(name: str) -> None:
    known = interfaces()
    if name not in known:
        raise Refusal(f"network interface '{name}' does not exist; there are: {', '.join(known)}")


def check_middleware() -> None:
    """Two Cyclone libraries in one process corrupt each other's memory."""
    if os.environ.get("RMW_IMPLEMENTATION") == "rmw_cyclonedds_cpp":
        raise Refusal(
            "RMW_IMPLEMENTATION is rmw_cyclonedds_cpp: ROS would load a second Cyclone DDS into "
            "the process that talks to the robot, and the two break each other; "
            "set RMW_IMPLEMENTATION=rmw_fastrtps_cpp (it still talks to every ROS node)"
        )


class _Domains:
    """The process's DDS domains; each is bound to one interface while it is in use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[int, tuple[str, int, list[object]]] = {}

    def join(self, number: int, interface: str, user: object, for_all: bool) -> None:
        with self._lock:
            if number not in self._open:
                self._open[number] = (interface, _domain(number, interface, for_all), [])
            used, _, users = self._open[number]
            if used != interface:
                raise Refusal(
                    f"DDS domain {number} is already open on '{used}' in this process; "
                    f"it cannot be opened on '{interface}' too"
                )
            users.append(user)

    def leave(self, number: int, user: object) -> None:
        with self._lock:
            _, domain, users = self._open[number]
            users.remove(user)
            if not users:
                library().dds_delete(domain)
                del self._open[number]


def _domain(number: int, interface: str, for_all: bool) -> int:
    dds = library()
    discovery = ""
    if interface == "lo":
        discovery = _ON_LOOPBACK + (_FOR_ALL if for_all else "")
    config = _CONFIG.format(interface=interface, discovery=discovery)
    try:
        return dds.checked(dds.dds_create_domain(number, config.encode()), "opening it failed")
    except DdsError as error:
        raise Refusal(
            f"DDS domain {number} on '{interface}' cannot be opened: {error}; is the interface "
            "up, with an address, and the domain id between 0 and 230?"
        ) from None


_domains = _Domains()


class RawReader(Generic[Data]):
    """Reads one topic. One thread waits and takes."""

    def __init__(self, participant: int, topic: int, kind: Type[Data], depth: int) -> None:
        dds = library()
        qos = dds.dds_create_qos()
        # Best effort, like the vendor's: a state that is resent late is useless.
        dds.dds_qset_reliability(qos, BEST_EFFORT, 0)
        dds.dds_qset_history(qos, KEEP_LAST, depth)
        reader = dds.dds_create_reader(participant, topic, qos, None)
        dds.dds_delete_qos(qos)
        self.entity = dds.checked(reader, "opening a reader")
        self.waitset = dds.checked(dds.dds_create_waitset(participant), "opening a reader")
        ready = dds.checked(dds.dds_create_readcondition(reader, ANY_STATE), "opening a reader")
        dds.checked(dds.dds_waitset_attach(self.waitset, ready, None), "opening a reader")
        self._dds, self._depth, self._closed = dds, depth, False
        self._take, self._wait = dds.dds_take, dds.dds_waitset_wait
        self._from_c = kind.from_c
        # Buffers that the library fills: structs, pointers to them, and sample infos.
        self.memory = bytearray(FEW * kind.c_size)
        self.infos = ctypes.create_string_buffer(FEW * SAMPLE_INFO.size)
        self._places = tuple((n * kind.c_size, n * SAMPLE_INFO.size) for n in range(FEW))
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.pointers = (ctypes.c_void_p * FEW)(*(base + at for at, _ in self._places))
        self._at = ctypes.addressof(self.pointers), ctypes.addressof(self.infos)

    def wait(self, timeout_s: float) -> bool:
        """Sleep, with the GIL released, until there is something to take or the time is up."""
        found = self._wait(self.waitset, None, 0, max(0, int(timeout_s * 1e9)))
        if found < 0 and not self._closed:
            self._dds.checked(found, "while waiting for samples")
        return bool(found > 0)

    def take(self, found: int = 0) -> list[Sample[Data]]:
        """Everything received since the last call, oldest first, but at most about `depth` samples,
        so that a flood cannot keep the caller here. `found`: a compiled loop took that many."""
        taken: list[Sample[Data]] = []
        pointers, infos = self._at
        while True:
            found = found or self._take(self.entity, pointers, infos, FEW, FEW)
            if found < 0:
                if self._closed:
                    return taken
                self._dds.checked(found, "while taking samples")
            now_ns = time.monotonic_ns()
            for at, info_at in self._places[:found]:
                _, valid, source_ns, _, writer = SAMPLE_INFO.unpack_from(self.infos, info_at)
                if valid:
                    data = self._from_c(self.memory, at)
                    taken.append(Sample(data, source_ns, now_ns, writer))
            if found < FEW or len(taken) >= self._depth:
                return taken
            found = 0

    def matched(self) -> int:
        """The number of matched writers."""
        return max(0, int(self._dds.dds_get_matched_publications(self.entity, None, 0)))

    def close(self) -> None:
        self._closed = True


class RawWriter(Generic[Data]):
    """Writes one topic."""

    def __init__(self, participant: int, topic: int, kind: Type[Data]) -> None:
        dds = library()
        qos = dds.dds_create_qos()
        # Reliable and last value only, like the vendor's, but never blocking for long.
        dds.dds_qset_reliability(qos, RELIABLE, _BLOCK_NS)
        dds.dds_qset_history(qos, KEEP_LAST, 1)
        writer = dds.dds_create_writer(participant, topic, qos, None)
        dds.dds_delete_qos(qos)
        self.entity = dds.checked(writer, "opening a writer")
        self._dds, self._write, self._to_c = dds, dds.dds_write, kind.to_c

    def write(self, sample: Data) -> None:
        code = self._write(self.entity, self._to_c(sample))
        if code < 0:
            self._dds.checked(code, "while writing a sample")

    def matched(self) -> int:
        """The number of matched readers."""
        return max(0, int(self._dds.dds_get_matched_subscriptions(self.entity, None, 0)))


class Participant:
    """A DDS participant on one domain and one network interface.

    `name` is what others see ("control", "safety", ...). With `for_all`, for a twin, clients on any
    version of Cyclone find it on a loopback interface, too.
    """

    def __init__(
        self, domain: int, interface: str, name: str = "", *, for_all: bool = False
    ) -> None:
        check_middleware()
        check_interface(interface)
        self._domain = domain
        _domains.join(domain, interface, self, for_all)
        dds = library()
        qos = dds.dds_create_qos()
        dds.dds_qset_entity_name(qos, name.encode())
        entity = dds.dds_create_participant(domain, qos, None)
        dds.dds_delete_qos(qos)
        self._participant = dds.checked(entity, f"joining DDS domain {domain}")
        self._discovery = Discovery(self._participant)
        self._readers: list[RawReader[object]] = []
        self._open = True

    @property
    def key(self) -> str:
        """This participant's key, which others see as `Writer.participant`."""
        return self._discovery.key

    def reader(self, topic: str, kind: Type[Data], depth: int = _DEPTH) -> RawReader[Data]:
        reader = RawReader(self._participant, self._topic(topic, kind), kind, depth)
        self._readers.append(reader)  # type: ignore[arg-type]
        return reader

    def writer(self, topic: str, kind: Type[Data]) -> RawWriter[Data]:
        return RawWriter(self._participant, self._topic(topic, kind), kind)

    def _topic(self, topic: str, kind: Type[Data]) -> int:
        dds, described = library(), descriptor(kind.type_name, kind.c_size, kind.ops)
        name = ctypes.byref(described), topic.encode()
        entity = dds.dds_create_topic(self._participant, *name, None, None)
        return dds.checked(entity, f"opening the topic {topic}")

    def who(self, writer: int) -> Writer:
        """Who wrote a sample, from its `writer`."""
        return self._discovery.who(writer)

    def other_writers(self, topic: str) -> tuple[Writer, ...]:
        """Everyone else who can write a topic now; cheap to call often."""
        return self._discovery.other_writers(topic)

    def close(self) -> None:
        """Leave the domain; readers return nothing from then on. May be called twice."""
        if self._open:
            self._open = False
            for reader in self._readers:
                reader.close()
            library().dds_delete(self._participant)
            _domains.leave(self._domain, self)
