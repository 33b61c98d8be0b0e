"""The records in the file of logs, and how they follow one another in it."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Protocol
from zlib import crc32

from chaos.node import Disk

#: So begin the paths of its files.
PREFIX = "raft/log."
#: Kinds of records. ``PIECE`` continues the snapshot before it.
SNAPSHOT, STATE, ENTRY, SEAL, PIECE, BORN, GONE = 1, 2, 3, 4, 5, 6, 7
_HEAD = struct.Struct(">IIB")  # size of the payload, checksum, kind
_LOG = struct.Struct(">I")  # number of the log, unless it is 0
_NAMES_LOG = 0x80

#: The number of a log, the kind of a record, its payload.
Record = tuple[int, int, bytes]


class Log(Protocol):
    """One of the logs in the file."""

    @property
    def number(self) -> int: ...

    def clear(self) -> None:
        """Forget everything, before a file is loaded."""

    def take(self, kind: int, payload: bytes) -> bool:
        """Take over a record of the file; False if it does not fit to those before it."""

    def live(self) -> Iterable[tuple[int, bytes]]:
        """Return the records that make up the whole present state."""

    def live_bytes(self) -> int: ...

    def sync_began(self, token: int) -> None:
        """Note that all that was written so far is durable once this sync ends."""

    def sync_ended(self, token: int) -> None: ...

    def moved(self) -> None:
        """Count nothing as durable before a sync that begins from now on: the state stands in another file."""


def write_records(disk: Disk, file: int, size: int, checksum: int, records: Iterable[Record]) -> tuple[int, int]:
    """Write records at the end of a file, which has this size and ends with this checksum; return the new ones."""
    data, checksum = frames(records, checksum)
    disk.write(path_of(file), size, data)
    return size + len(data), checksum


def frames(records: Iterable[Record], checksum: int) -> tuple[bytes, int]:
    """Return records as they stand in the file behind one that has this checksum, and the checksum of the last."""
    made = []
    for number, kind, payload in records:
        if number:
            kind, payload = kind | _NAMES_LOG, _LOG.pack(number) + payload
        checksum = _chain(checksum, kind, payload)
        made.append(_HEAD.pack(len(payload), checksum, kind) + payload)
    return b"".join(made), checksum


def sound_records(data: bytes) -> Iterator[tuple[Record, int, int]]:
    """Return the records of a file up to the first that is torn, each with where it ends and with its checksum."""
    before = position = 0
    while len(data) - position >= _HEAD.size:
        size, checksum, kind = _HEAD.unpack_from(data, position)
        position += _HEAD.size
        payload = data[position : position + size]
        if len(payload) != size or checksum != _chain(before, kind, payload):
            return
        before, position = checksum, position + size
        if kind & _NAMES_LOG:
            yield (_LOG.unpack_from(payload)[0], kind & ~_NAMES_LOG, payload[_LOG.size :]), position, checksum
        else:
            yield (0, kind, payload), position, checksum


def _chain(before: int, kind: int, payload: bytes) -> int:
    return crc32(payload, crc32(_HEAD.pack(len(payload), before, kind)))


def path_of(file: int) -> str:
    """Return the path of the file with this number."""
    return f"{PREFIX}{file:08d}"


def number_of(path: str) -> int:
    """Return the number of the file at this path."""
    return int(path.rpartition(".")[2])
