"""Who is on a DDS domain, from DDS's built-in discovery topics."""

import ctypes
import threading
import uuid
from collections.abc import Callable
from ctypes import addressof, byref, c_void_p
from typing import TypeVar

from sim2real_deploy.wire.libddsc import (
    ALIVE,
    ENDPOINT,
    NOT_READ_STATE,
    PARTICIPANTS,
    PERSON,
    PUBLICATIONS,
    SAMPLE_INFO,
    library,
)
from sim2real_deploy.wire.link import Writer

_MOST = 1000  # reports per read, on either topic: Cyclone 0.10 needs the same number in every call
_GUID_BYTES = 16

Found = TypeVar("Found")


class Discovery:
    """Reads discovery's reports for one participant."""

    def __init__(self, participant: int) -> None:
        dds = self._dds = library()
        guid = ctypes.create_string_buffer(_GUID_BYTES)
        dds.checked(dds.dds_get_guid(participant, addressof(guid)), "asking for our own key")
        self.key = _key(guid.raw)
        self._publications, self._people = (
            dds.checked(dds.dds_create_reader(participant, topic, None, None), "discovery")
            for topic in (PUBLICATIONS, PARTICIPANTS)
        )
        unseen = dds.dds_create_readcondition(self._publications, NOT_READ_STATE)
        self._unseen = dds.checked(unseen, "discovery")
        self._pointers = (c_void_p * _MOST)()
        self._infos = ctypes.create_string_buffer(_MOST * SAMPLE_INFO.size)
        self._reading = threading.Lock()
        self._by_topic: dict[str, tuple[Writer, ...]] = {}  # cleared when anything changes
        self._by_handle: dict[int, Writer] = {}

    def other_writers(self, topic: str) -> tuple[Writer, ...]:
        """Everyone else who can write a topic now. Reports are read again only after a change."""
        with self._reading:
            if self._dds.dds_triggered(self._unseen) > 0:
                self._by_topic.clear()
            if topic not in self._by_topic:
                self._by_topic[topic] = self._read_writers(topic.encode())
            return self._by_topic[topic]

    def _read_writers(self, topic: bytes) -> tuple[Writer, ...]:
        def read(address: int, alive: bool) -> tuple[str, int] | None:
            _, owner, person, name = ENDPOINT.unpack(ctypes.string_at(address, ENDPOINT.size))
            concerned = alive and ctypes.string_at(name) == topic and _key(owner) != self.key
            return (_key(owner), person) if concerned else None

        found = {entry for entry in self._reports(self._publications, read) if entry}
        return tuple(self._describe(key, person) for key, person in sorted(found))

    def who(self, handle: int) -> Writer:
        """The writer behind a sample's publication handle; without a name if it left before it was
        first looked up."""
        known = self._by_handle.get(handle)
        if known is None:
            with self._reading:
                known = self._look_up(handle)
            if known.participant:
                self._by_handle[handle] = known
        return known

    def _look_up(self, handle: int) -> Writer:
        def read(address: int, _: bool) -> tuple[str, int]:
            _, owner, person, _ = ENDPOINT.unpack(ctypes.string_at(address, ENDPOINT.size))
            return _key(owner), person

        found = self._reports(self._publications, read, handle)
        return self._describe(*found[0]) if found else Writer("", "")

    def _describe(self, key: str, person: int) -> Writer:
        def read(address: int, _: bool) -> Writer:
            _, qos = PERSON.unpack(ctypes.string_at(address, PERSON.size))
            pid = self._property(qos, b"__Pid")
            return Writer(
                participant=key,
                host=self._property(qos, b"__Hostname"),
                name=self._name(qos) or self._property(qos, b"__ProcessName"),
                pid=int(pid) if pid.isdecimal() else 0,
            )

        found = self._reports(self._people, read, person)
        return found[0] if found else Writer(key, "")

    def _reports(
        self, reader: int, read: Callable[[int, bool], Found], handle: int = 0
    ) -> list[Found]:
        """Apply `read` to each report (its address, whether its subject is alive) while the library
        lends it to us; with a handle, to that instance only."""
        dds, pointers, infos = self._dds, self._pointers, self._infos
        ctypes.memset(pointers, 0, ctypes.sizeof(pointers))  # null: the library lends its memory
        into = addressof(pointers), addressof(infos), _MOST, _MOST
        if handle:
            found = dds.dds_read_instance(reader, *into, handle)  # an error means: no such instance
        else:
            found = dds.checked(dds.dds_read(reader, *into), "reading discovery's reports")
        if found <= 0:
            return []
        try:
            reports = (
                (pointers[n], SAMPLE_INFO.unpack_from(infos, n * SAMPLE_INFO.size))
                for n in range(found)
            )
            return [
                read(address, state == ALIVE)
                for address, (state, valid, *_) in reports
                if valid and address is not None
            ]
        finally:
            dds.dds_return_loan(reader, addressof(pointers), found)

    def _name(self, qos: int) -> str:
        text = c_void_p()
        return self._text(text) if self._dds.dds_qget_entity_name(qos, byref(text)) else ""

    def _property(self, qos: int, name: bytes) -> str:
        text = c_void_p()
        return self._text(text) if self._dds.dds_qget_prop(qos, name, byref(text)) else ""

    def _text(self, text: c_void_p) -> str:
        """A string allocated by the library; we must free it."""
        if not text.value:
            return ""
        said = ctypes.string_at(text.value).decode(errors="replace")
        self._dds.dds_free(text)
        return said


def _key(guid: bytes) -> str:
    return str(uuid.UUID(bytes=guid))
