"""A client of Kafka's queues: partitions of a topic, and offsets of groups without members.

A read names the epoch of the leader that it asks, which refuses if that is another one: so the answer is of that epoch.
The high watermark that comes with a read may be lower than one that an earlier leader gave out; only the end that is
asked for by itself never falls (KIP-207). So each read asks for that, too.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from chaos.driver import Dials
from chaos.ops import Answer, Delivered, Failed, QueueRef, Unknown
from chaos.workload import body_hash
from drivers.kafka import topology, wire
from drivers.kafka.cluster import Cluster
from drivers.kafka.connection import ERROR, Connections
from drivers.kafka.topology import EARLIEST, LATEST, NO_EPOCH, OF_ANY_REPLICA, Partition

#: How long the leader may wait for its followers.
REPLICATION_S = 2.0
ALL_IN_SYNC, LEADER_ALONE = -1, 1
#: What a coordinator is asked for.
GROUP, TRANSACTION = 0, 1
OUT_OF_RANGE, NOT_LEADER = 1, 6
#: A send with one of these errors was surely not appended: too large, no such topic, too few in sync (before the
#: append: 19; 20 is after it), no such acks, not allowed, a wrong time, version, request, format or record.
NOT_APPENDED = frozenset({10, 17, 18, 19, 21, 29, 32, 35, 42, 43, 87})
#: A commit with one of these was surely not stored. 15 and 16 may also stand for what went wrong after the append.
NOT_COMMITTED = frozenset({3, 12, 14, 22, 24, 25, 27, 28, 30, 35, 42, 69, 110, 113})
READ_BYTES = 1_048_576


class QueueClient:
    """Implements :class:`chaos.driver.Client`. ``acks``: what it waits for with a send; ``committed``: it is given
    nothing of transactions that have not ended, or were aborted."""

    def __init__(self, network: Dials, name: str, cluster: Cluster, *, acks: int, committed: bool) -> None:
        self.connections = Connections(network, name)
        self._cluster = cluster
        self._acks = acks
        self._committed = committed
        self._turn = 0
        self._leaders: dict[QueueRef, Partition] = {}
        self._coordinators: dict[str, str] = {}

    async def send(self, queue: QueueRef, key: str, body: bytes) -> Answer:
        records = wire.batch(key.encode(), body, time.time())
        sure = NOT_APPENDED if self._acks == ALL_IN_SYNC else NOT_APPENDED | {NOT_LEADER}
        return await self.produce(queue, records, sure)

    async def produce(
        self, queue: QueueRef, records: bytes, sure: Collection[int], transaction: str = "", version: int = 0
    ) -> Answer:
        """Send a batch, in a transaction of this id if there is one. The errors ``sure`` say that it was surely not
        appended."""
        node = (await self._leader(queue)).leader
        partition = {"index": queue.queue_id, "records": records}
        asked = {
            "transactional_id": transaction or None,
            "acks": self._acks,
            "timeout": wire.milliseconds(REPLICATION_S),
            "topic_data": [{"name": queue.topic, "partition_data": [partition]}],
        }
        try:
            found = await self.connections.ask(node, "produce", asked, sure, version=version)
        except (Failed, Unknown):
            self._leaders.pop(queue, None)
            raise
        return Answer(node=node, queue=queue.index, offset=found.base_offset)

    async def pull(
        self, queue: QueueRef, offset: int, *, limit: int, max_bytes: int = 0, node: str = "", source: str = ""
    ) -> Answer:
        """Read messages. A replica that is asked by name (``node``) answers with its own high watermark."""
        if source:
            raise Failed(f"source {source}: Kafka does not say where it reads from")
        place = await self._place(queue, node)
        try:
            found, messages, end = await self._read(queue, place, offset, max_bytes or READ_BYTES)
            stable = found.last_stable_offset if self._committed else found.high_watermark
            maximum = stable if node else await self._end(queue, place, is_needed=not messages)
            if not node and not messages and end <= offset < maximum:
                # A new leader's high watermark was behind, and came up between the two questions.
                found, messages, end = await self._read(queue, place, offset, max_bytes or READ_BYTES)
        except ValueError as error:
            raise Failed(str(error), Answer(node=place.leader)) from error
        except Failed as error:
            self._leaders.pop(queue, None)
            if node or error.answer.value.get(ERROR) != OUT_OF_RANGE:
                raise
            raise Failed(error.reason, await self._limits(queue, place)) from error
        return Answer(
            node=place.leader,
            epoch=place.epoch,
            queue=queue.index,
            minimum=found.log_start_offset,
            maximum=maximum,
            following=max(offset, end) if len(messages) <= limit else messages[limit].offset,
            messages=tuple(map(_delivered, messages[:limit])),
        )

    async def _read(self, queue: QueueRef, place: Any, offset: int, max_bytes: int) -> tuple[Any, list[Any], int]:
        """Return an answer to a read, the messages in it from the offset on, and the offset behind all its records.
        Raises ``ValueError`` for records that can't be read, and as :meth:`_fetch`."""
        found = await self._fetch(queue, place, offset, max_bytes)
        aborted = [(one.first_offset, one.producer_id) for one in found.aborted_transactions or ()]
        given, end = wire.messages(found.records or b"", aborted)
        return found, [one for one in given if one.offset >= offset], end

    async def commit(self, queue: QueueRef, group: str, offset: int) -> Answer:
        answer = await self.store(group, {queue: offset})
        return replace(answer, queue=queue.index, offset=offset)

    async def store(self, group: str, offsets: Mapping[QueueRef, int], member: str = "", epoch: int = -1) -> Answer:
        """Store a group's offsets, in the name of a member if it has some."""
        who = {
            "group_id": group,
            "generation_id_or_member_epoch": epoch,
            "member_id": member,
            "group_instance_id": None,
        }
        node = await self.coordinator(group)
        try:
            asked = {**who, "topics": by_topic(offsets)}
            await self.connections.ask(node, "offset_commit", asked, NOT_COMMITTED, parts=len(offsets))
        except (Failed, Unknown):
            self.forget(group)
            raise
        return Answer(node=node)

    async def committed(self, queue: QueueRef, group: str) -> Answer:
        node = await self.coordinator(group)
        topics = [{"name": queue.topic, "partition_indexes": [queue.queue_id]}]
        asked = {"groups": [{"group_id": group, "topics": topics}], "require_stable": self._committed}
        try:
            found = await self.connections.look(node, "offset_fetch", asked)
        except Failed:
            self.forget(group)
            raise
        return Answer(node=node, queue=queue.index, offset=found.committed_offset)

    async def bounds(self, queue: QueueRef, node: str = "") -> Answer:
        place = await self._place(queue, node)
        if node:
            minimum = await self._offset(queue, place, EARLIEST, of=OF_ANY_REPLICA)
            return replace(await self.pull(queue, minimum, limit=1, node=node), messages=(), following=-1)
        try:
            return await self._limits(queue, place)
        except Failed:
            self._leaders.pop(queue, None)
            raise

    def close(self) -> None:
        self.connections.close()

    # Questions, whose failure is always Failed

    async def _fetch(self, queue: QueueRef, place: Partition, offset: int, most_bytes: int) -> Any:
        asked = {"partition": queue.queue_id, "current_leader_epoch": place.epoch, "fetch_offset": offset}
        partition = {**asked, "partition_max_bytes": most_bytes}
        request: Mapping[str, Any] = {
            "max_wait": wire.milliseconds(0),
            "min_bytes": 0,
            "max_bytes": most_bytes,
            "isolation_level": int(self._committed),
            "topics": [{"topic": queue.topic, "partitions": [partition]}],
            "forgotten_topics_data": [],
        }
        return await self.connections.look(place.leader, "fetch", request)

    async def _limits(self, queue: QueueRef, place: Partition) -> Answer:
        minimum = await self._offset(queue, place, EARLIEST)
        maximum = await self._offset(queue, place, LATEST)
        return Answer(node=place.leader, epoch=place.epoch, queue=queue.index, minimum=minimum, maximum=maximum)

    async def _end(self, queue: QueueRef, place: Partition, *, is_needed: bool) -> int:
        """Return where the queue ends; -1 if that is not to be had, and what was read is worth something without."""
        try:
            return await self._offset(queue, place, LATEST)
        except Failed:
            if is_needed:
                raise
            return -1

    async def _offset(self, queue: QueueRef, place: Partition, which: int, *, of: int = topology.CLIENT) -> int:
        return await topology.offset(
            self.connections, place.leader, queue, which, epoch=place.epoch, committed=self._committed, of=of
        )

    async def _place(self, queue: QueueRef, node: str) -> Partition:
        """Return whom to ask, and of which epoch: this node, of any, or the leader."""
        if node:
            return Partition(leader=node, epoch=NO_EPOCH, replicas=(), in_sync=frozenset())
        return await self._leader(queue)

    async def _leader(self, queue: QueueRef) -> Partition:
        """Return the leader as it was known, or as the next broker knows it. Raises :class:`Failed`: nothing was asked
        of the queue."""
        if queue not in self._leaders:
            known = await topology.ask(self.connections, self._cluster, self.next_broker(), [queue.topic])
            found = known.get((queue.topic, queue.queue_id))
            if found is None or not found.leader:
                raise Failed("no broker leads this partition")
            self._leaders[queue] = found
        return self._leaders[queue]

    async def coordinator(self, of: str, kind: int = GROUP) -> str:
        """Return the broker that keeps a group's offsets, or the state of a transactional id, as it was known, or as
        the next broker says. Raises :class:`Failed`."""
        if of not in self._coordinators:
            asked: Mapping[str, Any] = {"key_type": kind, "coordinator_keys": [of]}
            found = await self.connections.look(self.next_broker(), "find_coordinator", asked)
            node = self._cluster.name_of(found.node_id)
            if not node:
                raise Failed(f"{of} is kept by a node {found.node_id}, which is none of ours")
            self._coordinators[of] = node
        return self._coordinators[of]

    def forget(self, of: str) -> None:
        """Ask again who coordinates this."""
        self._coordinators.pop(of, None)

    def next_broker(self) -> str:
        """Return whom to ask what any broker may be asked: each in turn."""
        self._turn += 1
        return self._cluster.brokers[(self._turn - 1) % len(self._cluster.brokers)]


def by_topic(offsets: Mapping[QueueRef, int]) -> list[dict[str, Any]]:
    """Return offsets to be committed as requests hold them."""
    topics: dict[str, list[dict[str, Any]]] = {}
    for queue, offset in offsets.items():
        partition = {"partition_index": queue.queue_id, "committed_offset": offset, "committed_metadata": ""}
        topics.setdefault(queue.topic, []).append(partition)
    return [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()]


def number_of_message(key: bytes) -> int:
    """Return a message's id, which is the key as a number; -1 for a key that is none of ours."""
    try:
        number = int(key, 16)
    except ValueError:
        return -1
    return number if 0 <= number < 1 << 63 else -1


def _delivered(one: wire.Message) -> Delivered:
    return Delivered(offset=one.offset, message=number_of_message(one.key), hash=body_hash(one.body))
