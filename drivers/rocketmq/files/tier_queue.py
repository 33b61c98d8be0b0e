"""One queue in the tier: its own commit log, and a consume queue whose units say where each message stands in it.

Records keep the queue offset and the position that they had on the broker. So a unit and its record must agree on the
offset, and whatever in the commit log no unit points to is of no use; an upload that was broken off leaves such bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from chaos.scrub import Damage, Kind
from drivers._remoting import records
from drivers._remoting.records import BadRecord, Record
from drivers.rocketmq.files import mapped
from drivers.rocketmq.files.consume_queue import UNIT
from drivers.rocketmq.files.mapped import Part, Segments
from drivers.rocketmq.files.tier_layout import COMMIT_LOG, CONSUME_QUEUE, QueuePlace


@dataclass(slots=True, kw_only=True)
class TierQueue:
    """What :meth:`read` has found when it has come to its end. ``minimum`` and ``maximum``: the first offset with a
    unit and the one after the last; ``messages``: how many whole ones; ``orphaned``: bytes that no unit points to."""

    place: QueuePlace
    minimum: int = 0
    maximum: int = 0
    messages: int = 0
    orphaned: int = 0
    damage: list[Damage] = field(default_factory=list)

    def read(self) -> Iterator[tuple[int, Record]]:
        """Yield all whole messages as ``(offset, record)`` in the order of their units. Raises ``OSError``."""
        logs, self.damage = self.place.segments(COMMIT_LOG)
        queues, wrong = self.place.segments(CONSUME_QUEUE)
        self.damage += [*wrong, *mapped.seams(logs), *mapped.seams(queues)]
        self.messages, covered, end = 0, 0, logs[0].base if logs else 0
        self.minimum = queues[0].base // UNIT.size if queues else 0
        self.maximum = self.minimum
        with mapped.Segments(logs) as segments:
            for part in queues:
                if part.base % UNIT.size:
                    self._add(part, -1, Kind.MISPLACED, f"its name is no multiple of {UNIT.size}")
                    continue
                for at, offset, position, size in self._units(part):
                    self.maximum = max(self.maximum, offset + 1)
                    if position < end:
                        text = f"message {offset} at {position} doesn't stand after the one before, which ends at {end}"
                        self._add(part, at, Kind.CONTRADICTION, text)
                    record = self._record(segments, part, at, (offset, position, size))
                    if record is not None:
                        covered += max(position + size - max(end, position), 0)
                        end = max(end, position + size)
                        self.messages += 1
                        yield offset, record
        self.orphaned = max(sum(part.size for part in logs) - covered, 0)

    def _units(self, part: Part) -> Iterator[tuple[int, int, int, int]]:
        """Yield ``(at, offset, position, size)`` of all units that make sense."""
        with mapped.opened(part.path) as data:
            for at in range(0, len(data) - UNIT.size + 1, UNIT.size):
                position, size, _ = UNIT.unpack_from(data, at)
                if position < 0 or size <= 0:
                    self._add(part, at, Kind.UNREADABLE, f"impossible: position {position}, size {size}")
                else:
                    yield at, (part.base + at) // UNIT.size, position, size
            if rest := len(data) % UNIT.size:
                self._add(part, len(data) - rest, Kind.TORN_END, f"{rest} bytes are no whole unit")

    def _record(self, segments: Segments, part: Part, at: int, unit: tuple[int, int, int]) -> Record | None:
        """Return the record that a unit points to; None, with damage noted, when it is not whole or another one."""
        offset, position, size = unit
        found = segments.at(position, size)
        if found is None:
            text = f"message {offset}: {size} bytes at {position} of the tier's commit log are not there"
            self._add(part, at, Kind.DANGLING, text)
            return None
        log, data = found
        try:
            record = records.decode(data, position - log.base)
        except BadRecord as error:
            kind = Kind.CHECKSUM if "CRC" in str(error) else Kind.UNREADABLE
            self._add(log, position - log.base, kind, f"message {offset}: {error}")
            return None
        there = (record.topic, record.queue_id, record.offset)
        if there != (self.place.topic, self.place.queue_id, offset):
            text = (
                f"it stands for message {offset}, but {position} of the tier's commit log holds message"
                f" {record.offset} of {record.topic}/{record.queue_id}"
            )
            self._add(part, at, Kind.CONTRADICTION, text)
            return None
        if record.size != size:
            self._add(part, at, Kind.CONTRADICTION, f"message {offset}: {size} bytes, but its record has {record.size}")
            return None
        return record

    def _add(self, part: Part, at: int, kind: Kind, text: str) -> None:
        self.damage.append(Damage(file=part.name, kind=kind, text=text, at=at))
