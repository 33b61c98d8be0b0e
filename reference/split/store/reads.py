"""Records of a queue, from any member of its group: out of the tail, a sealed segment's file, or the object store.

A member that lags says so, and never that there is nothing (R9). An offset below the start is an error with the start.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from chaos.node import Env
from reference.split.requests import LOCAL_ONLY, TIER_ONLY, ReadAnswer, ReadRequest, Refusal
from reference.split.segments import SealedSegment, Segment
from reference.split.store.entries import RecordHead, record_heads
from reference.split.store.machine import GroupMachine
from reference.split.store.segment_files import SegmentFiles
from reference.split.store.tail import QueueKey
from reference.split.store.tier import SegmentTier
from reference.wire.codes import Response

#: So many segments are kept open for the reads that follow, and so many reads may wait for objects.
MAX_OPEN, MAX_WAITING = 16, 1024
LOCAL, FROM_TIER = "local", "tier"

Answered = Callable[[Env, ReadAnswer | Refusal], None]


@dataclass(frozen=True, slots=True)
class OpenSegment:
    """The bytes of a segment, and where in them the records of each queue (by number) lie."""

    data: bytes
    queues: Mapping[int, Sequence[tuple[int, RecordHead]]]

    @staticmethod
    def of(segment: Segment, data: bytes) -> OpenSegment:
        """Open a segment whose hash has been checked."""
        queues: dict[int, list[tuple[int, RecordHead]]] = {}
        at = 0
        for head in record_heads(segment.group, None, data):
            queues.setdefault(head.number, []).append((at, head))
            at += head.size
        return OpenSegment(data, queues)

    def rows(self) -> Iterator[tuple[int, RecordHead]]:
        """Yield all records, and where in the bytes each begins."""
        for rows in self.queues.values():
            yield from rows

    def records(self, request: ReadRequest) -> bytes:
        """Return the records that are asked for, of which the first is here."""
        rows = self.queues[request.number]
        begin = request.offset - rows[0][1].offset
        size = 0
        found: list[bytes] = []
        for at, head in rows[begin : begin + request.count]:
            size += head.size
            if found and size > request.bytes:
                break
            found.append(self.data[at : at + head.size])
        return b"".join(found)


#: Called with a segment and where it is from (:data:`LOCAL`, :data:`FROM_TIER`), or without it and with why.
Opened = Callable[[Env, OpenSegment | None, str], None]


class Reads:
    """Reads of one store."""

    def __init__(self, files: SegmentFiles, tier: SegmentTier) -> None:
        self._files, self._tier = files, tier
        self._open: OrderedDict[tuple[Segment, str], OpenSegment] = OrderedDict()
        self._fetching: dict[Segment, list[Opened]] = {}

    def read(self, env: Env, machine: GroupMachine, request: ReadRequest, then: Answered) -> None:
        """Read records; ``then`` is called once, now or later."""
        key: QueueKey = request.topic_id, request.number
        start = machine.minimum(key)
        if self.is_below_start(machine, request):
            then(env, below_start(start))
        elif request.offset >= machine.maximum(key):
            then(env, behind(f"this replica has queue {key} up to {machine.maximum(key)}"))
        else:
            self._read_there(env, machine, request, then)

    def is_below_start(self, machine: GroupMachine, request: ReadRequest) -> bool:
        """Policy: what was trimmed is an error with the start, never an empty answer."""
        return request.offset < machine.minimum((request.topic_id, request.number))

    def _read_there(self, env: Env, machine: GroupMachine, request: ReadRequest, then: Answered) -> None:
        key: QueueKey = request.topic_id, request.number
        sealed = machine.group.find(key, request.offset)
        if request.tier == TIER_ONLY and (sealed is None or not sealed.is_uploaded):
            then(env, ReadAnswer(start=machine.minimum(key), source=FROM_TIER, records=b""))
        elif sealed is None:
            records = b"".join(machine.get(key, request.offset, request.count, request.bytes))
            assert records, f"offset {request.offset} of queue {key} is neither sealed nor in the tail"
            then(env, ReadAnswer(start=machine.minimum(key), source=LOCAL, records=records))
        else:
            self.open(env, sealed, request.tier, partial(self._answer, machine, request, then))

    def _answer(
        self,
        machine: GroupMachine,
        request: ReadRequest,
        then: Answered,
        env: Env,
        opened: OpenSegment | None,
        text: str,
    ) -> None:
        start = machine.minimum((request.topic_id, request.number))
        if self.is_below_start(machine, request):  # it was trimmed meanwhile (R13)
            then(env, below_start(start))
        elif opened is None:
            then(env, self.unreadable(machine, request, text))
        else:
            then(env, ReadAnswer(start=start, source=text, records=opened.records(request)))

    def unreadable(self, machine: GroupMachine, request: ReadRequest, why: str) -> Refusal:
        """Policy: of what can't be read now nobody says that it isn't there (R9)."""
        return behind(why)

    # Segments

    def open(self, env: Env, sealed: SealedSegment, tier: str, then: Opened) -> None:
        """Open a segment; ``tier`` as in :class:`ReadRequest`. Those who ask for an object that is under way wait for
        it together."""
        segment = sealed.segment
        local = self._open_local(env, segment) if tier != TIER_ONLY else None
        if local is not None:
            then(env, local, LOCAL)
        elif tier == LOCAL_ONLY or not sealed.is_uploaded:
            then(env, None, f"this store lacks {segment.key}")
        elif (segment, FROM_TIER) in self._open:
            then(env, self._open[segment, FROM_TIER], FROM_TIER)
        elif sum(map(len, self._fetching.values())) >= MAX_WAITING:
            then(env, None, f"{MAX_WAITING} reads wait for the object store")
        elif segment in self._fetching:
            self._fetching[segment].append(then)
        else:
            self._fetching[segment] = [then]
            self._tier.fetch(env, segment, lambda env, data, absent: self._fetched(env, segment, data, absent))

    def _open_local(self, env: Env, segment: Segment) -> OpenSegment | None:
        found = self._open.get((segment, LOCAL))
        if found is not None:
            self._open.move_to_end((segment, LOCAL))
            return found
        data = self._files.read_whole(env, segment)
        return None if data is None else self._keep(segment, LOCAL, data)

    def _keep(self, segment: Segment, source: str, data: bytes) -> OpenSegment:
        opened = self._open[segment, source] = OpenSegment.of(segment, data)
        if len(self._open) > MAX_OPEN:
            self._open.popitem(last=False)
        return opened

    def _fetched(self, env: Env, segment: Segment, data: bytes | None, absent: bool) -> None:
        opened = None if data is None else self._keep(segment, FROM_TIER, data)
        why = f"the object store says there is no {segment.key}" if absent else "the object store is silent"
        for then in self._fetching.pop(segment):
            then(env, opened, FROM_TIER if opened is not None else why)


def below_start(start: int) -> Refusal:
    """Return the refusal of a read of what was trimmed."""
    return Refusal(code=Response.GROUP_BELOW_START, remark=f"the queue begins at offset {start}", start=start)


def behind(remark: str) -> Refusal:
    """Return the refusal of a read that another member may answer."""
    return Refusal(code=Response.GROUP_BEHIND, remark=remark)
