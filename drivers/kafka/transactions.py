"""A producer with a transactional id, in the requests that Kafka has had since 0.11, or in those by which brokers since
4.0 give it a new epoch with each transaction, so that a late request can't meddle with the next one (KIP-890).

Kafka counts a producer's batches in each queue, and refuses one that leaves a gap. After a send whose outcome is
unknown it is also unknown how far it has counted. So the next transaction begins with a new epoch of the same producer,
in which it counts from 0 again (KIP-360).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from chaos.ops import Answer, Failed, QueueRef, Unknown
from drivers.kafka import wire
from drivers.kafka.client import NOT_APPENDED, NOT_COMMITTED, TRANSACTION, QueueClient, by_topic
from drivers.kafka.connection import ERROR

T = TypeVar("T")
#: So long a transaction may be open before Kafka aborts it.
OPEN_S = 20.0
#: A later owner has the id; the errors of older and newer brokers.
FENCED = frozenset({47, 90})
#: The end of the transaction before is not written everywhere yet; so long and so often it is waited for.
UNDER_WAY, PATIENCE_S, PAUSE_S = 51, 2.0, 0.05
#: A request about a transaction with one of these errors surely changed nothing: a coordinator that is loading, a later
#: owner, no such state, no such producer, a request under way, not allowed, only an abort is allowed.
UNCHANGED = FENCED | {14, 42, 48, 49, UNDER_WAY, 53, 120}
#: Besides what holds for all sends: out of order, no such state, no such producer, and as above.
NOT_ADDED = NOT_APPENDED | FENCED | {45, 48, 49, UNDER_WAY, 59, 120}


class Transactions:
    """Implements :class:`chaos.log_services.Transactions`. ``_sequences``: how many batches it has sent to each queue
    in this epoch; ``_added``: the queues and groups in the open transaction; ``_is_counted``: whether it is known what
    Kafka has counted. ``_versions``: those of requests to brokers that give it a new epoch with each transaction."""

    def __init__(self, client: QueueClient, id: str, *, bumps: bool) -> None:
        self._client = client
        self._id = id
        self._versions = wire.BUMPING if bumps else {}
        self._producer, self._epoch = -1, -1
        self._sequences: dict[QueueRef, int] = {}
        self._added: set[object] = set()
        self._is_counted = True

    async def take_over(self) -> Answer:
        return await self._ask("init_producer_id", self._initial(-1, -1))

    async def begin(self) -> Answer:
        """Begin. Nothing is asked for that, but for a new epoch where it is unknown what Kafka has counted, or how the
        last transaction ended: what is still open would go on as part of this one."""
        if self._added or not self._is_counted:
            await self._step("init_producer_id", self._initial(self._producer, self._epoch))
        return Answer(value={"epoch": self._epoch})

    async def send(self, queue: QueueRef, key: str, body: bytes) -> Answer:
        names = {f"v3_and_below_{name}": value for name, value in self._mine.items()}
        topics = [{"name": queue.topic, "partitions": [queue.queue_id]}]
        await self._add(queue, "add_partitions_to_txn", {**names, "v3_and_below_topics": topics})
        sequence = self._sequences.get(queue, 0)
        self._sequences[queue] = sequence + 1
        by = wire.Producer(self._producer, self._epoch, sequence, is_open=True)
        records = wire.batch(key.encode(), body, time.time(), by)
        version = self._versions.get("produce", 0)
        try:
            return await _patiently(lambda: self._client.produce(queue, records, NOT_ADDED, self._id, version))
        except (Failed, Unknown) as error:
            self._is_counted = False
            raise _told(error) from error

    async def commit_offsets(self, group: str, offsets: Mapping[QueueRef, int]) -> Answer:
        await self._add(group, "add_offsets_to_txn", {**self._mine, "group_id": group})
        node = await self._client.coordinator(group)
        asked = {**self._mine, "group_id": group, "group_instance_id": None, "topics": by_topic(offsets)}
        more: Any = {"parts": len(offsets), "version": self._versions.get("txn_offset_commit", 0)}
        ask = self._client.connections.ask
        try:
            await _patiently(lambda: ask(node, "txn_offset_commit", asked, NOT_COMMITTED | UNCHANGED, **more))
        except (Failed, Unknown) as error:
            self._client.forget(group)
            raise _told(error) from error
        return Answer(node=node)

    async def end(self, *, commit: bool) -> Answer:
        """End the transaction; one to which nothing was added has no state that could be ended."""
        if not self._added:
            return Answer()
        answer = await self._ask("end_txn", {**self._mine, "committed": commit})
        self._added.clear()
        return Answer(node=answer.node)

    def close(self) -> None:
        self._client.close()

    @property
    def _mine(self) -> dict[str, Any]:
        return {"transactional_id": self._id, "producer_id": self._producer, "producer_epoch": self._epoch}

    def _initial(self, producer: int, epoch: int) -> Mapping[str, Any]:
        """Return a request for a new epoch of this producer; without one, for a new owner of the id."""
        who = {"transactional_id": self._id, "producer_id": producer, "producer_epoch": epoch}
        return {**who, "transaction_timeout": wire.milliseconds(OPEN_S)}

    async def _add(self, what: object, request: str, asked: Mapping[str, Any]) -> None:
        """Add a queue or a group to the transaction, before the first message or offset in it; newer brokers do that
        themselves."""
        if what not in self._added and not self._versions:
            await self._step(request, asked)
        self._added.add(what)

    async def _step(self, request: str, asked: Mapping[str, Any]) -> None:
        """Do what must come before. Raises :class:`Failed` however it ends otherwise; it may then be there to be
        ended."""
        try:
            await _patiently(lambda: self._ask(request, asked))
        except Unknown as error:
            self._added.add(request)
            raise Failed(error.reason, error.answer) from error

    async def _ask(self, request: str, asked: Mapping[str, Any]) -> Answer:
        node = await self._client.coordinator(self._id, TRANSACTION)
        try:
            version = self._versions.get(request, 0)
            found = await self._client.connections.ask(node, request, asked, UNCHANGED, version=version)
        except (Failed, Unknown) as error:
            self._client.forget(self._id)
            raise _told(error) from error
        if getattr(found, "producer_id", -1) >= 0:
            self._producer, self._epoch = found.producer_id, found.producer_epoch
            self._added.clear()
            self._sequences.clear()
            self._is_counted = True
        return Answer(node=node, value={"epoch": self._epoch})


async def _patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask again while Kafka says that it has not done yet with the transaction before."""
    last_s = asyncio.get_running_loop().time() + PATIENCE_S
    while True:
        try:
            return await ask()
        except Failed as error:
            if error.answer.value.get(ERROR) != UNDER_WAY or asyncio.get_running_loop().time() >= last_s:
                raise
        await asyncio.sleep(PAUSE_S)


def _told(error: Failed | Unknown) -> Failed | Unknown:
    """Return an error that says whether a later owner has the id."""
    answer = error.answer
    if isinstance(error, Failed) and answer.value.get(ERROR) in FENCED:
        return Failed(error.reason, Answer(node=answer.node, value={**answer.value, "fenced": True}))
    return error
