"""Who lives: the last heartbeat of each broker, and when a group's master has to be looked at again.

Liveness is one controller's memory and stands in no log. Two ways to notice silence: :class:`Scan` looks at every group
each time, as RocketMQ's controller does; :class:`Agenda` looks at those whose state has changed, and at a group whose
master lives when its last heartbeat gets too old, and not before.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from sys import intern
from typing import Protocol

from reference.controller.replicas import Standing

#: Groups that are looked at in one step.
MAX_LOOKS = 512


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The last heartbeat of one replica, and what it said. ``connection``: the peer by whose connection it came, "" for
    one that is called by the replica's address."""

    group: str
    broker: int
    heard_ns: int
    standing: Standing
    connection: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "group", intern(self.group))


class Heartbeats:
    """By address, and by group: a decision about a group looks at its own brokers only."""

    def __init__(self) -> None:
        self._by_address: dict[str, Heartbeat] = {}
        self._by_group: dict[str, dict[str, Heartbeat]] = {}
        #: By connection, the addresses of those who speak through it without being called like it.
        self._speakers: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._by_address)

    def __contains__(self, address: object) -> bool:
        return address in self._by_address

    def get(self, address: str) -> Heartbeat | None:
        return self._by_address.get(address)

    def of(self, group: str) -> dict[str, Heartbeat]:
        """By address, the heartbeats of a group's brokers, in the order in which they were first heard."""
        return self._by_group.get(group, {})

    def put(self, address: str, heartbeat: Heartbeat) -> None:
        known = self._by_address.get(address)
        if known is not None and (known.group, known.connection) != (heartbeat.group, heartbeat.connection):
            self.remove(address)
        address = intern(address)  # the state knows it, too
        if heartbeat.connection and address not in self._by_address:
            self._speakers.setdefault(heartbeat.connection, {})[address] = None
        self._by_address[address] = heartbeat
        self._by_group.setdefault(heartbeat.group, {})[address] = heartbeat

    def cut_off(self, peer: str) -> list[Heartbeat]:
        """Remove and return the heartbeats that came by the connection with this peer: it is over, and their senders
        are not known to live any more."""
        known = self._by_address.get(peer)
        gone = [*self._speakers.get(peer, ()), *([peer] if known is not None and not known.connection else [])]
        return [one for one in map(self.remove, gone) if one is not None]

    def remove(self, address: str) -> Heartbeat | None:
        gone = self._by_address.pop(address, None)
        if gone is not None and gone.connection:
            speakers = self._speakers[gone.connection]
            del speakers[address]
            if not speakers:
                del self._speakers[gone.connection]
        if gone is not None:
            others = self._by_group[gone.group]
            del others[address]
            if not others:
                del self._by_group[gone.group]
        return gone

    def remove_dead(self, is_alive: Callable[[Heartbeat], bool]) -> None:
        for address in [at for at, one in self._by_address.items() if not is_alive(one)]:
            self.remove(address)


class Watch(Protocol):
    """Which groups are to be looked at. A group without a living master is looked at again and again."""

    def restart(self, groups: Iterable[str]) -> None:
        """Begin to lead: nothing is known of any group."""

    def changed(self, group: str) -> None:
        """Something has happened that may take a group's master."""

    def settled(self, group: str, until_ns: int) -> None:
        """Look at the group no sooner than ``until_ns``, unless it changes: its master lives."""

    def gone(self, group: str) -> None:
        """Look at the group no more unless it changes: it has no master that could be lost."""

    def due(self, now_ns: int, groups: Iterable[str]) -> list[str]:
        """Return the groups to look at now; at most :data:`MAX_LOOKS` of them unless all are."""

    @property
    def has_more(self) -> bool:
        """Whether :meth:`due` has left some for the next step."""


class Scan:
    """Looks at all groups each time."""

    has_more = False

    def restart(self, groups: Iterable[str]) -> None: ...

    def changed(self, group: str) -> None: ...

    def settled(self, group: str, until_ns: int) -> None: ...

    def gone(self, group: str) -> None: ...

    def due(self, now_ns: int, groups: Iterable[str]) -> list[str]:
        return list(groups)


class Agenda:
    """Keeps the groups that need a look, and a heap of those that will."""

    def __init__(self) -> None:
        self._open: dict[str, None] = {}
        self._until: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []
        self._rest: list[str] = []

    @property
    def has_more(self) -> bool:
        return bool(self._rest)

    def restart(self, groups: Iterable[str]) -> None:
        self._open = dict.fromkeys(groups)
        self._until.clear()
        self._heap.clear()
        self._rest.clear()

    def changed(self, group: str) -> None:
        self._open[group] = None

    def settled(self, group: str, until_ns: int) -> None:
        self._open.pop(group, None)
        if self._until.get(group) != until_ns:
            self._until[group] = until_ns
            heapq.heappush(self._heap, (until_ns, group))

    def gone(self, group: str) -> None:
        self._open.pop(group, None)
        self._until.pop(group, None)

    def due(self, now_ns: int, groups: Iterable[str]) -> list[str]:
        """``settled`` may have put a group into the heap more than once: only its last time counts."""
        if not self._rest:
            while self._heap and self._heap[0][0] < now_ns:
                until_ns, group = heapq.heappop(self._heap)
                if self._until.get(group) == until_ns:
                    del self._until[group]
                    self._open[group] = None
            self._rest = list(self._open)
        now, self._rest = self._rest[:MAX_LOOKS], self._rest[MAX_LOOKS:]
        return now
