"""The open end of a group: the records behind its last sealed segment, in memory, and where each of them lies."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from chaos.node import Malformed
from reference.split.requests import MAX_POSITION, read_topics
from reference.split.store.entries import RecordHead, record_heads
from reference.wire.fields import item, listed, to_json

#: A queue of a group: the id of its topic, and its number.
QueueKey = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that one APPEND brought, as far as they are not sealed yet: ``size`` bytes at ``position``."""

    position: int
    size: int
    topics: Mapping[str, int]


class Tail:
    """The bytes in [``start``, ``end``) of a group."""

    def __init__(self, group: int, start: int = 0) -> None:
        self._group = group
        self.start = start
        self.data = bytearray()
        self.batches: list[Batch] = []
        self.heads: list[RecordHead] = []
        self.keys: list[QueueKey] = []  # of the records in ``heads``
        self.queues: dict[QueueKey, list[RecordHead]] = {}  # the same records, by queue

    @property
    def end(self) -> int:
        """Where the next record goes."""
        return self.start + len(self.data)

    def add(self, records: bytes, topics: Mapping[str, int], heads: Sequence[RecordHead]) -> None:
        """Take in records that begin at the end."""
        self.batches.append(Batch(self.end, len(records), topics))
        for head in heads:
            key = topics[head.topic], head.number
            self.heads.append(head)
            self.keys.append(key)
            self.queues.setdefault(key, []).append(head)
        self.data += records

    def is_boundary(self, position: int) -> bool:
        """Return whether a record begins or ends there."""
        at = self._index(position)
        return position == self.end or (at < len(self.heads) and self.heads[at].position == position)

    def _index(self, position: int) -> int:
        return _first_at(self.heads, position)

    def record(self, head: RecordHead) -> bytes:
        """Return one of its records."""
        begin = head.position - self.start
        return bytes(self.data[begin : begin + head.size])

    def before(self, position: int) -> Iterator[tuple[QueueKey, RecordHead]]:
        """Yield the records that end at ``position`` or before, with their queues."""
        for at in range(self._index(position)):
            yield self.keys[at], self.heads[at]

    def of_queue(self, key: QueueKey, offset: int) -> Sequence[RecordHead]:
        """Return where the records of a queue lie, from an offset on that it has here."""
        heads = self.queues.get(key, ())
        return heads[offset - heads[0].offset :] if heads and offset >= heads[0].offset else ()

    def cut(self, position: int) -> None:
        """Forget what lies before ``position``, where a record begins."""
        count = self._index(position)
        for key in dict.fromkeys(self.keys[:count]):
            heads = self.queues[key]
            del heads[: _first_at(heads, position)]
            if not heads:
                del self.queues[key]
        del self.heads[:count]
        del self.keys[:count]
        del self.data[: position - self.start]
        self.start = position
        self.batches = [_cut_batch(one, position) for one in self.batches if one.position + one.size > position]

    # Snapshots

    def rows(self) -> list[list[object]]:
        """Return what a snapshot needs besides the bytes: the topics of each batch."""
        return [[one.size, to_json(dict(one.topics)).decode()] for one in self.batches]

    @staticmethod
    def restored(group: int, start: int, data: bytes, rows: object) -> Tail:
        """Build it from a snapshot. Raises :class:`chaos.node.Malformed`."""
        tail = Tail(group, start)
        at = 0
        for size, table in listed({"batches": rows}, "batches", int, str):
            records, topics = data[at : at + size], read_topics(table.encode())
            if size <= 0 or len(records) < size or tail.end + size > MAX_POSITION:
                raise Malformed("a snapshot's records are cut off")
            heads = list(record_heads(group, tail.end, records))
            for head in heads:
                item(topics, head.topic, int)
            tail.add(records, topics, heads)
            at += size
        if at != len(data):
            raise Malformed(f"a snapshot has {len(data) - at} bytes of no batch")
        return tail


def _first_at(heads: Sequence[RecordHead], position: int) -> int:
    """Return how many of these records begin before a position."""
    return bisect_left(heads, position, key=lambda head: head.position)


def _cut_batch(batch: Batch, position: int) -> Batch:
    begin = max(batch.position, position)
    return Batch(begin, batch.position + batch.size - begin, batch.topics)
