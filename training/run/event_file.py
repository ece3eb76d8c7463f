"""TensorBoard event files of scalars, written without importing TensorBoard.

An event file is a sequence of TFRecords, each an ``Event`` protocol buffer (``tensorboard/compat/proto``).
"""

from __future__ import annotations

import os
import re
import socket
import struct
import time
from collections.abc import Mapping
from functools import cache
from itertools import count
from pathlib import Path

import numpy as np

_FILES = count()
_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5  # wire types
_WALL_TIME, _STEP, _FILE_VERSION, _SUMMARY, _SESSION_LOG = 1, 2, 3, 5, 7  # fields of Event
_SESSION_START = 1


class EventFile:
    """New event file, flushed after each event.

    Args:
        folder: folder of the file, created if necessary.
        purge_step: first step of events in earlier files that are superseded; None: none are.
    """

    def __init__(self, folder: Path, purge_step: int | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time()):010}.{socket.gethostname()}.{os.getpid()}.{next(_FILES)}"
        self._file = (folder / name).open("xb")
        self._write(_bytes(_FILE_VERSION, b"brain.Event:2"))
        if purge_step is not None:
            started = _varint_field(1, _SESSION_START)
            self._write(_varint_field(_STEP, purge_step) + _bytes(_SESSION_LOG, started))

    def add(self, step: int, scalars: Mapping[str, float]) -> None:
        """Write an event with ``scalars`` at ``step``."""
        values = (_bytes(1, _bytes(1, _tag(name).encode()) + _float(2, value)) for name, value in scalars.items())
        self._write(_varint_field(_STEP, step) + _bytes(_SUMMARY, b"".join(values)))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, fields: bytes) -> None:
        event = _key(_WALL_TIME, _EIGHT_BYTES) + struct.pack("<d", time.time()) + fields
        length = struct.pack("<Q", len(event))
        self._file.write(length + _checksum(length) + event + _checksum(event))
        self._file.flush()


def _tag(name: str) -> str:
    """Return a name without the characters that TensorBoard does not accept."""
    return re.sub(r"[^-/\w.]", "_", name).lstrip("/")


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _key(field: int, wire_type: int) -> bytes:
    return _varint(field << 3 | wire_type)


def _varint_field(field: int, value: int) -> bytes:
    return _key(field, _VARINT) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _key(field, _BYTES) + _varint(len(value)) + value


def _float(field: int, value: float) -> bytes:
    with np.errstate(over="ignore"):
        return _key(field, _FOUR_BYTES) + np.array(value, "<f4").tobytes()


def _checksum(data: bytes) -> bytes:
    """Return the masked CRC-32C of a TFRecord."""
    crc, table = 0xFFFFFFFF, _crc_table()
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


@cache
def _crc_table() -> tuple[int, ...]:
    table = list(range(256))
    for _ in range(8):
        table = [entry >> 1 ^ 0x82F63B78 * (entry & 1) for entry in table]
    return tuple(table)
