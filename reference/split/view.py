"""Meta's catalog as its followers use it: typed, and only as new as their prefix of meta's log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from chaos import events
from chaos.node import Env
from reference.metadata.catalog import Entry, Key
from reference.metadata.follower import Follower, View, WatchAnswer
from reference.split import names
from reference.split.layout import slice_name
from reference.split.names import Broker, Group, Owner, Store, Topic
from reference.wire.command import Command

T = TypeVar("T")


class Entries(Protocol):
    """What holds entries: a follower's view, or meta's own catalog."""

    revision: int
    entries: dict[Key, Entry]


class Cluster:
    """Typed access to entries. What is read of an entry is kept until that entry changes, lists until anything does."""

    def __init__(self, source: Entries) -> None:
        self._source = source
        self._read: dict[Key, tuple[Entry, object]] = {}
        self._listed: dict[str, tuple[int, Sequence[object]]] = {}
        self._topics: tuple[int, Mapping[int, Topic]] = (-1, {})

    @property
    def revision(self) -> int:
        """How many changes are known; -1 while nothing is."""
        return self._source.revision

    def broker(self, name: str) -> Broker | None:
        """Return a broker, however its life stands."""
        return self._one(names.BROKER, name, Broker.read)

    def brokers(self) -> Sequence[Broker]:
        """Return all brokers, by name."""
        return self._all(names.BROKER, Broker.read)

    def store(self, name: str) -> Store | None:
        """Return a store, whatever its state is."""
        return self._one(names.STORE, name, Store.read)

    def stores(self) -> Sequence[Store]:
        """Return all stores, by name."""
        return self._all(names.STORE, Store.read)

    def owner(self, number: int) -> Owner:
        """Return who owns a slice; an owner of epoch 0 where nobody ever did."""
        name = slice_name(number)
        return self._one(names.OWNER, name, Owner.read) or Owner(name)

    def is_current(self, owner: Owner) -> bool:
        """Return whether the life that owns a slice goes on, as far as this prefix of meta's log says."""
        broker = self.broker(owner.broker) if owner.broker else None
        return broker is not None and broker.lives and broker.life == owner.life

    def group(self, number: int) -> Group | None:
        """Return a group; None before it was born."""
        return self._one(names.GROUP, str(number), Group.read)

    def groups(self) -> Sequence[Group]:
        """Return all groups that were born, by number."""
        return sorted(self._all(names.GROUP, Group.read), key=lambda group: group.number)

    def topic(self, name: str) -> Topic | None:
        """Return a topic that is there; None for one that never was, or is deleted."""
        topic = self.last_topic(name)
        return None if topic is None or topic.deleted else topic

    def last_topic(self, name: str) -> Topic | None:
        """Return the topic that is called so, or was called so last."""
        return self._one(names.TOPIC, name, Topic.read)

    def topics(self) -> Sequence[Topic]:
        """Return all topics that are there, by name."""
        return [topic for topic in self._all(names.TOPIC, Topic.read) if not topic.deleted]

    def topic_of(self, topic_id: int) -> Topic | None:
        """Return the topic with this id, if it is there."""
        if self._topics[0] != self.revision:
            self._topics = self.revision, {topic.id: topic for topic in self.topics()}
        return self._topics[1].get(topic_id)

    def is_deleted(self, topic_id: int) -> bool:
        """Return whether a topic with this id was made and is deleted. Ids are revisions, so one that this view has
        passed and that no topic has is never used again."""
        return topic_id <= self.revision and self.topic_of(topic_id) is None

    def _one(self, kind: str, name: str, read: Callable[[Entry], T]) -> T | None:
        entry = self._source.entries.get((kind, name))
        if entry is None or entry.value is None:
            return None
        known = self._read.get(entry.key)
        if known is None or known[0] is not entry:
            known = self._read[entry.key] = entry, read(entry)
        return known[1]  # type: ignore[return-value]

    def _all(self, kind: str, read: Callable[[Entry], T]) -> Sequence[T]:
        known = self._listed.get(kind)
        if known is None or known[0] != self.revision:
            called = sorted(name for one, name in self._source.entries if one == kind)
            found = [one for one in (self._one(kind, name, read) for name in called) if one is not None]
            known = self._listed[kind] = self.revision, found
        return known[1]  # type: ignore[return-value]


class ClusterFollower(Follower):
    """Keeps a view of meta's catalog current, and traces which memberships of groups it routes by."""

    kinds = names.KINDS

    def __init__(self, metas: Sequence[str], view: type[View] = View) -> None:
        super().__init__(metas, view)
        self.cluster = Cluster(self.view)
        self._traced: dict[str, int] = {}

    def understand(self, message: Command) -> WatchAnswer:
        """Read an answer to a watch. Raises :class:`chaos.node.Malformed`."""
        answer = super().understand(message)
        for entry in (*answer.changes, *(answer.entries or ())):
            names.check_entry(entry)
        return answer

    def answered(self, env: Env, source: str, message: Command) -> bool:
        """Take an answer; False if it is none to this part of the node. Raises :class:`chaos.node.Malformed`."""
        before = self.view.revision
        taken = super().answered(env, source, message)
        if self.view.revision != before:
            self._trace_view(env)
        return taken

    def _trace_view(self, env: Env) -> None:
        now = {str(group.number): group.index for group in self.cluster.groups()}
        changed = {name: index for name, index in now.items() if self._traced.get(name) != index}
        self._traced = now
        env.trace(events.MapView(revision=self.view.revision, groups=changed))
