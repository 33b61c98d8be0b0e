"""Names and bytes of the tier's data objects.

A data object is immutable and holds consecutive records of one queue exactly as the commit log holds them. Its layout,
big-endian: a header (magic, layout number, queue, base offset, record count), then for each record its offset,
position, epoch, body hash and length followed by its bytes, then a CRC-32 over all that precedes it. The name says who
made it, so that two uploaders, two lives of one, or two attempts never meet on one name.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from zlib import crc32

from reference.tier.interface import Stored

_MAGIC = b"SPTO"
_LAYOUT = 1
_HEADER = struct.Struct(">4sHqqI")
_RECORD = struct.Struct(">qqqqI")
_CRC = struct.Struct(">I")
_DATA_KEY = re.compile(r"queues/(\d+)/data/(\d{20})-(\d+)-(\d+)-(\d+)")


class ObjectError(ValueError):
    """The bytes are no data object, or not the one that was written."""


def content_hash(data: bytes) -> int:
    """Return the identity of an object's bytes: the first 63 bits of BLAKE2b, as for message bodies in the history."""
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big") >> 1


def manifest_key(queue: int) -> str:
    return f"queues/{queue}/manifest"


def data_prefix(queue: int) -> str:
    return f"queues/{queue}/data/"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataName:
    """What a data object's key says. Zero-padded bases make keys sort by offset."""

    queue: int
    base: int
    epoch: int
    generation: int
    attempt: int

    @property
    def key(self) -> str:
        return f"{data_prefix(self.queue)}{self.base:020d}-{self.epoch}-{self.generation}-{self.attempt}"


def parse_key(key: str) -> DataName | None:
    """Read a data object's key; None for any other key."""
    match = _DATA_KEY.fullmatch(key)
    if match is None:
        return None
    queue, base, epoch, generation, attempt = map(int, match.groups())
    return DataName(queue=queue, base=base, epoch=epoch, generation=generation, attempt=attempt)


def encode(queue: int, records: Sequence[Stored]) -> bytes:
    """Encode records of ``queue``; they must be consecutive by offset and at least one."""
    assert records, "a data object holds at least one record"
    parts = [_HEADER.pack(_MAGIC, _LAYOUT, queue, records[0].offset, len(records))]
    for record in records:
        size = len(record.data)
        parts.append(_RECORD.pack(record.offset, record.position, record.epoch, record.hash, size))
        parts.append(record.data)
    body = b"".join(parts)
    return body + _CRC.pack(crc32(body))


def decode(data: bytes) -> tuple[Stored, ...]:
    """Decode a data object into its records, by offset.

    Raises:
        ObjectError: a byte was changed, cut or added, or the records aren't consecutive.
    """
    end = len(data) - _CRC.size
    if end < _HEADER.size:
        raise ObjectError(f"expected at least {_HEADER.size + _CRC.size} bytes, got {len(data)}")
    if crc32(memoryview(data)[:end]) != _CRC.unpack_from(data, end)[0]:
        raise ObjectError("the checksum doesn't match")
    magic, layout, queue, base, count = _HEADER.unpack_from(data)
    if (magic, layout) != (_MAGIC, _LAYOUT):
        raise ObjectError(f"expected a data object of layout {_LAYOUT}, got {magic!r} of layout {layout}")
    records = []
    at = _HEADER.size
    for expected in range(base, base + count):
        if at + _RECORD.size > end:
            raise ObjectError(f"record {expected} is missing")
        offset, position, epoch, hash, size = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        if offset != expected or at + size > end:
            raise ObjectError(f"expected record {expected} within {end} bytes, got {offset} of {size} bytes at {at}")
        body = data[at : at + size]
        records.append(Stored(queue=queue, offset=offset, position=position, epoch=epoch, hash=hash, data=body))
        at += size
    if at != end:
        raise ObjectError(f"{end - at} bytes follow the last record")
    return tuple(records)
