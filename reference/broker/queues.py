"""The state that the log's records build, up to the confirm offset: topics, queues, consumer offsets, deferred messages
and locks of queues.

Every record is *added* when it is appended and *takes effect* when it is confirmed: only then it can be read, its topic
exists, its consumer offset holds. So replicas agree by construction, and cutting off an unconfirmed tail undoes
nothing that anybody saw.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from reference.broker.commitlog import Base
from reference.broker.deferred import Deferred, DeferredMessages
from reference.broker.locks import QueueLocks
from reference.broker.records import (
    DEFERRED_RECORDS,
    LOCK_RECORDS,
    OFFSET_RECORDS,
    SETTLED_RECORDS,
    SYSTEM,
    TOPIC_RECORDS,
    VERSION_RECORDS,
    Record,
)
from reference.wire.fields import to_json

#: So much is kept at most: a slave that begins again gets all of it in one message.
MAX_QUEUES, MAX_GROUPS, MAX_OFFSETS = 1 << 14, 1 << 13, 1 << 17


@dataclass(slots=True)
class Queue:
    """One queue of a topic. ``positions`` and ``sizes`` hold its local records from offset ``first`` on;
    ``confirmed`` is the offset after the last confirmed one."""

    index: int
    topic: str
    queue_id: int
    first: int = 0
    confirmed: int = 0
    positions: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    @property
    def next(self) -> int:
        """The offset after the last record, confirmed or not."""
        return self.first + len(self.positions)

    def next_at(self, position: int) -> int:
        """Return the queue's next offset as of this position of the log."""
        return self.first + bisect_left(self.positions, position)


@dataclass(slots=True)
class Topic:
    name: str
    queues: int
    first_index: int
    confirmed: bool = False


@dataclass(slots=True)
class Effect:
    """A record that is now confirmed: of a queue, or of the system (``system`` is one of :data:`SYSTEM`). ``settles``:
    the key of the deferred message that it puts into its queue, 0 for none."""

    position: int
    end: int
    queue: Queue | None
    system: str = ""
    value: dict[str, Any] = field(default_factory=dict)
    settles: int = 0
    deferred: Deferred | None = None


def topic_body(name: str, queues: int, first_index: int) -> bytes:
    return to_json({"name": name, "queues": queues, "first_index": first_index})


def offsets_body(group: str, queue: int, offset: int) -> bytes:
    return to_json({"group": group, "queue": queue, "offset": offset})


def version_body(version: int) -> bytes:
    """Return the body of the record from which on others of this version may follow; each is one more than the last."""
    return to_json({"version": version})


def settled_body(key: int) -> bytes:
    """Return the body of the record by which a deferred message never comes."""
    return to_json({"key": key})


class Queues:
    def __init__(self, base: Base) -> None:
        self.topics: dict[str, Topic] = {}
        self.by_index: list[Queue] = []
        self.offsets: dict[str, dict[int, int]] = {group: dict(table) for group, table in base.offsets.items()}
        self.deferred = DeferredMessages()
        self.locks = QueueLocks(base.locks)
        self._version, self._changes = base.version, 0  # changes of the version that are not confirmed yet
        self.dispatched = base.position
        self._by_name: dict[tuple[str, int], Queue] = {}
        self._tail: deque[Effect] = deque()  # added, not confirmed yet
        self._system: deque[Effect] = deque()  # the system's own records of the whole local log
        for name, count, first_index in base.topics:
            self._add_topic(name, count, first_index).confirmed = True
        for index, offset in base.queues.items():
            queue = self.by_index[index]
            queue.first = queue.confirmed = offset

    # Look up

    def queue(self, topic: str, queue_id: int) -> Queue | None:
        return self._by_name.get((topic, queue_id))

    @property
    def version(self) -> int:
        """Which version the records at the end of the log may have."""
        return self._version + self._changes

    def next_index(self) -> int:
        return len(self.by_index)

    def known_topics(self) -> list[Topic]:
        return [topic for topic in self.topics.values() if topic.confirmed]

    def begins_at(self, position: int) -> bool:
        """Return whether a record of the local log begins there."""
        if any(effect.position == position for effect in self._system):
            return True
        return any(
            at < len(queue.positions) and queue.positions[at] == position
            for queue in self.by_index
            for at in (bisect_left(queue.positions, position),)
        )

    def has_room(self, group: str, queue: Queue) -> bool:
        """Return whether this group's offset may be kept."""
        if queue.index in self.offsets.get(group, ()):
            return True
        kept = sum(len(table) for table in self.offsets.values())
        return len(self.offsets) < MAX_GROUPS and kept < MAX_OFFSETS

    # Records come, take effect, or go

    def add(self, record: Record) -> Effect:
        """Take in a record that was appended to the log (or found there)."""
        system = SYSTEM.get(record.topic, "")
        if not system:
            queue = self._by_name[record.topic, record.queue_id]
            queue.positions.append(record.position)
            queue.sizes.append(record.size)
            effect = Effect(record.position, record.end, queue, settles=record.prepared)
        elif record.topic == DEFERRED_RECORDS:
            effect = Effect(record.position, record.end, None, system, deferred=Deferred.of(record))
            self._system.append(effect)
        else:
            effect = Effect(record.position, record.end, None, system, json.loads(record.body))
            self._system.append(effect)
            self._changes += record.topic == VERSION_RECORDS
            if record.topic == TOPIC_RECORDS and effect.value["name"] not in self.topics:
                self._add_topic(effect.value["name"], effect.value["queues"], effect.value["first_index"])
        self._tail.append(effect)
        return effect

    def add_message(self, queue: Queue, position: int, size: int, settles: int = 0) -> None:
        """Take in a record that this replica has just made: the short way of :meth:`add`."""
        queue.positions.append(position)
        queue.sizes.append(size)
        self._tail.append(Effect(position, position + size, queue, settles=settles))

    def dispatch(self, upto: int, limit: int) -> Iterator[Effect]:
        """Let the records that end at or before ``upto`` take effect, at most ``limit`` of them."""
        tail = self._tail
        while tail and limit > 0 and tail[0].end <= upto:
            effect = tail.popleft()
            self.dispatched = effect.end
            limit -= 1
            if effect.queue is not None:
                effect.queue.confirmed += 1
                if effect.settles:
                    self.deferred.settle(effect.settles)
            else:
                self._take_effect(effect)
            yield effect

    def _take_effect(self, effect: Effect) -> None:
        """Let a record of the system's own take effect."""
        if effect.deferred is not None:
            self.deferred.add(effect.deferred)
        elif effect.system == SYSTEM[TOPIC_RECORDS]:
            self.topics[effect.value["name"]].confirmed = True
        elif effect.system == SYSTEM[OFFSET_RECORDS]:
            self._commit(self.offsets, effect.value)
        elif effect.system == SYSTEM[SETTLED_RECORDS]:
            self.deferred.settle(effect.value["key"])
        elif effect.system == SYSTEM[LOCK_RECORDS]:
            self.locks.change(effect.value)
        elif effect.system == SYSTEM[VERSION_RECORDS]:
            self._version, self._changes = self._version + 1, self._changes - 1

    def behind(self, upto: int) -> bool:
        """Is there a record up to this position that has not taken effect?"""
        return bool(self._tail) and self._tail[0].end <= upto

    def truncate(self, position: int) -> bool:
        """Forget the records from ``position`` on. False when some have taken effect: then build everything again."""
        if position < self.dispatched:
            return False
        while self._tail and self._tail[-1].position >= position:
            effect = self._tail.pop()
            if effect.queue is not None:
                effect.queue.positions.pop()
                effect.queue.sizes.pop()
                continue
            self._system.pop()
            self._changes -= effect.system == SYSTEM[VERSION_RECORDS]
            if effect.system == SYSTEM[TOPIC_RECORDS] and not self.topics[effect.value["name"]].confirmed:
                self._remove_topic(effect.value["name"])
        return True

    # The base

    def base_at(self, base: Base, position: int) -> Base:
        """Return the base of a log that begins at ``position``, a boundary at or after the present base's."""
        topics = list(base.topics)
        offsets = {group: dict(table) for group, table in base.offsets.items()}
        locks, version = QueueLocks(base.locks), base.version
        known = {name for name, _, _ in topics}
        for effect in self._system:
            if effect.position >= position:
                break
            if effect.system == SYSTEM[OFFSET_RECORDS]:
                self._commit(offsets, effect.value)
            elif effect.system == SYSTEM[LOCK_RECORDS]:
                locks.change(effect.value)
            elif effect.system == SYSTEM[VERSION_RECORDS]:
                version += 1
            elif effect.system == SYSTEM[TOPIC_RECORDS] and effect.value["name"] not in known:
                known.add(effect.value["name"])
                topics.append((effect.value["name"], effect.value["queues"], effect.value["first_index"]))
        count = sum(queues for _, queues, _ in topics)
        ends = {queue.index: queue.next_at(position) for queue in self.by_index[:count]}
        state = Base(position=position, queues=ends, topics=topics, offsets=offsets)
        state.locks, state.version = locks.listed(), version
        return state

    def drop_before(self, position: int) -> None:
        """Drop what lies before ``position``, where the log begins now."""
        for queue in self.by_index:
            count = bisect_left(queue.positions, position)
            del queue.positions[:count]
            del queue.sizes[:count]
            queue.first += count
        while self._system and self._system[0].position < position:
            self._system.popleft()

    def _commit(self, offsets: dict[str, dict[int, int]], value: dict[str, Any]) -> None:
        """Policy: a commit never takes a group back. One that a slow link delivers late has no effect."""
        table = offsets.setdefault(value["group"], {})
        table[value["queue"]] = max(value["offset"], table.get(value["queue"], -1))

    def _add_topic(self, name: str, count: int, first_index: int) -> Topic:
        assert first_index == len(self.by_index), f"topic {name} begins at {first_index}, not {len(self.by_index)}"
        topic = self.topics[name] = Topic(name, count, first_index)
        for queue_id in range(count):
            queue = Queue(first_index + queue_id, name, queue_id)
            self.by_index.append(queue)
            self._by_name[name, queue_id] = queue
        return topic

    def _remove_topic(self, name: str) -> None:
        topic = self.topics.pop(name)
        for queue in self.by_index[topic.first_index :]:
            del self._by_name[queue.topic, queue.queue_id]
        del self.by_index[topic.first_index :]
