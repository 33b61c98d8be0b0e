"""A queue as the owner of its slice knows it: its bounds, and the newest records in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

CACHE_BYTES = 16 << 20


@dataclass(slots=True, eq=False)
class OpenQueue:
    """``number`` is the queue's in its topic, ``rank`` what clients call it. ``next`` is the offset of the next record
    that comes, ``end`` that of the first which is not acknowledged: readers see nothing from there on."""

    group: int
    slice: int
    epoch: int
    topic_id: int
    number: int
    rank: int
    cache: TailCache
    is_open: bool = True  # until its group is closed
    first: int = 0
    next: int = 0
    end: int = 0
    tail: deque[bytes] = field(default_factory=deque)

    def grow(self, data: bytes) -> None:
        """The next record is acknowledged."""
        self.end += 1
        self.cache.add(self, data)

    def trimmed(self, first: int) -> None:
        """Learn where the queue begins; it never begins earlier again."""
        self.first = max(self.first, min(first, self.end))

    def cached(self, offset: int, max_count: int, max_bytes: int) -> list[bytes]:
        """Return records from ``offset`` on, at least one unless it isn't in memory."""
        begin = offset - (self.end - len(self.tail))
        if begin < 0:
            return []
        found: list[bytes] = []
        for data in islice(self.tail, begin, begin + max_count):
            max_bytes -= len(data)
            if found and max_bytes < 0:
                break
            found.append(data)
        return found


class TailCache:
    """The newest acknowledged records of all queues of a broker, so many bytes of them."""

    def __init__(self, most_bytes: int = CACHE_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._order: deque[OpenQueue] = deque()  # whose each record is, the oldest first

    def add(self, queue: OpenQueue, data: bytes) -> None:
        """Keep the newest record of a queue, and drop the oldest of all where there are too many."""
        queue.tail.append(data)
        self._order.append(queue)
        self._bytes += len(data)
        while self._bytes > self._most_bytes:
            self._bytes -= len(self._order.popleft().tail.popleft())

    def forget(self, queues: Sequence[OpenQueue]) -> None:
        """Drop the records of queues that are served no longer."""
        gone = {id(queue) for queue in queues}
        self._order = deque(queue for queue in self._order if id(queue) not in gone)
        for queue in queues:
            self._bytes -= sum(map(len, queue.tail))
            queue.tail.clear()
