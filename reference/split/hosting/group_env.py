"""What a replica sees of the world: its node's, with names of replicas, and shared with the node's other groups.

Whatever the groups want in one step is gathered: their messages, their syncs, and one timer for the first that is due.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import replace
from random import Random

from chaos import events
from chaos.events import Event
from chaos.node import Address, Disk, Env, Message
from reference.raft.messages import CLUSTER
from reference.raft.roles import ELECTION, HEARTBEAT
from reference.split.hosting.beats import Beats
from reference.split.hosting.bundles import GroupMessage, node_of
from reference.wire.command import Command

#: The node's one timer for all groups.
GROUPS_TIMER = "raft.groups"

_OF_RAFT = (events.RaftRole, events.Vote, events.TermRaised, events.RaftMembers, events.EntriesCut)


class Timers:
    """The timers of all groups, by the node's monotonic clock."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, str]] = []
        self._current: dict[tuple[int, str], int] = {}
        self._number = 0
        self._armed_ns: int | None = None
        self._is_news = False  # what is due first may be another one than when the node's timer was set

    def set(self, group: int, name: str, due_ns: int) -> None:
        """Set a timer; one that is set is set again."""
        self._number += 1
        self._is_news = True
        self._current[group, name] = self._number
        heapq.heappush(self._heap, (due_ns, self._number, group, name))

    def cancel(self, group: int, name: str) -> None:
        """Have it not fire."""
        self._current.pop((group, name), None)

    def drop(self, group: int) -> None:
        """Cancel all timers of a group."""
        for key in [key for key in self._current if key[0] == group]:
            del self._current[key]

    def take_due(self, now_ns: int) -> list[tuple[int, str]]:
        """Return the groups and names of those that are due, as the node's timer has fired."""
        self._armed_ns, self._is_news = None, True
        due = []
        while self._heap and self._heap[0][0] <= now_ns:
            _, number, group, name = heapq.heappop(self._heap)
            if self._current.get((group, name)) == number:
                del self._current[group, name]
                due.append((group, name))
        return due

    def arm(self, env: Env) -> None:
        """Set the node's timer for the first that is due."""
        if not self._is_news:
            return
        self._is_news = False
        while self._heap and self._current.get(self._heap[0][2:]) != self._heap[0][1]:
            heapq.heappop(self._heap)
        if self._heap and (self._armed_ns is None or self._heap[0][0] < self._armed_ns):
            self._armed_ns = self._heap[0][0]
            env.set_timer(GROUPS_TIMER, max(0, self._armed_ns - env.mono_ns()))


class Syncs:
    """The syncs of all groups. ``batch``: the number that stands for the next one, which begins when a step ends and no
    other is under way; groups get it as their token."""

    def __init__(self) -> None:
        self.batch = 1
        self._paths: dict[str, None] = {}
        self._groups: dict[int, None] = {}
        self._running: tuple[int, int, list[int]] | None = None  # token, batch, groups

    @property
    def is_wanted(self) -> bool:
        return bool(self._paths)

    def want(self, group: int, paths: Iterable[str]) -> int:
        """Have these paths synced with the next batch; return its number."""
        self._paths.update(dict.fromkeys(paths))
        self._groups[group] = None
        return self.batch

    @property
    def is_under_way(self) -> bool:
        return self._running is not None

    def is_due(self, batch: int) -> bool:
        """Return whether this batch has not ended yet."""
        return batch >= self.batch or self.token_of(batch) is not None

    def token_of(self, batch: int) -> int | None:
        """Return the token of the sync that is under way, if it is that of this batch."""
        return self._running[0] if self._running is not None and self._running[1] == batch else None

    def begin(self, env: Env) -> None:
        """Begin the batch."""
        self._running = (env.disk.sync(self._paths), self.batch, list(self._groups))
        self.batch += 1
        self._paths, self._groups = {}, {}

    def end(self, token: int) -> tuple[int, list[int]] | None:
        """Return the number of the batch that has ended, and which groups wanted it; None if it is none of theirs."""
        if self._running is None or self._running[0] != token:
            return None
        _, batch, groups = self._running
        self._running = None
        return batch, groups


class Shared:
    """What the groups of a node share in a step. ``messages``: by the batch that they wait for, 0 for none, and by
    their receiver. ``beat_ns``: so often leaders speak, all of a node's at the same moment."""

    def __init__(self, beat_ns: int) -> None:
        self.beat_ns = beat_ns
        self.timers = Timers()
        self.syncs = Syncs()
        self.beats = Beats()
        self.messages: dict[tuple[int, str], list[GroupMessage]] = {}
        self._env: Env | None = None

    @property
    def env(self) -> Env:
        """The node's, in the present step."""
        assert self._env is not None
        return self._env

    def enter(self, env: Env) -> None:
        """Begin a step."""
        self._env = env


class GroupDisk:
    """The node's disk. Implements :class:`chaos.node.Disk`, with syncs in batches."""

    def __init__(self, shared: Shared, group: int) -> None:
        self._shared, self._group = shared, group

    @property
    def _disk(self) -> Disk:
        return self._shared.env.disk

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        return self._disk.read(path, offset, length)

    def size(self, path: str) -> int:
        return self._disk.size(path)

    def list(self, prefix: str = "") -> list[str]:
        return self._disk.list(prefix)

    def write(self, path: str, offset: int, data: bytes) -> None:
        self._disk.write(path, offset, data)

    def truncate(self, path: str, size: int) -> None:
        self._disk.truncate(path, size)

    def rename(self, old: str, new: str) -> None:
        self._disk.rename(old, new)

    def remove(self, path: str) -> None:
        self._disk.remove(path)

    def sync(self, paths: Iterable[str]) -> int:
        return self._shared.syncs.want(self._group, paths)


class GroupEnv:
    """Implements :class:`chaos.node.Env` for the replica ``name`` of a group. Messages may overtake those that wait for
    a sync, as Raft's may."""

    def __init__(self, shared: Shared, group: int, name: str) -> None:
        self.group, self.name = group, name
        self.disk = GroupDisk(shared, group)
        self._shared = shared

    @property
    def node(self) -> Env:
        """The node's own; the exploration reaches its model by it."""
        return self._shared.env

    @property
    def incarnation(self) -> int:
        return self._shared.env.incarnation

    @property
    def rng(self) -> Random:
        return self._shared.env.rng

    @property
    def beats(self) -> Beats:
        """What this node's leaders say with one frame for all groups."""
        return self._shared.beats

    def send(self, to: str, message: Message, *, after: int | None = None) -> None:
        """Raft's messages go with those of the other groups; the frame says of which cluster they are."""
        assert isinstance(message, Command)
        batch = after if after is not None and self._shared.syncs.is_due(after) else 0
        numbers = {name: int(value) for name, value in message.fields.items() if name != CLUSTER}
        gathered = GroupMessage(self.group, message.code, numbers, message.body)
        self._shared.messages.setdefault((batch, to), []).append(gathered)

    def close(self, peer: str) -> None:
        self._shared.env.close(node_of(peer))

    def endpoints(self, peer: str) -> tuple[Address, Address]:
        return self._shared.env.endpoints(node_of(peer))

    def set_timer(self, name: str, delay_ns: int) -> None:
        """Heartbeats of all groups are due at the same moments, so that they make one frame. Then followers look as
        well whether they have heard their leaders: one that looks too early, looks once more when its time is over."""
        now_ns = self.mono_ns()
        due_ns = now_ns + delay_ns
        shared_ns = due_ns - due_ns % self._shared.beat_ns
        if name == HEARTBEAT or (name == ELECTION and shared_ns > now_ns):
            due_ns = shared_ns
        self._shared.timers.set(self.group, name, due_ns)

    def cancel_timer(self, name: str) -> None:
        self._shared.timers.cancel(self.group, name)

    def mono_ns(self) -> int:
        return self._shared.env.mono_ns()

    def wall_ns(self) -> int:
        return self._shared.env.wall_ns()

    def trace(self, event: Event) -> None:
        """Raft's events say of which group they are."""
        self._shared.env.trace(replace(event, group=self.group) if isinstance(event, _OF_RAFT) else event)
