"""A member of a consumer group by KIP-848's protocol: its heartbeats carry what the coordinator gives and takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chaos.ops import Answer, QueueRef
from drivers.kafka import wire
from drivers.kafka.client import QueueClient
from drivers.kafka.members import REBALANCE_S, Member

#: The epoch of one that joins, and of one that leaves.
JOINS, LEAVES = 0, -1


class ConsumerMember(Member):
    """Implements :class:`chaos.log_services.GroupMember`. A queue that the coordinator has given it is its own once it
    knows where to begin there, and no longer when the coordinator says so. ``_given``: what it was given; ``_told``:
    what it has reported to the coordinator."""

    def __init__(self, client: QueueClient, group: str, queues: Sequence[QueueRef]) -> None:
        super().__init__(client, group, queues)
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
        answer = await self._beat(
            self.generation, {**_UNCHANGED, "topic_partitions": None if has == self._told else owned}
        )
        self._told = has
        return answer

    async def leave(self) -> Answer:
        self.positions.clear()
        await self._send(LEAVES, {**_UNCHANGED, "topic_partitions": None})
        return self.answer()

    async def _beat(self, epoch: int, asked: Mapping[str, Any]) -> Answer:
        node, found = await self._send(epoch, asked)
        self.id, self.generation = found.member_id or self.id, found.member_epoch
        if found.assignment is not None:
            parts = found.assignment.topic_partitions
            self._topic = parts[0].topic_id if parts else self._topic
            numbers = [number for part in parts for number in part.partitions]
            self._given = [self.queues[number] for number in numbers if number in self.queues]
            self.positions = {queue: at for queue, at in self.positions.items() if queue in self._given}
        await self.begin(self._given)
        return self.told(node)

    async def _send(self, epoch: int, asked: Mapping[str, Any]) -> tuple[str, Any]:
        return await self.ask("consumer_group_heartbeat", {"member_id": self.id, "member_epoch": epoch, **asked})


_UNCHANGED: Mapping[str, Any] = {"rebalance_timeout": wire.milliseconds(-0.001), "subscribed_topic_names": None}
