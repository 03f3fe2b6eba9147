"""The work done on every sample: check its CRC, extract its numbers, fill in a command.

`gather` lists the bytes of a sample in the order of the vendor's CRC; `places` lists the words that
hold numbers. Each compiled loop is followed by its plain numpy form.
"""

from typing import Any

import fastcrc
import numpy as np

from sim2real_deploy.compiled import quickest

Array = Any  # a numpy array
GOOD, BAD_CRC, NOT_FINITE = range(3)


def _crc_table() -> Array:
    """Slicing-by-4 table for CRC-32/MPEG-2."""
    table = np.zeros((4, 256), np.uint32)
    for byte in range(256):
        crc = byte << 24
        for _ in range(8):
            crc = (crc << 1 ^ (0x04C11DB7 if crc >> 31 else 0)) & 0xFFFFFFFF
        table[0, byte] = crc
    for k in range(1, 4):
        table[k] = table[k - 1] << 8 ^ table[0, table[k - 1] >> 24]
    return table


_TABLE = _crc_table()


def _checksum(sample: Array, gather: Array) -> Any:
    crc = np.uint32(0xFFFFFFFF)
    for i in range(0, gather.size, 4):
        word = np.uint32(0)
        for k in range(4):
            word = np.uint32(word << 8) | np.uint32(sample[gather[i + k]])
        crc ^= word
        crc = (
            _TABLE[3, crc >> 24]
            ^ _TABLE[2, crc >> 16 & 255]
            ^ _TABLE[1, crc >> 8 & 255]
            ^ _TABLE[0, crc & 255]
        )
    return crc


def plain_checksum(sample: Array, gather: Array) -> Any:
    return fastcrc.crc32.mpeg_2(sample[gather].data)


checksum = quickest(_checksum, plain_checksum)


def _check(sample: Array, gather: Array, places: Array, numbers: Array) -> int:
    """Fill in `numbers`; returns whether checksum and numbers are good."""
    words = sample.view(np.float32)
    finite = True
    for i in range(places.size):
        numbers[i] = words[places[i]]
        finite &= np.isfinite(numbers[i])
    if checksum(sample, gather) != sample.view(np.uint32)[-1]:
        return BAD_CRC
    return GOOD if finite else NOT_FINITE


def plain_check(sample: Array, gather: Array, places: Array, numbers: Array) -> int:
    numbers[:] = sample.view(np.float32)[places]
    if plain_checksum(sample, gather) != sample.view(np.uint32)[-1]:
        return BAD_CRC
    return GOOD if np.isfinite(numbers).all() else NOT_FINITE


check = quickest(_check, plain_check)


def _fill(command: Array, places: Array, sample: Array, gather: Array) -> bool:
    """Write a command's rows and the CRC into a sample; False if a value is not finite."""
    for row in range(command.shape[0]):
        for j in range(command.shape[1]):
            if not np.isfinite(command[row, j]):
                return False
    words = sample.view(np.float32)
    for row in range(command.shape[0]):
        for j in range(command.shape[1]):
            words[places[row, j]] = command[row, j]
    sample.view(np.uint32)[-1] = checksum(sample, gather)
    return True


def plain_fill(command: Array, places: Array, sample: Array, gather: Array) -> bool:
    if not np.isfinite(command).all():
        return False
    sample.view(np.float32)[places] = command
    sample.view(np.uint32)[-1] = plain_checksum(sample, gather)
    return True


fill = quickest(_fill, plain_fill)
