"""Locks of queues: consumers that read in order own the queues that they read, one member of a group each.

A member asks for the locks of its queues again and again (RocketMQ's client each 20 s); one that it has not renewed is
anybody's after :data:`LOCK_MS`, as in RocketMQ's ``RebalanceLockManager``. There the locks live in the memory of a
broker, so that a switch of masters gives a queue to a second member while the first one still reads. Here each lock
is a record of the log: a new master knows them all, and an answer leaves when the record is confirmed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reference.wire.fields import to_json

#: For so long a lock holds without being renewed. RocketMQ's client trusts one for 30 s.
LOCK_MS = 60_000


def lock_body(group: str, queue: int, client: str, until_ms: int) -> bytes:
    """Return the body of a record: the member ``client`` ("" for nobody) holds the lock until then."""
    return to_json({"group": group, "queue": queue, "client": client, "until_ms": until_ms})


class QueueLocks:
    """Who holds the lock of a queue (by its index) for a group, and until when (ms since 1970, by the clock of the
    master that gave it)."""

    def __init__(self, locks: Iterable[tuple[str, int, str, int]] = ()) -> None:
        self._held = {(group, queue): (client, until_ms) for group, queue, client, until_ms in locks}

    def holder(self, group: str, queue: int, now_ms: int) -> str:
        """Return who holds it now, "" for nobody."""
        client, until_ms = self._held.get((group, queue), ("", 0))
        return client if now_ms < until_ms else ""

    def change(self, value: dict[str, Any]) -> None:
        """Take in a record's body."""
        place = value["group"], value["queue"]
        self._held.pop(place, None)
        if value["client"]:
            self._held[place] = value["client"], value["until_ms"]

    def forget(self, queues: range) -> None:
        """Forget all locks of these queues, which are gone."""
        self._held = {place: one for place, one in self._held.items() if place[1] not in queues}

    def has_room(self, group: str, queue: int, most: int) -> bool:
        return (group, queue) in self._held or len(self._held) < most

    def listed(self) -> list[tuple[str, int, str, int]]:
        """Return all locks as a base keeps them: group, queue, member, until when."""
        return sorted((group, queue, client, until_ms) for (group, queue), (client, until_ms) in self._held.items())
