"""A member of a consumer group by Kafka's classic protocol: all give their queues back and join again, and one of them,
the leader, divides the queues among all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chaos.ops import Answer, Failed, QueueRef, Unknown
from drivers.kafka import wire
from drivers.kafka.connection import ERROR, REQUEST_S
from drivers.kafka.members import REBALANCE_S, UNKNOWN_MEMBER, Member

REBALANCING, ID_NEEDED = 27, 79
#: How the leader divides: the same queues to each, as far as that goes.
DIVISION = "roundrobin"
TYPE = "consumer"
#: What the coordinator passes on between members without reading it.
SUBSCRIPTION, ASSIGNMENT = "consumer_protocol_subscription", "consumer_protocol_assignment"
#: As the member that it is, then as a new one, which is given an id and asks once more.
TRIES = 3


class ClassicMember(Member):
    """Implements :class:`chaos.log_services.GroupMember`. Its queues are its own until it joins again; they may be
    given to others in the next generation only. ``_given``: its queues in this generation."""

    _given: Sequence[QueueRef] = ()

    async def join(self, topics: Sequence[str]) -> Answer:
        """Join, and learn what is one's own. Waits for the other members, who hear by heartbeats that they must join
        again."""
        self.positions.clear()
        self._given = ()
        joined = await self._join(topics)
        self.generation = joined.generation_id
        asked = {**self._mine, "protocol_type": TYPE, "protocol_name": joined.protocol_name}
        assignments = self._divide(topics, [one.member_id for one in joined.members])
        node, found = await self.ask("sync_group", {**asked, "assignments": assignments}, timeout_s=wait_s())
        try:
            numbers = _numbers(found.assignment)
        except ValueError as error:
            raise Unknown(f"sync_group: {error}", Answer(node=node)) from error
        self._given = [self.queues[number] for number in numbers if number in self.queues]
        await self.begin(self._given)
        return self.told(node)

    async def heartbeat(self) -> Answer:
        try:
            node, _ = await self.ask("heartbeat", self._mine)
        except Failed as error:
            if error.answer.value.get(ERROR) != REBALANCING:
                raise
            return self.told(error.answer.node, rejoin=True)
        await self.begin(self._given)
        return self.told(node)

    async def leave(self) -> Answer:
        self.positions.clear()
        self._given = ()
        member = {"member_id": self.id, "group_instance_id": None, "reason": None}
        await self.ask("leave_group", {"members": [member]})
        return self.answer()

    @property
    def _mine(self) -> dict[str, Any]:
        return {"member_id": self.id, "generation_id": self.generation, "group_instance_id": None}

    async def _join(self, topics: Sequence[str]) -> Any:
        """Return the generation that has begun; a new member is given its id first. Raises :class:`Failed`: whatever it
        is in the group by then, it was given nothing."""
        asked: Mapping[str, Any] = {
            "group_id": self.group,
            "session_timeout": wire.milliseconds(self.session_s),
            "rebalance_timeout": wire.milliseconds(REBALANCE_S),
            "group_instance_id": None,
            "protocol_type": TYPE,
            "protocols": [{"name": DIVISION, "metadata": wire.pack(SUBSCRIPTION, {"topics": list(topics)})}],
            "reason": None,
        }
        node = await self.client.coordinator(self.group)
        for _ in range(TRIES):
            try:
                joined = await self.client.connections.exchange(
                    node, "join_group", {**asked, "member_id": self.id}, wait_s()
                )
            except (Failed, Unknown) as error:
                self.client.forget(self.group)
                raise Failed(error.reason, error.answer) from error
            if not joined.error_code:
                self.id = joined.member_id
                return joined
            if joined.error_code not in (ID_NEEDED, UNKNOWN_MEMBER):
                break
            self.id = joined.member_id if joined.error_code == ID_NEEDED else ""
        self.client.forget(self.group)
        code = joined.error_code
        raise Failed(f"join_group: {int(code)} {code.name}", Answer(node=node, value={ERROR: int(code)}))

    def _divide(self, topics: Sequence[str], members: Sequence[str]) -> list[dict[str, Any]]:
        """Return what each member is given; only the leader is told who is one, and nobody else divides."""
        queues = [queue.queue_id for queue in self.queues.values() if queue.topic in topics]
        return [
            {
                "member_id": one,
                "assignment": wire.pack(ASSIGNMENT, _assigned(topics[0], queues[number :: len(members)])),
            }
            for number, one in enumerate(sorted(members))
        ]


def wait_s() -> float:
    """Return how long it may take until all members have joined a generation."""
    return REBALANCE_S + REQUEST_S


def _assigned(topic: str, numbers: Sequence[int]) -> Mapping[str, Any]:
    return {"assigned_partitions": [{"topic": topic, "partitions": list(numbers)}]}


def _numbers(assignment: bytes) -> list[int]:
    """Return the partitions that a member is given; none where nobody has given it any. Raises ``ValueError``."""
    parts = wire.unpack(ASSIGNMENT, assignment).assigned_partitions if assignment else ()
    return [number for part in parts for number in part.partitions]
