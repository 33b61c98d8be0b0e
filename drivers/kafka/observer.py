"""What the harness observes of Kafka: who leads which partition as each broker says, and whether all is settled."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass

from chaos.driver import ClusterView, Dials, Record, ReplicaGroup
from chaos.effects.links import HARNESS
from chaos.ops import Failed, QueueRef
from drivers.kafka import topology
from drivers.kafka.client import ALL_IN_SYNC, QueueClient
from drivers.kafka.cluster import Cluster
from drivers.kafka.connection import Connections
from drivers.kafka.topology import Known, Partition

#: Where Kafka keeps the offsets of groups, and the group that has it make that topic.
OFFSETS, GROUP = "__consumer_offsets", "stormproof"
#: Of no more partitions each broker's role is recorded.
MOST_POLLED = 16


@dataclass(frozen=True, slots=True)
class Observer:
    """``queues``: the replicas of each, unless brokers name others; ``proven``: the leader, epoch and set in which each
    partition's leader has shown that its followers have what it had when it began to lead."""

    nodes: Cluster
    queues: Mapping[QueueRef, Sequence[str]]
    proven: MutableMapping[QueueRef, Partition]

    async def view(self, network: Dials, record: Record | None) -> ClusterView:
        """Ask all brokers, and record what each says of its roles."""
        connections = Connections(network, HARNESS)
        topics = dict.fromkeys([*(queue.topic for queue in self.queues), OFFSETS])
        try:
            asked = self._asked(record) if record else {}
            views = await topology.ask_all(connections, self.nodes, list(topics))
            if record:
                _note(record, asked, views)
            leader = await topology.controller_leader(connections, self.nodes, next(iter(views))) if views else ""
            settled = bool(leader) and await self._settled(connections, views)
        finally:
            connections.close()
        controllers = self.nodes.controllers
        return ClusterView(
            groups=tuple(self._group(queue, tuple(replicas), views) for queue, replicas in self.queues.items()),
            controllers=controllers,
            controller_leader=leader if leader in controllers else "",
            settled=settled,
        )

    def _asked(self, record: Record) -> Mapping[tuple[str, QueueRef], int]:
        """Record that each broker is asked for its role in each partition, if these are few."""
        return {
            (node, queue): record("poll", f="state", type="invoke", node=node, value={"group": queue.group})
            for node in self.nodes.brokers
            for queue in (self.queues if len(self.queues) <= MOST_POLLED else ())
        }

    async def _settled(self, connections: Connections, views: Mapping[str, Known]) -> bool:
        """Return whether all brokers agree on each partition, with all replicas in sync, each leader has shown that its
        followers follow it, and groups' offsets are served."""
        for queue in self.queues:
            found = topology.agreed(views, self.nodes, (queue.topic, queue.queue_id))
            if found is None:
                return False
            if found != self.proven.get(queue):
                try:
                    await topology.offset(
                        connections, found.leader, queue, topology.LATEST, epoch=found.epoch, committed=False
                    )
                except Failed:
                    return False
                self.proven[queue] = found
        return await self._serves_groups(connections, views)

    async def _serves_groups(self, connections: Connections, views: Mapping[str, Known]) -> bool:
        """Return whether the offsets of groups have all their replicas, and are there to be asked for. A broker that is
        asked where they are has their topic made."""
        client = QueueClient(connections.network, HARNESS, self.nodes, acks=ALL_IN_SYNC, committed=False)
        try:
            await client.committed(next(iter(self.queues)), GROUP)
        except Failed:
            return False
        finally:
            client.close()
        return topology.agreed(views, self.nodes, (OFFSETS, 0)) is not None

    def _group(self, queue: QueueRef, replicas: tuple[str, ...], views: Mapping[str, Known]) -> ReplicaGroup:
        found = topology.newest(views, (queue.topic, queue.queue_id))
        if found is None:
            is_gone = queue in self.proven and set(views) == set(self.nodes.brokers)
            return ReplicaGroup(name=queue.group, replicas=replicas, gone=is_gone)
        if set(found.replicas) != set(replicas):
            replicas = found.replicas  # they were reassigned
        if found.leader not in replicas:
            return ReplicaGroup(name=queue.group, replicas=replicas, epoch=found.epoch)
        in_sync = tuple(one for one in replicas if one in found.in_sync)
        return ReplicaGroup(
            name=queue.group, replicas=replicas, leader=found.leader, epoch=found.epoch, in_sync=in_sync
        )


def _note(record: Record, asked: Mapping[tuple[str, QueueRef], int], views: Mapping[str, Known]) -> None:
    """Record what each broker knows of a partition: whether it leads it itself, and since which epoch."""
    for (node, queue), op in asked.items():
        found = views.get(node, {}).get((queue.topic, queue.queue_id))
        if found is not None:
            leads = found.leader == node
            role = {"role": "master", "set": sorted(found.in_sync)} if leads else {"role": "slave"}
            value = {"group": queue.group, **role}
            record("poll", f="state", type="ok", node=node, op=op, epoch=found.epoch, value=value)
