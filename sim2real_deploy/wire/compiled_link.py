"""A DDS link as compiled loops use it: the same topics and checks, without the interpreter.

It handles the plain case only: one good state of the robot's own writer, in sequence. Any other
sample is left to Python, which counts it (intake.py).
"""

import ctypes
from typing import Any, NamedTuple

import numpy as np

from sim2real_deploy.compiled import c_function, locate, part
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.runtime.world_clock import GRACE_NS
from sim2real_deploy.wire import kernels
from sim2real_deploy.wire.channels import FEW, RawReader, RawWriter
from sim2real_deploy.wire.decoders import StateDecoder
from sim2real_deploy.wire.encoders import CommandEncoder
from sim2real_deploy.wire.layout import HEADER, PLAIN_CDR
from sim2real_deploy.wire.libddsc import library

Array = Any  # a numpy array
IMU_NUMBERS = 10  # before the joints' in a state: quaternion, gyroscope, accelerometer
KEPT = 8  # samples: a reader in another thread has so many ticks to copy the newest one
WRITER, TICK, PERIOD_MS, TICK_WORD, USED, CODE = range(6)  # places in `memo`
READER, WAITSET, SENDER = range(3)  # places in `entities`
_VALID, _PUBLICATION = 12, 4  # in a dds_sample_info_t: a byte, a 64-bit word
_MONOTONIC = 1

_wait = c_function("dds_waitset_wait", "int32", "int32", "uintp", "uintp", "int64")
_take = c_function("dds_take", "int32", "int32", "uintp", "uintp", "uintp", "uint32")
_write = c_function("dds_write", "int32", "int32", "uintp")
_clock_gettime = c_function("clock_gettime", "int32", "int32", "uintp")


class CompiledLink(NamedTuple):
    """The arrays that a compiled loop shares with a DdsLink."""

    entities: Array
    memory: Array  # the C structs of samples taken
    pointers: Array
    infos: Array
    samples: Array  # the last KEPT samples used, CDR header included
    received: Array  # when each was received, ns
    numbers: Array  # of each: see LiveState
    state_gather: Array
    state_places: Array
    command: Array  # the sample to send
    command_gather: Array
    command_places: Array
    copies: Array
    clock: Array  # the twin's clock page; empty on a robot
    time: Array  # scratch: a timespec
    memo: Array

    @classmethod
    def of(
        cls,
        robot: RobotSpec,
        reader: RawReader[bytes],
        writer: RawWriter[bytes],
        decoder: StateDecoder,
        encoder: CommandEncoder,
        clock: memoryview,
    ) -> "CompiledLink":
        dds, memo = library(), np.zeros(CODE + 1, np.int64)
        for name in ("dds_waitset_wait", "dds_take", "dds_write"):
            locate(name, ctypes.cast(getattr(dds, name), ctypes.c_void_p).value or 0)
        memo[PERIOD_MS], memo[TICK_WORD] = 1000 / robot.wire.rate_hz, decoder.tick_at.start // 4
        samples = np.zeros((KEPT, decoder.size), np.uint8)
        samples[:, :HEADER] = np.frombuffer(PLAIN_CDR, np.uint8)
        return cls(
            entities=np.array([reader.entity, reader.waitset, writer.entity], np.int32),
            memory=np.frombuffer(reader.memory, np.uint8),
            pointers=np.frombuffer(memoryview(reader.pointers).cast("B"), np.uint64),
            infos=np.frombuffer(memoryview(reader.infos).cast("B"), np.uint8),
            samples=samples,
            received=np.zeros(KEPT, np.int64),
            numbers=np.zeros((KEPT, len(decoder.places)), np.float32),
            state_gather=decoder.gather,
            state_places=decoder.places,
            command=encoder.sample,
            command_gather=encoder.gather,
            command_places=encoder.places,
            copies=encoder.copies,
            clock=np.frombuffer(clock, np.int64) if clock else np.zeros(0, np.int64),
            time=np.zeros(2, np.int64),
            memo=memo,
        )


@part
def monotonic_ns(link: CompiledLink) -> int:
    _clock_gettime(_MONOTONIC, link.time.ctypes.data)
    return link.time[0] * 1_000_000_000 + link.time[1]  # type: ignore[no-any-return]


@part
def stood_still_ns(link: CompiledLink) -> int:
    """For how long the world's clock has stood still (world_clock.py); -1 if it may be standing
    now, or if its page is just being written."""
    words = link.clock
    if words.size == 0:
        return 0
    version = words[-1]
    now_ns = monotonic_ns(link)  # a call also keeps the compiler from reordering the reads
    lost_ns = words[1]
    for k in range(3, words.size - 1):
        if words[k] and now_ns > words[k] + GRACE_NS:
            return -1
    monotonic_ns(link)
    return lost_ns if words[0] == version else -1


@part
def take(link: CompiledLink, timeout_ns: int) -> int:
    """Wait for samples and take them; returns how many."""
    if _wait(link.entities[WAITSET], 0, 0, max(0, timeout_ns)) <= 0:
        return 0  # an error, too: Python's own wait will meet it
    pointers, infos = link.pointers.ctypes.data, link.infos.ctypes.data
    return max(0, _take(link.entities[READER], pointers, infos, FEW, FEW))  # type: ignore[no-any-return]


@part
def counter(link: CompiledLink) -> int:
    """The robot's, in the sample just taken."""
    sample = link.samples[link.memo[USED] % KEPT]
    return np.int64(sample.view(np.uint32)[link.memo[TICK_WORD]])  # type: ignore[no-any-return]


@part
def accept(link: CompiledLink, taken: int) -> bool:
    """Whether the samples taken are the plain case. Then the next place in `samples` and `numbers`
    holds the state, and `use` makes it the newest."""
    memo, slot = link.memo, link.memo[USED] % KEPT
    if taken != 1 or not link.infos[_VALID]:
        return False
    if link.infos.view(np.int64)[_PUBLICATION] != memo[WRITER]:
        return False
    sample = link.samples[slot]
    for i in range(HEADER, sample.size):  # numba takes seconds to compile an assignment of slices
        sample[i] = link.memory[i - HEADER]
    if counter(link) != memo[TICK] + memo[PERIOD_MS]:
        return False
    found = kernels.check(sample, link.state_gather, link.state_places, link.numbers[slot])
    return found == kernels.GOOD


@part
def numbers(link: CompiledLink) -> Array:
    """Of the state just accepted: see LiveState."""
    return link.numbers[link.memo[USED] % KEPT]


@part
def motion(link: CompiledLink, joints: int) -> Array:
    """Rows q and dq of the state just accepted."""
    return numbers(link)[IMU_NUMBERS : IMU_NUMBERS + 2 * joints].reshape(2, joints)


@part
def use(link: CompiledLink, received_ns: int) -> None:
    """Make the state just accepted the newest, for other threads, too."""
    memo, slot = link.memo, link.memo[USED] % KEPT
    link.received[slot] = received_ns
    memo[TICK] = counter(link)
    memo[USED] += 1


@part
def fill(link: CompiledLink, command: Array) -> bool:
    """Encode the answer to the state just accepted; False if a value is not finite."""
    sample = link.samples[link.memo[USED] % KEPT]
    for k in range(link.copies.shape[0]):
        link.command[link.copies[k, 1]] = sample[link.copies[k, 0]]
    return kernels.fill(command, link.command_places, link.command, link.command_gather)


@part
def write(link: CompiledLink) -> bool:
    """Send what `fill` encoded; False with an error's CODE in `memo`."""
    link.memo[CODE] = _write(link.entities[SENDER], link.command.ctypes.data + HEADER)
    return link.memo[CODE] >= 0  # type: ignore[no-any-return]
