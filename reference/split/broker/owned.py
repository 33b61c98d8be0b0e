"""A slice in one epoch, as the broker has it that owns it: its groups, and what is under way in each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from chaos import events
from chaos.node import Env
from reference.broker.parts import Refused
from reference.split.broker.appending import Appends
from reference.split.broker.asking import Stores
from reference.split.broker.committing import Commits
from reference.split.broker.confirming import Confirms
from reference.split.broker.queues import OpenQueue, TailCache
from reference.split.layout import slice_name
from reference.split.names import Owner
from reference.split.requests import MAX_QUEUES, FenceAnswer, FenceRequest
from reference.wire.codes import Response


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupParts:
    """What groups are made with. ``window``: how many appends to one may be under way; ``timeout_ns``: how long a
    client's request may wait."""

    stores: Stores
    window: int
    timeout_ns: int
    cache: TailCache = field(default_factory=TailCache)
    appends: type[Appends] = Appends
    commits: type[Commits] = Commits
    confirms: type[Confirms] = Confirms


class OpenGroup:
    """One group in one epoch of its slice: its queues, and all that this broker has under way there."""

    def __init__(
        self, parts: GroupParts, owned: OwnedSlice, group: int, found: FenceAnswer, lost: Callable[[Env, int], None]
    ) -> None:
        self.group = group
        self._slice, self._epoch = owned.number, owned.epoch
        self._cache = parts.cache
        self._queues: dict[tuple[int, int], OpenQueue] = {}
        self._found = {(one.topic_id, one.number): one for one in found.queues}
        offsets = {(one.consumer, one.topic_id, one.number): one.offset for one in found.commits}
        stores, epoch = parts.stores, owned.epoch
        self.appends = parts.appends(stores, group, epoch, found.end, lost, parts.window)
        self.commits = parts.commits(stores, group, epoch, offsets, lost)
        self.confirms = parts.confirms(stores, group, epoch, lost, self._trimmed, parts.timeout_ns)

    def queue(self, topic_id: int, number: int, rank: int) -> OpenQueue:
        """Return a queue that lies in this group; it is empty where nothing was ever appended. Raises
        :class:`Refused` where the group would refuse its first append, and with that all others."""
        key = topic_id, number
        queue = self._queues.get(key)
        if queue is None:
            if key not in self._found and len(self._queues) + len(self._found) >= MAX_QUEUES:
                raise Refused(Response.NO_PERMISSION, f"group {self.group} has no room for more queues")
            queue = OpenQueue(self.group, self._slice, self._epoch, topic_id, number, rank, self._cache)
            if key in self._found:
                window = self._found.pop(key)
                queue.first, queue.next, queue.end = window.first, window.next, window.next
            self._queues[key] = queue
        return queue

    def _trimmed(self, starts: Sequence[tuple[int, int, int]]) -> None:
        for topic_id, number, first in starts:
            queue = self._queues.get((topic_id, number))
            if queue is not None:
                queue.trimmed(first)

    def expire(self, env: Env) -> None:
        """End requests that waited too long."""
        self.appends.expire(env)
        self.commits.expire(env)

    def first_deadline_ns(self) -> int | None:
        """Return when the first of those who wait has waited too long."""
        pending, committing = self.appends.pending, self.commits.first_deadline_ns()
        first = pending[0].deadline_ns if pending else None
        return min((one for one in (first, committing) if one is not None), default=None)

    def close(self, env: Env) -> None:
        """End all that is under way."""
        for queue in self._queues.values():
            queue.is_open = False
        self._cache.forget(tuple(self._queues.values()))
        self.appends.close(env)
        self.commits.close(env)
        self.confirms.close(env)


class OwnedSlice:
    """A slice that this broker owns, as far as meta's log says. It serves once all of its groups are open."""

    def __init__(self, number: int, owner: Owner, groups: Sequence[int]) -> None:
        self.number = number
        self.name = slice_name(number)
        self.epoch = owner.epoch
        self.life = owner.life
        self.numbers = groups
        self.groups: dict[int, OpenGroup] = {}
        self.found: dict[tuple[int, int], tuple[OpenGroup, OpenQueue]] = {}  # by topic id and rank, which never change
        self.is_open = False

    def ends(self) -> dict[str, int]:
        """Return up to where each group is acknowledged."""
        return {str(number): group.appends.acknowledged for number, group in sorted(self.groups.items())}

    def request(self, group: int, broker: str) -> FenceRequest:
        """Return the FENCE for a group."""
        return FenceRequest(group=group, slice=self.number, epoch=self.epoch, broker=broker, life=self.life)

    def opened(self) -> events.SliceOpened:
        """Return the event that it serves from now on."""
        return events.SliceOpened(epoch=self.epoch, slice=self.name, life=self.life, ends=self.ends())

    def closed(self) -> events.SliceClosed:
        """Return the event that it serves no more."""
        return events.SliceClosed(epoch=self.epoch, slice=self.name, life=self.life, ends=self.ends())
