"""Entries of a group's log: one byte for the kind, and what follows; that of APPEND is packed, of all others JSON.

Entries that name members are Raft's own. All that is read here raises :class:`chaos.node.Malformed` for what can't be,
so that no member ever logs an entry that it could not apply.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple
from zlib import crc32

from chaos.node import Malformed
from reference.broker.records import BadRecord, size_at
from reference.split.layout import MAX_GROUPS
from reference.split.requests import MAX_APPEND_BYTES, MAX_POSITION, AppendRequest, place_of, read_topics
from reference.split.segments import Segment
from reference.wire.fields import item, listed, read_object, to_json

#: What a TRIM follows: the age of segments, the bytes of a topic, or that the topic is deleted.
BY_TIME, BY_SIZE, DELETED = "time", "size", "deleted"
_FENCE, _APPEND, _COMMIT, _SEAL, _UPLOADED, _TRIM = b"F", b"A", b"C", b"S", b"U", b"T"
_HEAD = struct.Struct(">qqII")  # epoch, position, checksum of the records, size of the table of topics
#: Of a record's head: queue, offset, position, store time, size of the body; and how long the head is.
_RECORD, _RECORD_HEAD = struct.Struct(">12xi4xqq12x8xq20xi"), 88


class RecordHead(NamedTuple):
    """What a group keeps of a record. ``number`` is its queue's, ``position`` its first byte in the group."""

    position: int
    size: int
    topic: str
    number: int
    offset: int
    store_ms: int


def record_heads(group: int, position: int | None, records: bytes) -> Iterator[RecordHead]:
    """Yield the records that lie back to back from ``position`` on; without one, where each says that it lies. Raises
    :class:`chaos.node.Malformed` where there are no whole records of this place."""
    at = 0
    try:
        while at < len(records):
            size = size_at(records, at)
            if size < 0 or at + size > len(records):
                raise Malformed("the last record is cut off")
            number, offset, place, store_ms, body_bytes = _RECORD.unpack_from(records, at)
            name_at = at + _RECORD_HEAD + body_bytes + 1
            topic = records[name_at : name_at + records[name_at - 1]].decode()
            group_at, lies_at = place_of(place)
            if group_at != group or position not in (None, lies_at - at):
                raise Malformed(f"a record at {position} + {at} of group {group} says it lies at {place}")
            yield RecordHead(lies_at, size, topic, number, offset, store_ms)
            at += size
    except (BadRecord, IndexError, UnicodeDecodeError) as error:
        raise Malformed(f"these are no records: {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """FENCE: from here on only this epoch of the slice, which is this incarnation of a broker, may append."""

    slice: int
    epoch: int
    broker: str
    life: int

    def encode(self) -> bytes:
        return _FENCE + to_json(asdict(self))

    @staticmethod
    def decode(body: bytes) -> Fence:
        return Fence.of_row(read_object(body))

    @staticmethod
    def of_row(row: Mapping[str, Any]) -> Fence:
        """Read one from a JSON object. Raises :class:`chaos.node.Malformed`."""
        return Fence(**_naturals(row, "slice", "epoch", "life"), broker=item(row, "broker", str))


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """APPEND: add ``records`` at ``position``, if that is the end. ``topics``: ids by name."""

    epoch: int
    position: int
    crc: int
    topics: Mapping[str, int]
    records: bytes

    @property
    def end(self) -> int:
        return self.position + len(self.records)

    @staticmethod
    def of(request: AppendRequest) -> Append:
        """Return the entry that a broker asks for."""
        return Append(
            epoch=request.epoch,
            position=request.position,
            crc=request.crc,
            topics=request.topics,
            records=request.records,
        )

    def encode(self) -> bytes:
        table = to_json(dict(self.topics))
        return b"".join((_APPEND, _HEAD.pack(self.epoch, self.position, self.crc, len(table)), table, self.records))

    @staticmethod
    def decode(body: bytes) -> Append:
        if len(body) < _HEAD.size:
            raise Malformed("an append is cut off")
        epoch, position, crc, size = _HEAD.unpack_from(body)
        begin = _HEAD.size + size
        records = body[begin:]
        if epoch < 0 or not 0 <= position < MAX_POSITION or not 0 < len(records) <= MAX_APPEND_BYTES:
            raise Malformed(f"no append has epoch {epoch}, position {position} and {len(records)} bytes of records")
        topics = read_topics(body[_HEAD.size : begin])
        return Append(epoch=epoch, position=position, crc=crc, topics=topics, records=records)

    def check(self, group: int) -> None:
        """Raise :class:`chaos.node.Malformed` unless the records are whole, of this place, and of the topics named."""
        if crc32(self.records) != self.crc:
            raise Malformed(f"the records' checksum is {crc32(self.records)}, not {self.crc}")
        for head in record_heads(group, self.position, self.records):
            if head.topic not in self.topics or head.number < 0 or head.offset < 0:
                raise Malformed(f"no record is of queue {head.number} and offset {head.offset} of {head.topic!r:.80}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOffset:
    """COMMIT: a consumer group has consumed a queue up to ``offset``."""

    epoch: int
    consumer: str
    topic_id: int
    number: int
    offset: int

    def encode(self) -> bytes:
        numbers = {"epoch": self.epoch, "topic_id": self.topic_id, "number": self.number, "offset": self.offset}
        return _COMMIT + to_json({**numbers, "consumer": self.consumer})

    @staticmethod
    def decode(body: bytes) -> CommitOffset:
        row = read_object(body)
        numbers = _naturals(row, "epoch", "topic_id", "number", "offset")
        return CommitOffset(**numbers, consumer=item(row, "consumer", str))


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """SEAL: what lies in [start, end) is a segment of each topic in it; ``digests`` are theirs, by topic id."""

    start: int
    end: int
    digests: Mapping[int, str]
    now_ms: int

    def encode(self) -> bytes:
        digests = [[topic_id, digest] for topic_id, digest in self.digests.items()]
        return _SEAL + to_json({"start": self.start, "end": self.end, "digests": digests, "now_ms": self.now_ms})

    @staticmethod
    def decode(body: bytes) -> Seal:
        row = read_object(body)
        numbers = _naturals(row, "start", "end", "now_ms")
        return Seal(**numbers, digests=dict(listed(row, "digests", int, str)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploaded:
    """UPLOADED: the object store holds this segment, durably."""

    segment: Segment

    def encode(self) -> bytes:
        return _UPLOADED + to_json(self.segment.row())

    @staticmethod
    def decode(body: bytes) -> Uploaded:
        return Uploaded(segment=Segment.of_row(read_object(body)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trim:
    """TRIM: queues of a topic begin at ``starts`` (offsets by number) from now on, by a rule of this version of the
    topic's entry, judged at ``now_ms``."""

    topic_id: int
    version: int
    rule: str
    now_ms: int
    starts: Mapping[int, int]

    def encode(self) -> bytes:
        starts = [[number, offset] for number, offset in self.starts.items()]
        row = {"topic_id": self.topic_id, "version": self.version, "rule": self.rule, "now_ms": self.now_ms}
        return _TRIM + to_json({**row, "starts": starts})

    @staticmethod
    def decode(body: bytes) -> Trim:
        row = read_object(body)
        numbers = _naturals(row, "topic_id", "version", "now_ms")
        starts = dict(listed(row, "starts", int, int))
        rule = item(row, "rule", str)
        if rule not in (BY_TIME, BY_SIZE, DELETED) or min(starts.values(), default=0) < 0:
            raise Malformed(f"no trim follows {rule!r:.80}, or to {starts!r:.80}")
        return Trim(**numbers, rule=rule, starts=starts)


Entry = Fence | Append | CommitOffset | Seal | Uploaded | Trim
_KINDS: Mapping[bytes, Callable[[bytes], Entry]] = {
    _FENCE: Fence.decode,
    _APPEND: Append.decode,
    _COMMIT: CommitOffset.decode,
    _SEAL: Seal.decode,
    _UPLOADED: Uploaded.decode,
    _TRIM: Trim.decode,
}


def decode(data: bytes) -> Entry:
    """Return the entry that these bytes are. Raises :class:`chaos.node.Malformed`."""
    read = _KINDS.get(data[:1])
    if read is None:
        raise Malformed(f"no entry of a group begins with {data[:1]!r}")
    return read(data[1:])


def check(group: int, data: bytes) -> None:
    """Raise :class:`chaos.node.Malformed` for what can't be applied in this group."""
    assert 0 <= group < MAX_GROUPS
    entry = decode(data)
    if isinstance(entry, Append):
        entry.check(group)


def _naturals(row: Mapping[str, Any], *keys: str) -> dict[str, int]:
    numbers = {key: item(row, key, int) for key in keys}
    for key, number in numbers.items():
        if number < 0:
            raise Malformed(f"{key} is {number}")
    return numbers
