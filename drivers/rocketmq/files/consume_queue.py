"""A broker's consume queues: for each message of a queue where its record stands in the commit log.

``consumequeue/TOPIC/QUEUE/`` has files of units of 20 bytes, ``position i64 | size i32 | tag's hash i64``. The unit of
the message with offset N stands at byte 20 N of the series. Before the first message there may be filler units. After
the last one there are zeros.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from chaos.scrub import Damage, Kind
from drivers._remoting.records import Buffer, Record
from drivers.rocketmq.files import mapped
from drivers.rocketmq.files.config import DELAYED  # its units hold a time in the place of a tag
from drivers.rocketmq.files.mapped import Part

UNIT = struct.Struct(">qiq")
#: What stands for messages that the queue has never had: ``(0, largest size, 0)``.
FILLER = (0, (1 << 31) - 1, 0)
_ZERO = (0, 0, 0)
#: Light queues, ``%LMQ%NAME``: their units point to records of other topics, which name them in a property.
LIGHT, NAMED_IN = "%LMQ%", "INNER_MULTI_DISPATCH"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Message ``offset`` of the queue begins at ``position`` of the commit log. ``at``: of the unit in ``file``."""

    offset: int
    position: int
    size: int
    tag: int
    file: str
    at: int


@dataclass(slots=True, kw_only=True)
class ConsumeQueue:
    """One queue. ``minimum``: the first offset with a unit, ``maximum``: the one after the last; both are complete,
    as is ``damage``, when :meth:`read` has come to its end."""

    folder: Path
    topic: str
    queue_id: int
    minimum: int = 0
    maximum: int = 0
    damage: list[Damage] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"consumequeue/{self.topic}/{self.queue_id}"

    def read(self) -> Iterator[Unit]:
        """Yield all units in order, over damaged ones too. Raises ``OSError``."""
        found, self.damage = mapped.parts(self.folder, self.name)
        self.damage += mapped.seams(found)
        before: Unit | None = None
        filled = mapped.last_with_data(found)
        for part in found:
            if part.base % UNIT.size:
                self._add(part, -1, Kind.MISPLACED, f"its name is no multiple of {UNIT.size}")
                continue
            with mapped.opened(part.path) as data:
                for unit in self._units(part, data, last=part.base >= filled):
                    if before is None:
                        self.minimum = unit.offset
                    self._compare(part, before, unit)
                    before = unit
                    self.maximum = unit.offset + 1
                    yield unit

    def _units(self, part: Part, data: Buffer, *, last: bool) -> Iterator[Unit]:
        filled = mapped.end_of_data(data)
        for at in range(0, len(data) - UNIT.size + 1, UNIT.size):
            position, size, tag = UNIT.unpack_from(data, at)
            if at >= filled:
                if not last:
                    self._add(part, at, Kind.GAP, "only zeros from here on, but the queue goes on in the next file")
                return
            if (position, size, tag) == FILLER:
                continue
            if position < 0 or size <= 0:
                whole = (position, size, tag) == _ZERO
                text = "an empty unit between others" if whole else f"impossible: position {position}, size {size}"
                self._add(part, at, Kind.GAP if whole else Kind.UNREADABLE, text)
                continue
            yield Unit(
                offset=(part.base + at) // UNIT.size, position=position, size=size, tag=tag, file=part.name, at=at
            )
        if rest := len(data) % UNIT.size:
            self._add(part, len(data) - rest, Kind.TORN_END, f"{rest} bytes are no whole unit")

    def _compare(self, part: Part, before: Unit | None, unit: Unit) -> None:
        if before is None:
            return
        if unit.position < before.position + before.size:
            text = (
                f"message {unit.offset} at position {unit.position} doesn't stand after message {before.offset}, which"
                f" ends at {before.position + before.size}"
            )
            self._add(part, unit.at, Kind.CONTRADICTION, text)

    def _add(self, part: Part, at: int, kind: Kind, text: str) -> None:
        self.damage.append(Damage(file=part.name, kind=kind, text=text, at=at))


def queues(folder: Path) -> tuple[list[ConsumeQueue], list[Damage]]:
    """Return all queues below a store's ``consumequeue`` folder, by topic and number. No folder: none. Raises
    ``OSError``."""
    found, wrong = [], []
    for topic in sorted(folder.iterdir()) if folder.is_dir() else ():
        for queue in sorted(topic.iterdir()) if topic.is_dir() else ():
            if queue.is_dir() and queue.name.isascii() and queue.name.isdigit() and len(queue.name) < 10:
                found.append(ConsumeQueue(folder=queue, topic=topic.name, queue_id=int(queue.name)))
            else:
                name = f"consumequeue/{topic.name}/{queue.name}"
                wrong.append(Damage(file=name, kind=Kind.UNREADABLE, text="no queue has a name like this"))
    return sorted(found, key=lambda one: (one.topic, one.queue_id)), wrong


def against(unit: Unit, queue: ConsumeQueue, record: Record) -> Damage | None:
    """Return what is wrong with a unit whose record in the commit log is this one; None: nothing."""
    kind, text = Kind.CONTRADICTION, ""
    if queue.topic.startswith(LIGHT) and queue.topic in record.properties.get(NAMED_IN, "").split(","):
        return None
    if (record.topic, record.queue_id, record.offset) != (queue.topic, queue.queue_id, unit.offset):
        text = (
            f"it stands for message {unit.offset}, but position {unit.position} of the commit log holds message"
            f" {record.offset} of {record.topic}/{record.queue_id}"
        )
    elif record.size != unit.size:
        text = f"message {unit.offset}: {unit.size} bytes, but its record in the commit log has {record.size}"
    elif queue.topic != DELAYED and unit.tag != tag_hash(record.properties.get("TAGS", "")):
        text = f"message {unit.offset}: its tag's hash is {unit.tag}, not that of {record.properties.get('TAGS', '')!r}"
    return Damage(file=unit.file, kind=kind, text=text, at=unit.at) if text else None


def tag_hash(tags: str) -> int:
    """Return Java's hash of a string, 0 for none."""
    found = 0
    for at in range(0, len(encoded := tags.encode("utf-16-be", "surrogatepass")), 2):
        found = (31 * found + int.from_bytes(encoded[at : at + 2], "big")) & 0xFFFFFFFF
    return found - (1 << 32) if found >= 1 << 31 else found
