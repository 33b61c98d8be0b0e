"""The state of one group, as the committed entries of its log make it: records, sealed segments, consumers' offsets.

It is a pure function of the entries: epoch, repeat and place of an append are decided here, when it is applied, and
nowhere else (R1). Checks that were made before only save work.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from reference.split.requests import MAX_COMMITS, MAX_POSITION, MAX_QUEUES
from reference.split.segments import SealedSegment, Segment, digest_of
from reference.split.store.entries import DELETED, Append, CommitOffset, Entry, Fence, RecordHead, Seal, Trim, Uploaded
from reference.split.store.entries import record_heads as heads_of
from reference.split.store.tail import QueueKey, Tail
from reference.wire.codes import Response

#: So many appends of an epoch are known by their checksum, so that their repeats are answered again (R3). A broker has
#: never as many under way.
MAX_REPEATS = 1024

#: Why an entry changed nothing, by its code; as traces and remarks say it.
REASONS: Mapping[int, str] = {
    Response.GROUP_FENCED: "fenced",
    Response.GROUP_GAP: "gap",
    Response.GROUP_OTHER: "other",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an entry did. ``code``: 0, or why it changed nothing. ``again``: the same had been added before. ``made``:
    the segments of a SEAL as this replica has them, and their bytes; ``gone``: those that a TRIM drops."""

    code: int = 0
    again: bool = False
    made: Mapping[Segment, bytes] = field(default_factory=dict)
    gone: tuple[SealedSegment, ...] = ()
    is_damaged: bool = False


OK = Outcome()


@dataclass(slots=True)
class Queue:
    """The offsets of a queue: its first and next, and the first one that isn't sealed."""

    first: int = 0
    next: int = 0
    sealed: int = 0


@dataclass(slots=True)
class Trimmed:
    """How far a topic is trimmed: by which version of its entry last, and the end of its last segment that is gone."""

    version: int
    position: int


class Group:
    """The state machine of group ``number``."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.fence = Fence(slice=0, epoch=0, broker="", life=0)
        self.now_ms = 0
        self.tail = Tail(number)
        self.queues: dict[QueueKey, Queue] = {}
        self.commits: dict[tuple[str, int, int], int] = {}
        self.segments: dict[Segment, SealedSegment] = {}  # oldest first
        self._by_queue: dict[QueueKey, list[SealedSegment]] | None = None  # the same, once it was asked for
        self.trimmed: dict[int, Trimmed] = {}  # by topic id
        self.names: dict[int, str] = {}  # of topics, by id
        self.repeats: dict[int, tuple[int, int]] = {}  # position → checksum and size, of this epoch's last appends

    # What it holds

    @property
    def end(self) -> int:
        """Where the next record goes."""
        return self.tail.end

    @property
    def sealed(self) -> int:
        """The end of the last SEAL."""
        return self.tail.start

    @property
    def start(self) -> int:
        """Where the oldest segment begins that is kept."""
        return min((one.start for one in self.segments), default=self.sealed)

    def minimum(self, key: QueueKey) -> int:
        """Return a queue's first offset."""
        return self.queues[key].first if key in self.queues else 0

    def maximum(self, key: QueueKey) -> int:
        """Return the offset after a queue's last record."""
        return self.queues[key].next if key in self.queues else 0

    def find(self, key: QueueKey, offset: int) -> SealedSegment | None:
        """Return the segment that holds this offset of a queue; None where the tail does, or nothing."""
        if self._by_queue is None:
            self._by_queue = {}
            for one in self.segments.values():
                for number in one.ranges:
                    self._by_queue.setdefault((one.segment.topic_id, number), []).append(one)
        segments = self._by_queue.get(key, [])
        at = bisect_right(segments, offset, key=lambda one: one.ranges[key[1]][0]) - 1
        return segments[at] if at >= 0 and offset < segments[at].ranges[key[1]][1] else None

    def of_topic(self, topic_id: int) -> list[SealedSegment]:
        """Return the segments of a topic, oldest first."""
        return [one for segment, one in self.segments.items() if segment.topic_id == topic_id]

    def kept(self, topic_id: int) -> tuple[int, int]:
        """Return the store time of the oldest record of a topic that is kept (-1: there is none), and the bytes of all
        of them."""
        segments = self.of_topic(topic_id)
        tail = [head for key, heads in self.tail.queues.items() if key[0] == topic_id for head in heads]
        times = [*(one.oldest_ms for one in segments), *(head.store_ms for head in tail)]
        return min(times, default=-1), sum(one.size for one in segments) + sum(head.size for head in tail)

    def topic_ids(self) -> list[int]:
        """Return the topics that have queues here."""
        return sorted({topic_id for topic_id, _ in self.queues})

    # Decisions, each of which a promise rests on

    def takes_fence(self, fence: Fence) -> bool:
        """Only a higher epoch takes over; the same incarnation may ask again (R12)."""
        return fence.epoch > self.fence.epoch or fence == self.fence

    def has_epoch(self, epoch: int) -> bool:
        """Only the owner whose fence was applied last may change anything, whatever was checked before (R1)."""
        return epoch == self.fence.epoch and epoch > 0

    def is_repeat(self, entry: Append) -> bool:
        """The same bytes at the same place in the same epoch are the same append (R3)."""
        return self.repeats.get(entry.position) == (entry.crc, len(entry.records))

    def goes_on(self, entry: Append, heads: Iterable[RecordHead]) -> bool:
        """Each queue's offsets are dense: a refused append uses none (R1)."""
        ends: dict[QueueKey, int] = {}
        for head in heads:
            key = entry.topics[head.topic], head.number
            if head.offset != ends.get(key, self.maximum(key)):
                return False
            ends[key] = head.offset + 1
        return len(self.queues) + sum(key not in self.queues for key in ends) <= MAX_QUEUES

    def may_seal(self, entry: Seal) -> bool:
        """A seal follows the last one, and ends where a record that is applied ends (R5)."""
        return entry.start == self.sealed < entry.end <= self.end and self.tail.is_boundary(entry.end)

    def may_trim(self, entry: Trim) -> bool:
        """An older version of the topic's entry decides nothing (R10), and only what is sealed goes."""
        known = self.trimmed.get(entry.topic_id)
        return (known is None or entry.version >= known.version) and all(
            (entry.topic_id, number) in self.queues and offset <= self.queues[entry.topic_id, number].sealed
            for number, offset in entry.starts.items()
        )

    def logged_time(self, now_ms: int) -> int:
        """Logged time never falls (R10)."""
        return max(self.now_ms, now_ms)

    def lowest_commit(self, known: int, offset: int) -> int:
        """A consumer's offset never goes back: one that comes late has no effect."""
        return max(known, offset)

    # Entries

    def apply(self, entry: Entry) -> Outcome:
        """Apply a committed entry."""
        if isinstance(entry, Append):
            return self._append(entry)
        if isinstance(entry, CommitOffset):
            return self._commit(entry)
        if isinstance(entry, Fence):
            return self._fence(entry)
        if isinstance(entry, Seal):
            return self._seal(entry)
        return self._uploaded(entry) if isinstance(entry, Uploaded) else self._trim(entry)

    def _fence(self, entry: Fence) -> Outcome:
        if not self.takes_fence(entry):
            return Outcome(code=Response.GROUP_FENCED)
        if entry.epoch > self.fence.epoch:
            self.fence = entry
            self.repeats.clear()
        return OK

    def _append(self, entry: Append) -> Outcome:
        if not self.has_epoch(entry.epoch):
            return Outcome(code=Response.GROUP_FENCED)
        if self.is_repeat(entry):
            return Outcome(again=True)
        if entry.position > self.end:
            return Outcome(code=Response.GROUP_GAP)
        heads = list(heads_of(self.number, entry.position, entry.records))
        if entry.position < self.end or entry.end > MAX_POSITION or not self.goes_on(entry, heads):
            return Outcome(code=Response.GROUP_OTHER)
        for head in heads:
            self.queues.setdefault((entry.topics[head.topic], head.number), Queue()).next = head.offset + 1
        self.names |= {topic_id: name for name, topic_id in entry.topics.items()}
        self.tail.add(entry.records, entry.topics, heads)
        self.repeats[entry.position] = entry.crc, len(entry.records)
        if len(self.repeats) > MAX_REPEATS:
            del self.repeats[next(iter(self.repeats))]
        return OK

    def _commit(self, entry: CommitOffset) -> Outcome:
        if not self.has_epoch(entry.epoch):
            return Outcome(code=Response.GROUP_FENCED)
        key = entry.consumer, entry.topic_id, entry.number
        if key not in self.commits and len(self.commits) >= MAX_COMMITS:
            return Outcome(code=Response.GROUP_OTHER)
        self.commits[key] = self.lowest_commit(self.commits.get(key, 0), entry.offset)
        return OK

    def _seal(self, entry: Seal) -> Outcome:
        if not self.may_seal(entry):
            return Outcome(code=Response.GROUP_OTHER)
        self.now_ms = self.logged_time(entry.now_ms)
        made = self.cut_segments(entry.end)
        for one, _ in made:
            self.segments[one.segment] = one
            for number, (_, after) in one.ranges.items():
                self.queues[one.segment.topic_id, number].sealed = after
        self.tail.cut(entry.end)
        self._by_queue = None
        own = {one.segment.topic_id: one.segment.digest for one, _ in made}
        return Outcome(made={one.segment: data for one, data in made}, is_damaged=own != dict(entry.digests))

    def cut_segments(self, end: int) -> list[tuple[SealedSegment, bytes]]:
        """Return the segments that a SEAL up to ``end`` makes, by topic id, and their bytes."""
        heads: dict[int, list[RecordHead]] = {}
        for (topic_id, _), head in self.tail.before(end):
            heads.setdefault(topic_id, []).append(head)
        return [self._cut_segment(topic_id, end, heads[topic_id]) for topic_id in sorted(heads)]

    def _cut_segment(self, topic_id: int, end: int, heads: list[RecordHead]) -> tuple[SealedSegment, bytes]:
        data = b"".join(map(self.tail.record, heads))
        ranges: dict[int, tuple[int, int]] = {}
        for head in heads:
            ranges[head.number] = ranges.get(head.number, (head.offset, 0))[0], head.offset + 1
        digest = digest_of(data)
        made = SealedSegment(
            segment=Segment(group=self.number, topic_id=topic_id, start=self.sealed, end=end, digest=digest),
            size=len(data),
            sealed_ms=self.now_ms,
            oldest_ms=min(head.store_ms for head in heads),
            newest_ms=max(head.store_ms for head in heads),
            ranges=ranges,
        )
        return made, data

    def _uploaded(self, entry: Uploaded) -> Outcome:
        known = self.segments.get(entry.segment)
        if known is None:
            return Outcome(code=Response.GROUP_OTHER)
        known.is_uploaded = True
        return OK

    def _trim(self, entry: Trim) -> Outcome:
        if not self.may_trim(entry):
            return Outcome(code=Response.GROUP_OTHER)
        self.now_ms = self.logged_time(entry.now_ms)
        for number, offset in entry.starts.items():
            queue = self.queues[entry.topic_id, number]
            queue.first = max(queue.first, offset)
        gone = self._drop_below(entry.topic_id)
        before = self.trimmed.get(entry.topic_id, Trimmed(0, 0)).position
        position = max([before, *(one.segment.end for one in gone)])
        self.trimmed[entry.topic_id] = Trimmed(entry.version, position)
        if entry.rule == DELETED:
            self.commits = {key: offset for key, offset in self.commits.items() if key[1] != entry.topic_id}
        return Outcome(gone=tuple(gone))

    def _drop_below(self, topic_id: int) -> list[SealedSegment]:
        """Drop the oldest segments of a topic of which no record is kept; up to the first that has one."""
        gone = []
        self._by_queue = None
        for one in self.of_topic(topic_id):
            if any(after > self.minimum((topic_id, number)) for number, (_, after) in one.ranges.items()):
                break
            gone.append(one)
            del self.segments[one.segment]
        return gone
