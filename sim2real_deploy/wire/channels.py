"""DDS topics as raw bytes: no codec between the network and whoever waits."""

import os
import socket
import threading
import time
from typing import Any, NamedTuple

from cyclonedds._clayer import ddspy_take, ddspy_write
from cyclonedds.builtin import (
    BuiltinDataReader,
    BuiltinTopicDcpsParticipant,
    BuiltinTopicDcpsPublication,
    BuiltinTopicDcpsSubscription,
)
from cyclonedds.core import (
    DDSException,
    InstanceState,
    ReadCondition,
    SampleState,
    ViewState,
    WaitSet,
)
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

from sim2real_deploy.errors import Refusal
from sim2real_deploy.wire.announced import Kind, announced_type, kind_of
from sim2real_deploy.wire.link import Writer

__all__ = ["Kind", "Participant", "RawReader", "RawWriter", "Sample", "interfaces"]

# The lease: a program that was killed is taken for another writer until it runs out.
_CONFIG = """<CycloneDDS><Domain Id="any">
<General><Interfaces>
<NetworkInterface name="{interface}" multicast="default"/>
</Interfaces></General>
<Discovery><LeaseDuration>2s</LeaseDuration></Discovery>
<Compatibility><AllowInvalidTryConstruct>true</AllowInvalidTryConstruct></Compatibility>
</Domain></CycloneDDS>"""
_ANY = SampleState.Any | ViewState.Any | InstanceState.Any
_UNSEEN = SampleState.NotRead | ViewState.Any | InstanceState.Any
_waitset_wait = WaitSet._dll_handle.dds_waitset_wait  # ctypes: sleeps without the GIL
_FEW = 4  # samples taken in one call; more seldom wait
_DEPTH = 1000  # samples a reader holds while its owner is away: 2 s of states


class Sample(NamedTuple):
    """One message as it came."""

    data: bytes  # CDR header included
    source_ns: int  # when it was written, the sender's wall clock
    received_ns: int  # when it was taken, this machine's monotonic clock


def interfaces() -> list[str]:
    return [name for _, name in socket.if_nameindex()]


def check_interface(name: str) -> None:
    known = interfaces()
    if name not in known:
        raise Refusal(f"network interface '{name}': there is none; there are: {', '.join(known)}")


def check_middleware() -> None:
    """Two Cyclone libraries in one process corrupt each other's memory."""
    if os.environ.get("RMW_IMPLEMENTATION") == "rmw_cyclonedds_cpp":
        raise Refusal(
            "RMW_IMPLEMENTATION is rmw_cyclonedds_cpp: ROS would load a second Cyclone DDS into "
            "the process that talks to the robot, and the two break each other; "
            "set RMW_IMPLEMENTATION=rmw_fastrtps_cpp (it still talks to every ROS node)"
        )


class _Domains:
    """The domains of this process: each is configured for one interface while anyone uses it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[int, tuple[str, Domain, list[object]]] = {}

    def join(self, number: int, interface: str, user: object) -> None:
        with self._lock:
            if number not in self._open:
                self._open[number] = (interface, _domain(number, interface), [])
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
                domain._delete(domain._ref)
                del self._open[number]


def _domain(number: int, interface: str) -> Domain:
    try:
        return Domain(number, _CONFIG.format(interface=interface))
    except DDSException as error:
        raise Refusal(
            f"DDS domain {number} on '{interface}' cannot be opened: {error}; is the interface "
            "up, with an address, and the domain id between 0 and 230?"
        ) from None


_domains = _Domains()


class RawReader:
    """Samples of one topic. One thread waits and takes."""

    def __init__(self, participant: DomainParticipant, topic: Topic[Any], depth: int) -> None:
        # Best effort, as the vendor's: a state sent again late is worth nothing.
        qos = Qos(Policy.Reliability.BestEffort, Policy.History.KeepLast(depth))
        self._reader = DataReader(participant, topic, qos)
        self._depth = depth
        self._waitset = WaitSet(participant)
        self._waitset.attach(ReadCondition(self._reader, _ANY))
        self._waitset_ref = self._waitset._ref
        self._reader_ref = self._reader._ref
        self._closed = False

    def wait(self, timeout_s: float) -> bool:
        """Sleep (without the GIL) until there is something to take, or the time is up."""
        found = _waitset_wait(self._waitset_ref, None, 0, max(0, int(timeout_s * 1e9)))
        if found < 0 and not self._closed:
            raise DDSException(found, "while waiting for samples")
        return bool(found > 0)

    def take(self) -> list[Sample]:
        """Everything that has come since the last call, oldest first."""
        taken = self._take()
        now = time.monotonic_ns()
        return [Sample(data, info.source_timestamp, now) for data, info in taken if info.valid_data]

    def take_bytes(self) -> list[bytes]:
        """As `take`, for who does not ask when: two objects fewer a sample."""
        return [data for data, info in self._take() if info.valid_data]

    def _take(self) -> list[tuple[bytes, Any]]:
        """A few at a time, until there are no more: each call makes room for all it might get.
        A flood does not keep the caller: what comes beyond the depth waits for the next call."""
        taken: list[tuple[bytes, Any]] = []
        while True:
            found = ddspy_take(self._reader_ref, _ANY, _FEW)
            if isinstance(found, int):
                if self._closed:
                    return taken
                raise DDSException(found, "while taking samples")
            taken = taken + found if taken else found
            if len(found) < _FEW or len(taken) >= self._depth:
                return taken

    def matched(self) -> int:
        """How many writers there are now."""
        return len(self._reader.get_matched_publications())

    def close(self) -> None:
        self._closed = True


class RawWriter:
    """Bytes out on one topic."""

    def __init__(self, participant: DomainParticipant, topic: Topic[Any]) -> None:
        # Reliable and last value only, as the vendor's, but never holding the caller up for long.
        qos = Qos(Policy.Reliability.Reliable(duration(milliseconds=1)), Policy.History.KeepLast(1))
        self._writer = DataWriter(participant, topic, qos)
        self._ref = self._writer._ref

    def write(self, sample: bytes | bytearray) -> None:
        code = ddspy_write(self._ref, sample)
        if code < 0:
            raise DDSException(code, "while writing a sample")

    def matched(self) -> int:
        """How many readers there are now."""
        return len(self._writer.get_matched_subscriptions())


class Participant:
    """One presence on one DDS domain, over one interface, both chosen by the caller.

    `name` is shown to the others who look at the topics ("control", "safety", ...).
    """

    def __init__(self, domain: int, interface: str, name: str = "") -> None:
        check_middleware()
        check_interface(interface)
        self._domain = domain
        _domains.join(domain, interface, self)
        self._participant = DomainParticipant(domain, Qos(Policy.EntityName(name)))
        self._key = self._participant.get_guid()
        self._publications = BuiltinDataReader(self._participant, BuiltinTopicDcpsPublication)
        self._unseen_publications = ReadCondition(self._publications, _UNSEEN)
        self._writers: dict[str, tuple[Writer, ...]] = {}  # by topic, since the last change
        self._subscriptions = BuiltinDataReader(self._participant, BuiltinTopicDcpsSubscription)
        self._unseen_subscriptions = ReadCondition(self._subscriptions, _UNSEEN)
        self._kinds: set[Kind] = set()
        self._people = BuiltinDataReader(self._participant, BuiltinTopicDcpsParticipant)
        self._readers: list[RawReader] = []
        self._open = True

    @property
    def key(self) -> str:
        """How this participant looks to the others: their `Writer.participant`."""
        return str(self._key)

    def reader(
        self, topic: str, type_name: str, kind: Kind = "robot", depth: int = _DEPTH
    ) -> RawReader:
        reader = RawReader(self._participant, self._topic(topic, type_name, kind), depth)
        self._readers.append(reader)
        return reader

    def writer(self, topic: str, type_name: str, kind: Kind = "robot") -> RawWriter:
        return RawWriter(self._participant, self._topic(topic, type_name, kind))

    def _topic(self, topic: str, type_name: str, kind: Kind) -> Topic[Any]:
        return Topic(self._participant, topic, announced_type(type_name, kind))

    def other_writers(self, topic: str) -> tuple[Writer, ...]:
        """Everyone but this participant who can write a topic now, as discovery tells it.

        Cheap to ask often: discovery's own record takes tens of milliseconds to read, all of them
        with the GIL held, so it is read anew only when somebody came or went.
        """
        if self._publications.read(1, self._unseen_publications):
            self._writers.clear()
        if topic not in self._writers:
            self._writers[topic] = self._read_writers(topic)
        return self._writers[topic]

    def _read_writers(self, topic: str) -> tuple[Writer, ...]:
        alive = InstanceState.Alive
        others = {
            p.participant_key
            for p in self._publications.read(1000)
            if p.topic_name == topic
            and p.sample_info.instance_state == alive
            and p.participant_key != self._key
        }
        qos = {person.key: person.qos for person in self._people.read(1000)}
        return tuple(_writer(str(key), qos.get(key)) for key in sorted(others))

    def kinds_of_readers(self) -> set[Kind]:
        """The ways in which others who read the vendor's types announce them; as cheap."""
        if self._subscriptions.read(1, self._unseen_subscriptions):
            self._kinds = self._read_kinds()
        return self._kinds

    def _read_kinds(self) -> set[Kind]:
        found = {
            kind_of(s.type_name, bytes(s.type_id.value))
            for s in self._subscriptions.read(1000)
            if s.type_id is not None
            and s.sample_info.instance_state == InstanceState.Alive
            and s.participant_key != self._key
        }
        return {kind for kind in found if kind is not None}

    def close(self) -> None:
        """Leave the domain; readers fall silent. Harmless when done already."""
        if self._open:
            self._open = False
            for reader in self._readers:
                reader.close()
            self._participant._delete(self._participant._ref)
            _domains.leave(self._domain, self)


def _writer(participant: str, qos: Qos | None) -> Writer:
    said = {p.key: p.value for p in qos or () if isinstance(p, Policy.Property)}
    names = [p.name for p in qos or () if isinstance(p, Policy.EntityName)]
    return Writer(
        participant=participant,
        host=said.get("__Hostname", ""),
        name=names[0] if names else said.get("__ProcessName", ""),
    )
