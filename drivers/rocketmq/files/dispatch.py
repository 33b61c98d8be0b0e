"""From each record of a commit log to the unit that its queue owes it: the way back from units to records.

A broker dispatches its log in the order of positions, so below the highest position that any unit points to each record
has its unit, whatever crashed in between; what stands behind it may still wait, unless the checkpoint says that queues
are on the disk so far. A replica that rejoins under a newer master leaves the records that it cuts where they are, and
the checkpoint, and the units in files that it keeps; but files of queues that hold nothing older it deletes. So from
the last of several masters on, a missing file of a queue proves nothing, nor does anything behind a record that is
older than the one before it: there new records end, and those begin that were cut.

No unit is owed to what :func:`owes_a_unit` leaves out, nor to an earlier incarnation of a topic that was deleted and
made again: its records stand before the first unit of all of the topic's queues. Old units go only with their part of
the commit log.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from chaos.scrub import Damage, Kind
from drivers._remoting.records import Record
from drivers.rocketmq.files import mapped
from drivers.rocketmq.files.consume_queue import UNIT, ConsumeQueue
from drivers.rocketmq.files.mapped import Part

#: Of a record's system flags: what a transaction has made of it (prepared and rolled back ones stand in no queue), and
#: that it holds a batch, whose units have another form and a folder of their own (``batchconsumequeue``).
_TRANSACTION, _PREPARED, _ROLLED_BACK, _BATCH = 0b1100, 0b0100, 0b1100, 1 << 7
#: Transactions that are kept in RocksDB.
_IN_ROCKSDB = "RMQ_SYS_ROCKSDB_"

QueueName = tuple[str, int]


@dataclass(slots=True)
class _Queue:
    """The records of one queue in the order of the log; then those without a unit, and where units are."""

    offsets: array[int] = field(default_factory=lambda: array("q"))
    positions: array[int] = field(default_factory=lambda: array("q"))
    first: int = -1
    top: int = -1
    minimum: int = 0
    maximum: int = 0
    parts: list[Part] = field(default_factory=list)

    def file_of(self, offset: int) -> Part | None:
        """Return the file that has the place of this unit."""
        return next((part for part in self.parts if part.base <= offset * UNIT.size < part.end), None)


@dataclass(slots=True)
class Dispatched:
    """Filled with all records (:meth:`log`) and all queues (:meth:`queue`), it says what has no unit (:meth:`damage`)
    and where each queue ends (:meth:`ends`). ``apart``: topics whose units are kept elsewhere. ``settled``: up to this
    position no truncation can have cut the log; later ones belong to the last of several masters."""

    apart: frozenset[str] = frozenset()
    settled: int = mapped.LAST
    _queues: dict[QueueName, _Queue] = field(default_factory=dict)
    _older: list[int] = field(default_factory=list)
    _last_ms: int = 0

    def log(self, record: Record) -> None:
        """Take the next record of the log."""
        if record.store_ms < self._last_ms:
            self._older.append(record.position)
        self._last_ms = record.store_ms
        if owes_a_unit(record) and record.topic not in self.apart:
            queue = self._queues.setdefault((record.topic, record.queue_id), _Queue())
            queue.offsets.append(record.offset)
            queue.positions.append(record.position)

    def queue(self, queue: ConsumeQueue, units: Mapping[int, int]) -> None:
        """Compare a queue with the log. ``units``: offset → position, all of the queue's. Of its records those are kept
        that none of them is for."""
        mine = self._queues.setdefault((queue.topic, queue.queue_id), _Queue())
        logged = list(zip(mine.offsets, mine.positions, strict=True))
        missing = [(offset, position) for offset, position in logged if units.get(offset) != position]
        if any(offset in units for offset, _ in missing):
            # a unit that stands for another message is reported by itself, at its place
            there = set(logged)
            missing = [one for one in missing if one[0] not in units or (one[0], units[one[0]]) in there]
        mine.offsets = array("q", [offset for offset, _ in missing])
        mine.positions = array("q", [position for _, position in missing])
        if units:
            mine.first, mine.top = min(units.values()), max(units.values())
            mine.minimum, mine.maximum = queue.minimum, queue.maximum
        mine.parts = mapped.parts(queue.folder, queue.name)[0]

    def damage(self, begin: int, queued: int) -> Iterator[Damage]:
        """Yield each stretch of messages that lack their units. ``begin``: of the commit log; ``queued``: the
        checkpoint's. Complete after all queues."""
        reach = max([queued, *(queue.top for queue in self._queues.values())])
        firsts = self._firsts()
        cut = next((position for position in self._older if position >= self.settled), mapped.LAST)
        for (topic, number), queue in sorted(self._queues.items()):
            if topic not in firsts:
                continue
            lacking = [
                (offset, position)
                for offset, position in zip(queue.offsets, queue.positions, strict=True)
                if begin <= position <= reach
                and (position >= firsts[topic] or offset < queue.minimum)
                and (position < self.settled or (position < cut and queue.file_of(offset) is not None))
            ]
            for stretch in _stretches(lacking):
                yield _lack(f"consumequeue/{topic}/{number}", queue, stretch)

    def without_queues(self, known: frozenset[str]) -> Mapping[str, int]:
        """Return, of each of these topics that has no unit at all, how many records of it the log holds. Whether they
        are lost or of an earlier topic of that name is unknown."""
        firsts = self._firsts()
        found: dict[str, int] = {}
        for (topic, _), queue in sorted(self._queues.items()):
            if topic in known and topic not in firsts and queue.offsets:
                found[topic] = found.get(topic, 0) + len(queue.offsets)
        return found

    def ends(self) -> Mapping[QueueName, int]:
        """Return the offset after the last message of each queue, with what waits for dispatch and what lacks its
        unit."""
        firsts = self._firsts()
        found = {}
        for name, queue in self._queues.items():
            since = firsts.get(name[0], mapped.LAST)
            later = [at for at, place in zip(queue.offsets, queue.positions, strict=True) if place >= since]
            found[name] = max([queue.maximum, *(offset + 1 for offset in later)])
        return found

    def _firsts(self) -> dict[str, int]:
        """Return, of each topic with units, the lowest position that one of them points to."""
        found: dict[str, int] = {}
        for (topic, _), queue in self._queues.items():
            if queue.first >= 0:
                found[topic] = min(queue.first, found.get(topic, mapped.LAST))
        return found


def owes_a_unit(record: Record) -> bool:
    """Return whether a queue of the common form gets a unit for this record."""
    kind = record.sys_flag & _TRANSACTION
    return not (kind in (_PREPARED, _ROLLED_BACK) or record.sys_flag & _BATCH or record.topic.startswith(_IN_ROCKSDB))


def _stretches(lacking: list[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """Yield those whose offsets follow one another."""
    cuts = [at for at, ((one, _), (next_one, _)) in enumerate(pairwise(lacking), 1) if next_one != one + 1]
    for begin, end in pairwise([0, *cuts, len(lacking)]):
        if begin < end:
            yield lacking[begin:end]


def _lack(name: str, queue: _Queue, stretch: list[tuple[int, int]]) -> Damage:
    """Return damage at the place where the first of the units should be: in its file, or in the series where there is
    none."""
    (offset, position), (last, _) = stretch[0], stretch[-1]
    at, part = offset * UNIT.size, queue.file_of(offset)
    which = f"message {offset} has" if len(stretch) == 1 else f"messages {offset} to {last} ({len(stretch)}) have"
    text = f"{which} no unit, though the record of {offset} stands at {position} of the commit log and was dispatched"
    if queue.minimum <= offset < queue.maximum:
        text = f"{which} a unit that points to another record of the same offset than the one at {position}"
    if part is not None:
        return Damage(file=part.name, kind=Kind.GAP, text=text, at=at - part.base)
    return Damage(file=name, kind=Kind.GAP, text=text, at=at)
