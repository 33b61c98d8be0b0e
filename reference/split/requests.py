"""What brokers ask of stores, and stores of one another: each form is written and read here, once.

A request has ``to_command`` for its sender and ``read`` for its receiver; an answer has ``reply`` and ``read``. All
that is read raises :class:`chaos.node.Malformed` for what can't be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

from chaos.events import POSITION_BITS
from chaos.node import Malformed
from reference.split.layout import MAX_GROUPS
from reference.split.segments import Segment
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.fields import item, listed, optional_text, read_json, read_object, text, to_json, whole

#: So many bytes may a group ever hold: a position and its group make one number of 64 bits.
MAX_POSITION = 1 << POSITION_BITS
#: So many bytes of records, and of topics, may one append hold.
MAX_APPEND_BYTES, MAX_TOPICS = 8 << 20, 1 << 12
#: So many queues, those of deleted topics too, and offsets of consumers does a group hold: as many as the answer to a
#: FENCE has room for, however long the names are.
MAX_QUEUES, MAX_COMMITS = 1 << 16, 1 << 13
#: So many bytes are read of a queue, or of a segment, in one answer.
MAX_READ_BYTES = 4 << 20
#: Where a read may take records from: anywhere, the object store alone, or this node's own disk alone.
ANYWHERE, TIER_ONLY, LOCAL_ONLY = "", "only", "no"

#: The answers by which a store refuses; each has a sentence in its remark.
REFUSALS = frozenset(
    {
        Response.SYSTEM_BUSY,
        Response.GROUP_NOT_LEADER,
        Response.GROUP_MOVED,
        Response.GROUP_FENCED,
        Response.GROUP_BEHIND,
        Response.GROUP_GAP,
        Response.GROUP_BELOW_START,
        Response.GROUP_OTHER,
    }
)


def physical_offset(group: int, position: int) -> int:
    """Return what a record says of its place: unlike a position, it is the only one of its cluster."""
    return group << POSITION_BITS | position


def place_of(physical: int) -> tuple[int, int]:
    """Return the group and the position in a physical offset."""
    return physical >> POSITION_BITS, physical & (MAX_POSITION - 1)


def natural(fields: Mapping[str, str], key: str, below: int = 1 << 62) -> int:
    """Return a number of a header that is 0 or more. Raises :class:`chaos.node.Malformed`."""
    return _within(key, whole(fields, key), below)


def _within(key: str, number: int, below: int = 1 << 62) -> int:
    if not 0 <= number < below:
        raise Malformed(f"{key} must be at least 0 and below {below}, not {number}")
    return number


def group_of_request(fields: Mapping[str, str]) -> int:
    """Return the group that a request is about. Raises :class:`chaos.node.Malformed`."""
    return natural(fields, "group", MAX_GROUPS)


def _texts(**values: object) -> dict[str, str]:
    return {key: str(value) for key, value in values.items()}


# Fences


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceRequest:
    """Begin ``epoch`` of a slice in one of its groups, for this incarnation of a broker (its ``life``)."""

    group: int
    slice: int
    epoch: int
    broker: str
    life: int

    def to_command(self, opaque: int) -> Command:
        fields = _texts(group=self.group, slice=self.slice, epoch=self.epoch, life=self.life)
        return Command(code=Request.GROUP_FENCE, opaque=opaque, fields={**fields, "broker": self.broker})

    @classmethod
    def read(cls, message: Command) -> Self:
        """Read one. Raises :class:`chaos.node.Malformed`."""
        fields = message.fields
        return cls(
            group=group_of_request(fields),
            slice=natural(fields, "slice", MAX_GROUPS),
            epoch=natural(fields, "epoch"),
            broker=text(fields, "broker"),
            life=natural(fields, "life"),
        )


@dataclass(frozen=True, slots=True)
class Window:
    """The offsets of a queue that a group holds: from ``first`` up to ``next``, which is the next record's."""

    topic_id: int
    number: int
    first: int
    next: int


@dataclass(frozen=True, slots=True)
class Commit:
    """Up to where a consumer group has consumed a queue."""

    consumer: str
    topic_id: int
    number: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceAnswer:
    """What the group holds as of the fence; nothing of an earlier epoch can be added any more."""

    end: int
    queues: tuple[Window, ...]
    commits: tuple[Commit, ...]

    def reply(self, request: Command) -> Command:
        queues = [[one.topic_id, one.number, one.first, one.next] for one in self.queues]
        commits = [[one.consumer, one.topic_id, one.number, one.offset] for one in self.commits]
        body = to_json({"queues": queues, "commits": commits})
        return request.reply(fields=_texts(end=self.end), body=body)

    @classmethod
    def read(cls, message: Command) -> Self:
        """Read one. Raises :class:`chaos.node.Malformed`."""
        body = read_object(message.body)
        queues = tuple(Window(*row) for row in listed(body, "queues", int, int, int, int))
        commits = tuple(Commit(*row) for row in listed(body, "commits", str, int, int, int))
        for one in queues:
            if min(one.topic_id, one.number, one.first) < 0 or one.next < one.first:
                raise Malformed(f"queue {one.number} of topic {one.topic_id} can't be from {one.first} to {one.next}")
        return cls(end=natural(message.fields, "end", MAX_POSITION), queues=queues, commits=commits)


# Appends and consumers' offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRequest:
    """Add records at a position, if that is the group's end and this its epoch. ``topics``: the ids of the topics in
    ``records``, by name; ``crc``: of the records."""

    group: int
    epoch: int
    position: int
    crc: int
    topics: Mapping[str, int]
    records: bytes

    def to_command(self, opaque: int) -> Command:
        fields = _texts(group=self.group, epoch=self.epoch, position=self.position, crc=self.crc)
        fields["topics"] = to_json(dict(self.topics)).decode()
        return Command(code=Request.GROUP_APPEND, opaque=opaque, fields=fields, body=self.records)

    @classmethod
    def read(cls, message: Command) -> Self:
        """Read one; what the records are is for the group to check. Raises :class:`chaos.node.Malformed`."""
        fields = message.fields
        if not 0 < len(message.body) <= MAX_APPEND_BYTES:
            raise Malformed(f"an append has 1 to {MAX_APPEND_BYTES} bytes of records, not {len(message.body)}")
        return cls(
            group=group_of_request(fields),
            epoch=natural(fields, "epoch"),
            position=natural(fields, "position", MAX_POSITION),
            crc=natural(fields, "crc", 1 << 32),
            topics=read_topics(fields.get("topics", "").encode()),
            records=message.body,
        )


@lru_cache(maxsize=256)
def read_topics(found: bytes) -> Mapping[str, int]:
    """Return ids of topics by name, from JSON: few tables come again and again. Raises
    :class:`chaos.node.Malformed`."""
    topics = read_object(found)
    if not 0 < len(topics) <= MAX_TOPICS or len(set(map(str, topics.values()))) != len(topics):
        raise Malformed(f"an append names 1 to {MAX_TOPICS} topics, each with an id of its own")
    for name in topics:
        _within("the id of a topic", item(topics, name, int))
    return topics


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendAnswer:
    """The records are committed and applied; the group ends at ``end`` or beyond."""

    end: int

    def reply(self, request: Command) -> Command:
        return request.reply(fields=_texts(end=self.end))

    @classmethod
    def read(cls, message: Command) -> Self:
        """Read one. Raises :class:`chaos.node.Malformed`."""
        return cls(end=natural(message.fields, "end", MAX_POSITION + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """Note up to where a consumer group has consumed a queue. Answered without fields; a lower offset changes
    nothing."""

    group: int
    epoch: int
    consumer: str
    topic_id: int
    number: int
    offset: int

    def to_command(self, opaque: int) -> Command:
        fields = _texts(group=self.group, epoch=self.epoch, topic_id=self.topic_id, number=self.number)
        fields |= {"consumer": self.consumer, "offset": str(self.offset)}
        return Command(code=Request.GROUP_COMMIT, opaque=opaque, fields=fields)

    @classmethod
    def read(cls, message: Command) -> Self:
        """Read one. Raises :class:`chaos.node.Malformed`."""
        fields = message.fields
        return cls(
            group=group_of_request(fields),
            epoch=natural(fields, "epoch"),
            consumer=text(fields, "consumer"),
            topic_id=natural(fields, "topic_id"),
            number=natural(fields, "number"),
            offset=natural(fields, "offset"),
        )


# Reads


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """Give records of a queue from ``offset`` on, at most ``count`` of them, and ``bytes`` unless the first one alone
    has more. ``tier`` is :data:`ANYWHERE`, :data:`TIER_ONLY` or :data:`LOCAL_ONLY`; ``map`` the index of the MEMBERS
    entry by which the sender chose the store, -1 where it knows none."""

    group: int
    map: int = -1
    topic_id: int
    number: int
    offset: int
    count: int
    bytes: int
    tier: str = ANYWHERE

    def to_command(self, opaque: int) -> Command:
        fields = _texts(group=self.group, map=self.map, topic_id=self.topic_id, number=self.number)
        fields |= _texts(offset=self.offset, count=self.count, bytes=self.bytes, tier=self.tier)
        return Command(code=Request.GROUP_READ, opaque=opaque, fields=fields)

    @classmethod
    def read(cls, message: Command) -> Self:
        """Read one. Raises :class:`chaos.node.Malformed`."""
        fields = message.fields
        tier = optional_text(fields, "tier")
        if tier not in (ANYWHERE, TIER_ONLY, LOCAL_ONLY):
            raise Malformed(f"tier must be {TIER_ONLY}, {LOCAL_ONLY} or empty, not {tier[:80]!r}")
        return cls(
            group=group_of_request(fields),
            map=whole(fields, "map", -1),
            topic_id=natural(fields, "topic_id"),
            number=natural(fields, "number"),
            offset=natural(fields, "offset"),
            count=max(1, natural(fields, "count")),
            bytes=min(natural(fields, "bytes"), MAX_READ_BYTES),
            tier=tier,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAnswer:
    """Consecutive records of the queue, at least one. ``start`` is the queue's first offset, ``source`` whether they
    are from the store's own disk (``local``) or from the object store (``tier``)."""

    start: int
    source: str
    records: bytes

    def reply(self, request: Command) -> Command:
        return request.reply(fields=_texts(start=self.start, source=self.source), body=self.records)

    @classmethod
    def read(cls, message: Command) -> Self:
        """Read one. Raises :class:`chaos.node.Malformed`."""
        source = text(message.fields, "source")
        return cls(start=natural(message.fields, "start"), source=source, records=message.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmRequest:
    """Ask whether this epoch is still the group's newest."""

    group: int
    epoch: int

    def to_command(self, opaque: int) -> Command:
        fields = _texts(group=self.group, epoch=self.epoch)
        return Command(code=Request.GROUP_CONFIRM, opaque=opaque, fields=fields)

    @classmethod
    def read(cls, message: Command) -> Self:
        """Read one. Raises :class:`chaos.node.Malformed`."""
        fields = message.fields
        return cls(group=group_of_request(fields), epoch=natural(fields, "epoch"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmAnswer:
    """It was, at some moment after the request came. ``starts``: (topic id, number, first offset) of the queues that
    no longer begin at 0."""

    starts: tuple[tuple[int, int, int], ...]

    def reply(self, request: Command) -> Command:
        return request.reply(body=to_json([list(one) for one in self.starts]))

    @classmethod
    def read(cls, message: Command) -> Self:
        """Read one. Raises :class:`chaos.node.Malformed`."""
        rows = listed({"starts": read_json(message.body)}, "starts", int, int, int)
        return cls(starts=tuple((row[0], row[1], row[2]) for row in rows))


# Segments


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRequest:
    """Give bytes of a sealed segment from ``offset`` on. Answered with as many as one message takes."""

    segment: Segment
    offset: int

    def to_command(self, opaque: int) -> Command:
        fields = {**self.segment.fields(), "offset": str(self.offset)}
        return Command(code=Request.SEGMENT_GET, opaque=opaque, fields=fields)

    @classmethod
    def read(cls, message: Command) -> Self:
        """Read one. Raises :class:`chaos.node.Malformed`."""
        return cls(segment=Segment.read(message.fields), offset=natural(message.fields, "offset"))


# Refusals


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a store did not do what it was asked. ``leader``: the store that leads the group, "" where unknown;
    ``start``: the queue's first offset, -1 where it is none of the reason."""

    code: int
    remark: str
    leader: str = ""
    start: int = -1

    def reply(self, request: Command) -> Command:
        fields = {"leader": self.leader} if self.leader else {}
        if self.start >= 0:
            fields["start"] = str(self.start)
        return request.reply(self.code, fields=fields, remark=self.remark)

    @classmethod
    def read(cls, message: Command) -> Self:
        """Read an answer whose code is not :attr:`Response.SUCCESS`. Raises :class:`chaos.node.Malformed`."""
        fields = message.fields
        leader, start = optional_text(fields, "leader"), whole(fields, "start", -1)
        return cls(code=message.code, remark=message.remark, leader=leader, start=start)
