"""Messages that the log holds and that no queue has yet: half messages of transactions, and those that come later.

RocketMQ keeps half messages, delayed messages and those that consumers sent back in topics of the system's own, and
moves each to its queue in the end. Here such a message is a *deferred* record of the one log. It is *settled* by the
record that puts it into its queue, which names the position of the deferred one (``preparedTransactionOffset``, as in
RocketMQ), or by a record that says it never comes. So both are one step, which no crash and no switch can halve:
the next master finds in its log that the message has come, or that it still waits.

Retention never cuts off a deferred record that waits. The master writes one that stands in its way again at the end of
the log; it keeps the position at which it stood first as its *key*.
"""

from __future__ import annotations

from dataclasses import dataclass

from reference.broker import properties
from reference.broker.records import Record


@dataclass(frozen=True, slots=True)
class Deferred:
    """A message that waits. ``due_ms``: when it comes (-1: it waits for the end of its transaction); ``group``: the
    producers that its transaction belongs to; ``stored_ms``: when it was sent; ``handle``: under which
    a member was given it. Times in ms since 1970."""

    key: int
    position: int
    size: int
    due_ms: int
    group: str
    stored_ms: int
    handle: str = ""

    @property
    def is_half(self) -> bool:
        return self.due_ms < 0

    @classmethod
    def of(cls, record: Record) -> Deferred:
        """Return what a deferred record of the log says. A copy was stored when its original was."""
        values = properties.read(record.properties)
        due, stored = values.get(properties.DUE_MS, ""), values.get(_STORED_MS, "")
        return cls(
            key=record.prepared or record.position,
            position=record.position,
            size=record.size,
            due_ms=int(due) if due else -1,
            group=values.get(properties.PRODUCER_GROUP, ""),
            stored_ms=int(stored) if stored else record.store_ms,
            handle=values.get(properties.HANDLE, ""),
        )


#: A property of our own: when the first of several copies of a deferred record was stored.
_STORED_MS = "__STORED_MS"


def as_copy(values: dict[str, str], entry: Deferred) -> dict[str, str]:
    """Return the properties of a copy of a deferred record."""
    return {**values, _STORED_MS: str(entry.stored_ms)}


def as_message(values: dict[str, str]) -> dict[str, str]:
    """Return the properties that a deferred message has when it comes to its queue."""
    ours = (
        *(properties.DUE_MS, properties.REAL_TOPIC, properties.REAL_QUEUE, _STORED_MS),
        *(properties.HALF, properties.DELAY_LEVEL, properties.HANDLE),
    )
    return {name: value for name, value in values.items() if name not in ours}


class DeferredMessages:
    """The confirmed deferred messages that wait, in the order of their positions in the log."""

    def __init__(self) -> None:
        self._waiting: dict[int, Deferred] = {}
        self._handles: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def get(self, key: int) -> Deferred | None:
        return self._waiting.get(key)

    def waiting(self) -> list[Deferred]:
        return list(self._waiting.values())

    def first(self) -> Deferred | None:
        """Return the one that stands first in the log."""
        return next(iter(self._waiting.values()), None)

    def add(self, entry: Deferred) -> None:
        """Add one that is confirmed now, or put a copy in its place: a copy stands behind all others."""
        self._waiting.pop(entry.key, None)
        self._waiting[entry.key] = entry
        if entry.handle:
            self._handles[entry.handle] = entry.key

    def under(self, handle: str) -> Deferred | None:
        """Return the one that a member was given under this handle."""
        return self._waiting.get(self._handles.get(handle, -1))

    def settle(self, key: int) -> None:
        """Forget one that has come to its queue, or never will."""
        entry = self._waiting.pop(key, None)
        if entry is not None and entry.handle:
            self._handles.pop(entry.handle, None)
