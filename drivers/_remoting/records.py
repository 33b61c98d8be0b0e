"""RocketMQ's records, as they stand in commit logs, in answers to pulls, and in the tier.

The layout is that of Apache RocketMQ 5 (``MessageExtEncoder``, ``MessageDecoder``); all integers are big-endian:

    size i32 | magic i32 | body CRC i32 | queue id i32 | flag i32 | queue offset i64 | position i64 | system flags i32
    | born ms i64 | born host | store ms i64 | store host | reconsumed i32 | prepared position i64
    | body size i32, body | topic size i8 (second layout: i16), topic | properties size i16, properties

A host is an address of 4 bytes, or 16 if its bit is set in the system flags, and a port of 4. The body's CRC has 31
bits. A broker with ``enabledAppendPropCRC`` ends the properties with a CRC of the whole record, which is checked too.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from mmap import mmap
from zlib import crc32

#: The two layouts of a record, and the filler at the end of a file of the commit log.
FIRST, SECOND, BLANK = 0xDAA320A7, 0xDAA320AB, 0xCBD43194
#: ``size | magic``.
START = struct.Struct(">iI")
#: No broker takes a record as large as this.
MAX_BYTES = 256 * 1024 * 1024

Buffer = bytes | mmap | memoryview

_HEAD = struct.Struct(">iIIiiqqiq")
_HOST_BYTES = 8
_LONG_HOST_BYTES = 20
_BORN_LONG, _STORE_LONG = 1 << 4, 1 << 5
_TAIL = struct.Struct(">iqi")
_MIN_BYTES = _HEAD.size + 2 * _HOST_BYTES + 8 + _TAIL.size + 1 + 2
_CRC_31 = 0x7FFFFFFF
_SEALED = b"__CRC32#\x01"
_SEAL_BYTES = len(_SEALED) + 11


class BadRecord(ValueError):
    """These bytes are no whole, undamaged record. ``cut_off``: they end before the record does."""

    def __init__(self, text: str, *, cut_off: bool = False) -> None:
        super().__init__(text)
        self.cut_off = cut_off


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One message as a broker stored it. ``offset`` is its number in its queue, ``position`` its first byte in the
    commit log of the broker's group; times in ms since 1970. ``born_host``: the address and the port that it was sent
    from; ``store_host``: those at which it was taken."""

    size: int
    queue_id: int
    flag: int
    offset: int
    position: int
    sys_flag: int
    born_ms: int
    born_host: bytes
    store_ms: int
    store_host: bytes
    reconsumed: int
    prepared: int
    body: bytes
    topic: str
    raw_properties: bytes

    @property
    def end(self) -> int:
        return self.position + self.size

    @property
    def properties(self) -> Mapping[str, str]:
        """By name; what is no pair of a name and a value is left out."""
        pairs = (part.partition(b"\x01") for part in self.raw_properties.split(b"\x02"))
        return {
            name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, mark, value in pairs if mark
        }

    @property
    def message(self) -> int:
        """The client's ``UNIQ_KEY`` as a number, -1 when it is none or too large for 63 bits."""
        try:
            number = int(self.properties.get("UNIQ_KEY", ""), 16)
        except ValueError:
            return -1
        return number if 0 <= number < 1 << 63 else -1


def decode(data: Buffer, at: int = 0) -> Record:
    """Decode and check the record that begins at ``at``. Raises :class:`BadRecord`."""
    size, _ = outline(data, at)
    _, magic, checksum, queue_id, flag, offset, position, sys_flag, born_ms = _HEAD.unpack_from(data, at)
    end = at + size
    born_at = at + _HEAD.size
    stored = born_at + _host_bytes(sys_flag, _BORN_LONG)
    store_ms = int.from_bytes(data[stored : stored + 8], "big", signed=True)
    place = stored + 8 + _host_bytes(sys_flag, _STORE_LONG)
    store_host = bytes(data[stored + 8 : place])
    reconsumed, prepared, body_bytes = _TAIL.unpack_from(data, place)
    place += _TAIL.size
    body = bytes(data[place : place + body_bytes])
    if body and crc32(body) & _CRC_31 != checksum:
        raise BadRecord("its body does not match its CRC")
    place += body_bytes
    width = 1 if magic == FIRST else 2
    topic_at = place + width
    topic_end = topic_at + int.from_bytes(data[place:topic_at], "big")
    try:
        topic = bytes(data[topic_at:topic_end]).decode()
    except UnicodeDecodeError as error:
        raise BadRecord("its topic is no text") from error
    properties = bytes(data[topic_end + 2 : end])
    _check_seal(data, at, end, properties)
    return Record(
        size=size,
        queue_id=queue_id,
        flag=flag,
        offset=offset,
        position=position,
        sys_flag=sys_flag,
        born_ms=born_ms,
        born_host=bytes(data[born_at:stored]),
        store_ms=store_ms,
        store_host=store_host,
        reconsumed=reconsumed,
        prepared=prepared,
        body=body,
        topic=topic,
        raw_properties=properties,
    )


def outline(data: Buffer, at: int) -> tuple[int, int]:
    """Return the size of the record that begins at ``at``, and its position in the commit log. Only the sizes of its
    parts are checked, so it costs the same for every record. Raises :class:`BadRecord`."""
    left = len(data) - at
    if left < START.size:
        raise BadRecord("the record's head is cut off", cut_off=True)
    size, magic = START.unpack_from(data, at)
    if magic not in (FIRST, SECOND):
        raise BadRecord(f"no record begins here: magic {magic:08x}")
    if not _MIN_BYTES <= size <= MAX_BYTES:
        raise BadRecord(f"impossible record size {size}")
    if size > left:
        raise BadRecord(f"the record of {size} bytes is cut off after {left}", cut_off=True)
    _, _, _, _, _, offset, position, sys_flag, _ = _HEAD.unpack_from(data, at)
    end = at + size
    place = at + _HEAD.size + _host_bytes(sys_flag, _BORN_LONG) + 8 + _host_bytes(sys_flag, _STORE_LONG)
    if place + _TAIL.size <= end:
        body_bytes = _TAIL.unpack_from(data, place)[2]
        place += _TAIL.size + body_bytes
        width = 1 if magic == FIRST else 2
        if body_bytes >= 0 and place + width <= end:
            place += width + int.from_bytes(data[place : place + width], "big")
            if place + 2 <= end and place + 2 + int.from_bytes(data[place : place + 2], "big") == end:
                if offset < 0 or position < 0:
                    raise BadRecord(f"queue offset {offset}, position {position}: one is negative")
                return size, position
    raise BadRecord("the record's parts do not fill its size")


def decode_all(data: Buffer) -> list[Record]:
    """Decode records that stand back to back. Raises :class:`BadRecord` when they don't fill ``data`` exactly."""
    found = []
    at = 0
    while at < len(data):
        record = decode(data, at)
        found.append(record)
        at += record.size
    return found


def _host_bytes(sys_flag: int, long: int) -> int:
    return _LONG_HOST_BYTES if sys_flag & long else _HOST_BYTES


def _check_seal(data: Buffer, at: int, end: int, properties: bytes) -> None:
    """Check the optional CRC of the whole record: ten digits at its very end, the least significant one first."""
    seal = properties[-_SEAL_BYTES:]
    if not seal.startswith(_SEALED) or not seal.endswith(b"\x02"):
        return
    if seal[len(_SEALED) : -1] != (b"%010d" % crc32(data[at : end - _SEAL_BYTES]))[::-1]:
        raise BadRecord("the record does not match its CRC")
