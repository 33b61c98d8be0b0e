"""The state that the log's records build, up to the confirm offset: topics, queues, consumer offsets, deferred messages
and locks of queues.

Every record is *added* when it is appended and *takes effect* when it is confirmed: only then it can be read, its topic
exists, its consumer offset holds. So replicas agree by construction, and cutting off an unconfirmed tail undoes
nothing that anybody saw.

A topic's deletion is a record of a topic with no queues. The indexes of its queues are never given again, and its name
stays known as that of a deleted topic: a topic that is made under it has other queues.
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

#: So much is kept at most, of queues also those of deleted topics: a slave that begins again gets all of it in one
#: message.
MAX_QUEUES, MAX_GROUPS, MAX_OFFSETS = 1 << 14, 1 << 13, 1 << 17


@dataclass(slots=True)
class Queue:
    """One queue of a topic. ``positions`` and ``sizes`` hold its local records from offset ``first`` on;
    ``confirmed`` is the offset after the last confirmed one; ``gone``: its topic is deleted."""

    index: int
    topic: str
    queue_id: int
    first: int = 0
    confirmed: int = 0
    positions: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    gone: bool = False

    @property
    def next(self) -> int:
        """The offset after the last record, confirmed or not."""
        return self.first + len(self.positions)

    def next_at(self, position: int) -> int:
        """Return the queue's next offset as of this position of the log."""
        return self.first + bisect_left(self.positions, position)


@dataclass(slots=True)
class Topic:
    """A topic. ``made_at``: where its creation stands in the log, and ``deleted_at``: its deletion; -1 for nowhere, or
    before the log's beginning. ``gone``: its deletion is confirmed."""

    name: str
    queues: int
    first_index: int
    confirmed: bool = False
    made_at: int = -1
    deleted_at: int = -1
    gone: bool = False

    @property
    def indexes(self) -> range:
        return range(self.first_index, self.first_index + self.queues)

    @property
    def is_ending(self) -> bool:
        """Whether the log has its deletion, which is not confirmed."""
        return self.deleted_at >= 0 and not self.gone

    @property
    def is_served(self) -> bool:
        return self.confirmed and self.deleted_at < 0


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


def deletion_body(topic: Topic) -> bytes:
    return topic_body(topic.name, 0, topic.first_index)


def offsets_body(group: str, queue: int, offset: int, *, reset: bool = False) -> bytes:
    """Return the body of a record: a group has committed an offset, or (``reset``) it was set for it."""
    return to_json({"group": group, "queue": queue, "offset": offset, **({"reset": True} if reset else {})})


def version_body(version: int) -> bytes:
    """Return the body of the record from which on others of this version may follow; each is one more than the last."""
    return to_json({"version": version})


def settled_body(key: int) -> bytes:
    """Return the body of the record by which a deferred message never comes."""
    return to_json({"key": key})


class Queues:
    def __init__(self, base: Base) -> None:
        #: By name the topic that was made last, unless it is gone.
        self.topics: dict[str, Topic] = {}
        #: By first index all that were ever made, also those that are gone.
        self.made: dict[int, Topic] = {}
        self.by_index: list[Queue] = []
        self.offsets: dict[str, dict[int, int]] = {group: dict(table) for group, table in base.offsets.items()}
        self.deferred = DeferredMessages()
        self.locks = QueueLocks(base.locks)
        self._version, self._changes = base.version, 0  # changes of the version that are not confirmed yet
        self.dispatched = base.position
        self._by_name: dict[tuple[str, int], Queue] = {}
        self._tail: deque[Effect] = deque()  # added, not confirmed yet
        self._system: deque[Effect] = deque()  # the system's own records of the whole local log
        deleted = dict(base.deleted)
        for name, count, first_index in base.topics:
            topic = self._add_topic(name, count, first_index)
            topic.confirmed, topic.deleted_at = True, deleted.get(first_index, -1)
            if topic.deleted_at >= 0:
                self._end_topic(topic)
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

    def queue_at(self, topic: str, queue_id: int, position: int) -> Queue | None:
        """Return the queue of the record that stands there: of the topic that had this name then."""
        newest = self.topics.get(topic)
        if newest is None or newest.made_at > position:
            named = (one for one in self.made.values() if one.name == topic and one.deleted_at > position)
            newest = next(named, None)
        return None if newest is None else self.by_index[newest.first_index + queue_id]

    def holds(self, record: Record) -> bool:
        """Return whether a record of the log is a message whose topic is not gone."""
        if record.topic in SYSTEM:
            return False
        queue = self.queue_at(record.topic, record.queue_id, record.position)
        return queue is not None and not queue.gone

    def next_index(self) -> int:
        return len(self.by_index)

    def known_topics(self) -> list[Topic]:
        return [topic for topic in self.topics.values() if topic.confirmed]

    def confirmed_topics(self) -> list[Topic]:
        """Return all of them, also those that are gone."""
        return [topic for topic in self.made.values() if topic.confirmed]

    def was_made(self, name: str) -> bool:
        """Return whether there was ever a topic of this name."""
        return any(topic.name == name for topic in self.made.values())

    def is_deleted_since(self, name: str, position: int) -> bool:
        """Return whether a topic of this name is gone whose deletion stands behind this position of the log."""
        return any(topic.name == name and topic.gone and topic.deleted_at > position for topic in self.made.values())

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
            if record.topic == TOPIC_RECORDS:
                self._topic_added(effect)
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
            self._topic_confirmed(effect)
        elif effect.system == SYSTEM[SETTLED_RECORDS]:
            self.deferred.settle(effect.value["key"])
        elif effect.system == SYSTEM[VERSION_RECORDS]:
            self._version, self._changes = self._version + 1, self._changes - 1
        elif self.by_index[effect.value["queue"]].gone:
            return
        elif effect.system == SYSTEM[OFFSET_RECORDS]:
            self._store(self.offsets, effect.value)
        elif effect.system == SYSTEM[LOCK_RECORDS]:
            self.locks.change(effect.value)

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
            if effect.system == SYSTEM[TOPIC_RECORDS]:
                self._topic_undone(effect)
        return True

    # The base

    def base_at(self, base: Base, position: int) -> Base:
        """Return the base of a log that begins at ``position``, a boundary at or after the present base's."""
        offsets = {group: dict(table) for group, table in base.offsets.items()}
        locks, version = QueueLocks(base.locks), base.version
        for effect in self._system:
            if effect.position >= position:
                break
            if effect.system == SYSTEM[OFFSET_RECORDS]:
                self._store(offsets, effect.value)
            elif effect.system == SYSTEM[LOCK_RECORDS]:
                locks.change(effect.value)
            elif effect.system == SYSTEM[VERSION_RECORDS]:
                version += 1
        made = [topic for topic in self.made.values() if topic.made_at < position]
        deleted = [topic for topic in made if 0 <= topic.deleted_at < position]
        for topic in deleted:
            _forget(offsets, locks, topic)
        count = sum(topic.queues for topic in made)
        return Base(
            position=position,
            queues={queue.index: queue.next_at(position) for queue in self.by_index[:count]},
            topics=[(topic.name, topic.queues, topic.first_index) for topic in made],
            offsets=offsets,
            locks=locks.listed(),
            version=version,
            deleted=[(topic.first_index, topic.deleted_at) for topic in deleted],
        )

    def drop_before(self, position: int) -> None:
        """Drop what lies before ``position``, where the log begins now."""
        for queue in self.by_index:
            count = bisect_left(queue.positions, position)
            del queue.positions[:count]
            del queue.sizes[:count]
            queue.first += count
        while self._system and self._system[0].position < position:
            self._system.popleft()

    def _store(self, offsets: dict[str, dict[int, int]], value: dict[str, Any]) -> None:
        """Store a group's offset: one that was set for it holds exactly."""
        if value.get("reset"):
            offsets.setdefault(value["group"], {})[value["queue"]] = value["offset"]
        else:
            self._commit(offsets, value)

    def _commit(self, offsets: dict[str, dict[int, int]], value: dict[str, Any]) -> None:
        """Policy: a commit never takes a group back. One that a slow link delivers late has no effect."""
        table = offsets.setdefault(value["group"], {})
        table[value["queue"]] = max(value["offset"], table.get(value["queue"], -1))

    def _add_topic(self, name: str, count: int, first_index: int) -> Topic:
        assert first_index == len(self.by_index), f"topic {name} begins at {first_index}, not {len(self.by_index)}"
        if name in self.topics:
            self._unname(self.topics[name])
        topic = self.made[first_index] = Topic(name, count, first_index)
        self.by_index += [Queue(first_index + queue_id, name, queue_id) for queue_id in range(count)]
        self._name(topic)
        return topic

    # Topics come, take effect, or go

    def _topic_added(self, effect: Effect) -> None:
        value = effect.value
        known = self.topics.get(value["name"])
        if not value["queues"]:
            if known is not None and known.first_index == value["first_index"] and known.deleted_at < 0:
                known.deleted_at = effect.position
        elif known is None or known.deleted_at >= 0:
            self._add_topic(value["name"], value["queues"], value["first_index"]).made_at = effect.position

    def _topic_confirmed(self, effect: Effect) -> None:
        topic = self.made.get(effect.value["first_index"])
        if topic is not None and topic.made_at == effect.position:
            topic.confirmed = True
        elif topic is not None and topic.deleted_at == effect.position:
            self._end_topic(topic)

    def _topic_undone(self, effect: Effect) -> None:
        topic = self.made.get(effect.value["first_index"])
        if topic is not None and topic.made_at == effect.position:
            self._remove_topic(topic)
        elif topic is not None and topic.deleted_at == effect.position:
            topic.deleted_at = -1

    def _end_topic(self, topic: Topic) -> None:
        """Let a topic be gone, with the offsets and locks of its queues."""
        topic.gone = True
        for index in topic.indexes:
            self.by_index[index].gone = True
        _forget(self.offsets, self.locks, topic)
        if self.topics.get(topic.name) is topic:
            self._unname(topic)

    def _remove_topic(self, topic: Topic) -> None:
        """Remove the topic that was made last: the one before it that has its name, and is not gone, is known again."""
        self._unname(topic)
        del self.made[topic.first_index]
        del self.by_index[topic.first_index :]
        for one in self.made.values():
            if one.name == topic.name and not one.gone:
                self._name(one)

    def _name(self, topic: Topic) -> None:
        self.topics[topic.name] = topic
        for index in topic.indexes:
            queue = self.by_index[index]
            self._by_name[topic.name, queue.queue_id] = queue

    def _unname(self, topic: Topic) -> None:
        del self.topics[topic.name]
        for queue_id in range(topic.queues):
            del self._by_name[topic.name, queue_id]


def _forget(offsets: dict[str, dict[int, int]], locks: QueueLocks, topic: Topic) -> None:
    """Forget what groups have of the queues of a topic."""
    locks.forget(topic.indexes)
    for group, table in list(offsets.items()):
        kept = {index: offset for index, offset in table.items() if index not in topic.indexes}
        if kept:
            offsets[group] = kept
        else:
            del offsets[group]
