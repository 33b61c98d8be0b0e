"""The commit log's records: RocketMQ's layout, with a CRC over the whole record in its last property.

RocketMQ's own ``bodyCRC`` covers the body alone. The property ``__CRC32#`` (RocketMQ writes it when
``enabledAppendPropCRC`` is set) covers everything before it, so that a flipped byte anywhere is noticed.
All integers are big-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from ipaddress import IPv4Address
from zlib import crc32

from chaos.node import NOWHERE, Address

MAGIC = 0xDAA320A7 - (1 << 32)
MAX_BODY_BYTES = 4 * 1024 * 1024
MAX_PROPERTIES_BYTES = 32767
MAX_TOPIC_BYTES = 127

_HEAD = struct.Struct(">iiiiiqqiq4siq4siiqi")
#: The same bytes, but only what a reader needs: queue id, queue offset, position, store time, the position that it was
#: prepared at, size of the body.
_READ_HEAD = struct.Struct(">12xi4xqq12x8xq12xqi")
_SIZE = struct.Struct(">i")
_QUEUE_AT = 12
_HOST_V6_FLAGS = 0b110000
_TRANSACTION_FLAGS = 0b1100
_CRC_NAME = b"__CRC32#\x01"
_CRC_BYTES = 20
#: Without our own checksum, and with a mark at the end.
MAX_NAMED_BYTES = MAX_PROPERTIES_BYTES - _CRC_BYTES - 1
#: What a message gets besides its own properties while it waits to come (again): where it belongs, when it is due,
#: where it comes from, and under which handle it was given. So each message that is taken can wait.
WAITING_BYTES = 1024
MAX_USER_PROPERTIES_BYTES = MAX_NAMED_BYTES - WAITING_BYTES
_KEY = b"UNIQ_KEY\x01"
_MIN_BYTES = _HEAD.size + 1 + 2 + _CRC_BYTES
MAX_BYTES = _MIN_BYTES + MAX_BODY_BYTES + MAX_PROPERTIES_BYTES + MAX_TOPIC_BYTES

TOPIC_RECORDS = "%SYS%TOPIC"
OFFSET_RECORDS = "%SYS%OFFSETS"
DEFERRED_RECORDS = "%SYS%DEFERRED"
SETTLED_RECORDS = "%SYS%SETTLED"
LOCK_RECORDS = "%SYS%LOCKS"
VERSION_RECORDS = "%SYS%VERSION"
#: How the system's own records are called in traces and in READ_LOG.
SYSTEM = {
    TOPIC_RECORDS: "topic",
    OFFSET_RECORDS: "offsets",
    DEFERRED_RECORDS: "deferred",
    SETTLED_RECORDS: "settled",
    LOCK_RECORDS: "locks",
    VERSION_RECORDS: "version",
}


#: Whether the bytes from one place up to another are a whole record as it was written.
IsSound = Callable[[bytes, int, int], bool]


class BadRecord(ValueError):
    """These bytes are no whole, undamaged record."""


@dataclass(slots=True)
class Record:
    """One decoded record. ``offset`` is its queue offset, ``position`` its byte in the log, times in ms. ``prepared``:
    the position at which the message stood before as a deferred one; 0 for others."""

    size: int
    queue_id: int
    offset: int
    position: int
    store_ms: int
    topic: str
    body: bytes
    properties: bytes
    prepared: int = 0

    @property
    def end(self) -> int:
        return self.position + self.size


def body_hash(body: bytes) -> int:
    """Return the identity of a body in traces: the first 63 bits of BLAKE2b, as the workloads compute it."""
    return int.from_bytes(blake2b(body, digest_size=8).digest(), "big") >> 1


def message_number(properties: bytes) -> int:
    """Return the client's ``UNIQ_KEY`` as a number, or -1 when it is none or too large for 63 bits."""
    at = properties.find(_KEY)
    while at > 0 and properties[at - 1] != 2:
        at = properties.find(_KEY, at + 1)
    if at < 0:
        return -1
    end = properties.find(b"\x02", at)
    key = properties[at + len(_KEY) : end if end >= 0 else len(properties)]
    try:
        number = int(key, 16)
    except ValueError:
        return -1
    return number if 0 <= number < 1 << 63 else -1


def message_id(store_host: Address, position: int) -> str:
    """RocketMQ's id of a message: where it was stored first, and its position there."""
    return f"{_packed(store_host[0]).hex().upper()}{store_host[1]:08X}{position:016X}"


@lru_cache(maxsize=1024)
def _packed(host: str) -> bytes:
    """Return the four bytes of an IPv4 address. Few hosts are packed over and over. Raises ``ValueError`` for other
    hosts."""
    return IPv4Address(host).packed


def _trailer(checksum: int) -> bytes:
    """``__CRC32#`` and ten digits, the least significant one first."""
    return b"%b%b\x02" % (_CRC_NAME, (b"%010d" % checksum)[::-1])


def encode(
    *,
    topic: str,
    queue_id: int,
    offset: int,
    position: int,
    body: bytes,
    properties: bytes = b"",
    born_ms: int = 0,
    store_ms: int = 0,
    flag: int = 0,
    sys_flag: int = 0,
    reconsume_times: int = 0,
    prepared: int = 0,
    born_host: Address = NOWHERE,
    store_host: Address = NOWHERE,
) -> bytes:
    """Lay out one record. ``born_host``: where the client sent it from; ``store_host``: where it was taken;
    ``prepared``: see :class:`Record`.

    Raises ``ValueError`` when a part is too long, or a host has no IPv4 address.
    """
    name = topic.encode()
    if properties and not properties.endswith(b"\x02"):
        properties += b"\x02"
    properties_bytes = len(properties) + _CRC_BYTES
    if not 0 < len(name) <= MAX_TOPIC_BYTES or properties_bytes > MAX_PROPERTIES_BYTES or len(body) > MAX_BODY_BYTES:
        raise ValueError(f"record too large: topic {len(name)}, properties {properties_bytes}, body {len(body)} bytes")
    size = _HEAD.size + len(body) + 1 + len(name) + 2 + properties_bytes
    head = _HEAD.pack(
        size,
        MAGIC,
        crc32(body) & 0x7FFFFFFF,
        queue_id,
        flag,
        offset,
        position,
        sys_flag & ~_HOST_V6_FLAGS,
        born_ms,
        _packed(born_host[0]),
        born_host[1],
        store_ms,
        _packed(store_host[0]),
        store_host[1],
        reconsume_times,
        prepared,
        len(body),
    )
    data = b"".join((head, body, bytes((len(name),)), name, properties_bytes.to_bytes(2, "big"), properties))
    return data + _trailer(crc32(data))


def size_at(data: bytes, at: int) -> int:
    """Return the size of the record that begins at ``at``, or -1 when too few bytes are there. Raise
    :class:`BadRecord`."""
    if at + 4 > len(data):
        return -1
    size: int = _SIZE.unpack_from(data, at)[0]
    if not _MIN_BYTES <= size <= MAX_BYTES:
        raise BadRecord(f"impossible record size {size}")
    return size


def is_sound(data: bytes, at: int, end: int) -> bool:
    """Return whether the checksum in the last property of the record that lies there is that of all bytes before it."""
    checked = end - _CRC_BYTES
    return data[checked:end] == _trailer(crc32(data[at:checked]))


def with_queue(data: bytes, queue_id: int) -> bytes:
    """Return one whole record as another queue's, with the checksum that it has there."""
    name = queue_id.to_bytes(4, "big", signed=True)
    if data[_QUEUE_AT : _QUEUE_AT + 4] == name:
        return data
    changed = b"".join((data[:_QUEUE_AT], name, data[_QUEUE_AT + 4 : -_CRC_BYTES]))
    return changed + _trailer(crc32(changed))


def moved(
    data: bytes,
    *,
    topic: str,
    queue_id: int,
    offset: int,
    position: int,
    store_ms: int,
    properties: bytes,
    prepared: int,
    sys_flag: int | None = None,
    reconsume_times: int | None = None,
) -> bytes:
    """Return the message of one whole record as a record that stands elsewhere. ``sys_flag``: the bits of its
    transaction in place of its own (None: as they are); ``reconsume_times``: in place of its own."""
    values = _HEAD.unpack_from(data)
    flag, flags, born_ms, born_ip, born_port, _, store_ip, store_port, returned = (values[4], *values[7:15])
    body = data[_HEAD.size : _HEAD.size + values[16]]
    return encode(
        topic=topic,
        queue_id=queue_id,
        offset=offset,
        position=position,
        body=body,
        properties=properties,
        born_ms=born_ms,
        store_ms=store_ms,
        flag=flag,
        sys_flag=flags if sys_flag is None else flags & ~_TRANSACTION_FLAGS | sys_flag,
        reconsume_times=returned if reconsume_times is None else reconsume_times,
        prepared=prepared,
        born_host=(str(IPv4Address(born_ip)), born_port),
        store_host=(str(IPv4Address(store_ip)), store_port),
    )


def reconsumed(data: bytes) -> int:
    """Return how often the message of one whole record has come back from consumers."""
    times: int = _HEAD.unpack_from(data)[14]
    return times


def source_of(data: bytes) -> Address:
    """Return where the message of one whole record was stored first."""
    values = _HEAD.unpack_from(data)
    return str(IPv4Address(values[12])), values[13]


def decode(data: bytes, at: int = 0, sound: IsSound = is_sound) -> Record:
    """Decode and check the record at ``at``. Raises :class:`BadRecord` when anything is missing or damaged."""
    size = size_at(data, at)
    end = at + size
    if size < 0 or end > len(data):
        raise BadRecord("the record is cut off")
    if not sound(data, at, end):
        raise BadRecord("the record's CRC does not match")
    checked = end - _CRC_BYTES
    queue_id, offset, position, store_ms, prepared, body_bytes = _READ_HEAD.unpack_from(data, at)
    body_at = at + _HEAD.size
    topic_at = body_at + body_bytes
    try:
        topic_end = topic_at + 1 + data[topic_at]
        topic = data[topic_at + 1 : topic_end].decode()
    except (IndexError, UnicodeDecodeError) as error:
        raise BadRecord(f"the record's parts do not fit: {error}") from error
    return Record(
        size=size,
        queue_id=queue_id,
        offset=offset,
        position=position,
        store_ms=store_ms,
        topic=topic,
        body=data[body_at:topic_at],
        properties=data[topic_end + 2 : checked],
        prepared=prepared,
    )


def decode_all(data: bytes, sound: IsSound = is_sound) -> list[Record]:
    """Decode records that stand back to back. Raises :class:`BadRecord` when they don't fill ``data`` exactly."""
    found: list[Record] = []
    at = 0
    while at < len(data):
        record = decode(data, at, sound)
        found.append(record)
        at += record.size
    return found
