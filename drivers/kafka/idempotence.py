"""A client whose producer is idempotent: brokers know a batch again that is sent once more, and store it once.

A broker counts the batches of a producer in each queue, from 0 in each epoch, and refuses one that leaves a gap. After
a send of unknown outcome it is unknown, too, what was counted. If the same message is sent next, it has the same number
again; if another one is, it begins the next epoch, as Kafka's own clients do (KIP-360).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from chaos.ops import Answer, Failed, QueueRef, Unknown, as_repetition
from drivers.kafka import wire
from drivers.kafka.client import NOT_APPENDED, QueueClient
from drivers.kafka.connection import ERROR

#: The broker has this batch, and doesn't know at which offset.
HAS_IT = 46
#: It has counted otherwise, or knows a later epoch, or nothing of this producer: what is sent was not appended.
COUNTED_OTHERWISE = frozenset({45, 47, 59})
#: For how long a transaction may be open, of which this producer has none.
NO_TRANSACTION_S = 60.0


@dataclass(slots=True)
class _Count:
    """One queue's. ``doubtful``: the message that was sent under the next number, if it is unknown whether that was
    counted."""

    epoch: int
    next: int = 0
    doubtful: tuple[str, bytes] | None = None


class IdempotentClient(QueueClient):
    """Implements :class:`chaos.driver.Client`. A retry that ends in ok may have been given the offset of the attempt
    before; its outcome counts as unknown, since nothing says which of them was the one."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._producer, self._epoch = -1, -1
        self._counts: dict[QueueRef, _Count] = {}

    async def send(self, queue: QueueRef, key: str, body: bytes) -> Answer:
        count, message = await self._count(queue), (key, body)
        if count.doubtful not in (None, message):
            count.epoch, count.next, count.doubtful = count.epoch + 1, 0, None
        is_retry, count.doubtful = count.doubtful is not None, message
        by = wire.Producer(self._producer, count.epoch, count.next)
        try:
            records = wire.batch(key.encode(), body, time.time(), by)
            answer = await self.produce(queue, records, NOT_APPENDED | COUNTED_OTHERWISE)
        except (Failed, Unknown) as error:
            code = error.answer.value.get(ERROR)
            if isinstance(error, Failed) and not is_retry:
                count.doubtful = None
                if code in COUNTED_OTHERWISE:
                    count.epoch, count.next = count.epoch + 1, 0
            elif code == HAS_IT:
                count.next, count.doubtful = count.next + 1, None
            if is_retry:
                raise as_repetition(error) from error
            raise
        count.next, count.doubtful = count.next + 1, None
        if is_retry:
            stored = Answer(node=answer.node, epoch=answer.epoch, offset=answer.offset)
            raise as_repetition(Unknown("it is stored once, by this attempt or an earlier one", stored))
        return answer

    async def _count(self, queue: QueueRef) -> _Count:
        """Return how a queue is counted; the producer gets its id first. Raises :class:`Failed`."""
        if self._producer < 0:
            asked: Any = {"transactional_id": None, "producer_id": -1, "producer_epoch": -1}
            limit = wire.milliseconds(NO_TRANSACTION_S)
            found = await self.connections.look(
                self.next_broker(), "init_producer_id", {**asked, "transaction_timeout": limit}
            )
            self._producer, self._epoch = found.producer_id, found.producer_epoch
        return self._counts.setdefault(queue, _Count(self._epoch))
