"""A member of a consumer group by KIP-848's protocol: its heartbeats carry what the coordinator gives and takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chaos.ops import Answer, Failed, QueueRef, Unknown
from drivers.kafka import wire
from drivers.kafka.client import QueueClient
from drivers.kafka.cluster import SESSION_S
from drivers.kafka.connection import ERROR
from drivers.kafka.positions import LogReader

#: How long a member may take to give a queue back.
REBALANCE_S = 10.0
#: The epoch of one that joins, and of one that leaves.
JOINS, LEAVES = 0, -1
UNKNOWN_MEMBER, FENCED, UNRELEASED, STALE = 25, 110, 111, 113
#: The member is put out, or speaks for an epoch that is over.
IS_OVER = frozenset({UNKNOWN_MEMBER, FENCED, UNRELEASED, STALE})


class GroupMember(LogReader):
    """Implements :class:`chaos.log_services.GroupMember`. A queue that the coordinator has given it is its own once it
    knows where to begin there, and no longer when the coordinator says so. ``_given``: what it was given; ``_told``:
    what it has reported to the coordinator."""

    session_s = SESSION_S

    def __init__(self, client: QueueClient, group: str, queues: Sequence[QueueRef]) -> None:
        super().__init__(client)
        self._group = group
        self._queues = {queue.queue_id: queue for queue in queues}
        self._id, self._epoch = "", JOINS
        self._topic: Any = None
        self._given: Sequence[QueueRef] = ()
        self._told: frozenset[QueueRef] = frozenset()

    async def join(self, topics: Sequence[str]) -> Answer:
        self.positions.clear()
        self._given, self._told = (), frozenset()
        asked = {"rebalance_timeout": wire.milliseconds(REBALANCE_S), "subscribed_topic_names": list(topics)}
        return await self._beat(JOINS, {**asked, "topic_partitions": []})

    async def heartbeat(self) -> Answer:
        has = frozenset(self.positions)
        partitions = [queue.queue_id for queue in self.positions]
        owned = [{"topic_id": self._topic, "partitions": partitions}] if partitions else []
        asked = {"rebalance_timeout": wire.milliseconds(-0.001), "subscribed_topic_names": None}
        answer = await self._beat(self._epoch, {**asked, "topic_partitions": None if has == self._told else owned})
        self._told = has
        return answer

    async def commit(self, offsets: Mapping[QueueRef, int]) -> Answer:
        try:
            return await self.client.store(self._group, offsets, self._id, self._epoch)
        except Failed as error:
            raise _told(error) from error

    async def leave(self) -> Answer:
        asked = {"rebalance_timeout": wire.milliseconds(-0.001), "subscribed_topic_names": None}
        self.positions.clear()
        await self._ask(LEAVES, {**asked, "topic_partitions": None})
        return self.answer()

    async def _beat(self, epoch: int, asked: Mapping[str, Any]) -> Answer:
        node, found = await self._ask(epoch, asked)
        self._id, self._epoch = found.member_id or self._id, found.member_epoch
        if found.assignment is not None:
            parts = found.assignment.topic_partitions
            self._topic = parts[0].topic_id if parts else self._topic
            numbers = [number for part in parts for number in part.partitions]
            self._given = [self._queues[number] for number in numbers if number in self._queues]
            self.positions = {queue: at for queue, at in self.positions.items() if queue in self._given}
        for queue in self._given:
            if queue not in self.positions:
                await self._begin(queue)
        queues = sorted(queue.index for queue in self.positions)
        return self.answer({"queues": queues, "generation": self._epoch, "rejoin": False}, node=node)

    async def _begin(self, queue: QueueRef) -> None:
        """Begin a queue at the group's committed offset, at its first offset where there is none. If neither can be
        had, it is left for the next heartbeat."""
        try:
            stored = (await self.client.committed(queue, self._group)).offset
            self.positions[queue] = stored if stored >= 0 else (await self.client.bounds(queue)).minimum
        except Failed:
            return

    async def _ask(self, epoch: int, asked: Mapping[str, Any]) -> tuple[str, Any]:
        node = await self.client.coordinator(self._group)
        who = {"group_id": self._group, "member_id": self._id, "member_epoch": epoch}
        try:
            sure = IS_OVER | {14, 15, 16, 24, 42}
            return node, await self.client.connections.ask(node, "consumer_group_heartbeat", {**who, **asked}, sure)
        except Failed as error:
            self.client.forget(self._group)
            raise _told(error) from error
        except Unknown:
            self.client.forget(self._group)
            raise


def _told(error: Failed) -> Failed:
    """Return an error that says whether the member must join again."""
    over = error.answer.value.get(ERROR) in IS_OVER
    return (
        Failed(error.reason, Answer(node=error.answer.node, value={**error.answer.value, "fenced": True}))
        if over
        else error
    )
