"""Who leads which partition, as one broker says and as all of them show it, and where a partition begins and ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.ops import Failed, QueueRef
from chaos.tasks import gather
from drivers.kafka.cluster import Cluster
from drivers.kafka.connection import Connections

LOOK_S = 1.0
NO_EPOCH = -1
#: Which offset a request asks for: the end, or the beginning of what is kept.
LATEST, EARLIEST = -1, -2
#: Who asks: a client; and one whom also a replica answers that does not lead.
CLIENT, OF_ANY_REPLICA = -1, -2

Key = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One partition in the eyes of one broker; nodes by their names. ``leader`` is "" without one."""

    leader: str
    epoch: int
    replicas: tuple[str, ...]
    in_sync: frozenset[str]


Known = Mapping[Key, Partition]


async def ask(
    connections: Connections, cluster: Cluster, node: str, topics: Sequence[str], timeout_s: float | None = None
) -> Known:
    """Return what a broker knows of these topics' partitions. Raises :class:`Failed`."""
    asked = {
        "topics": [{"topic_id": None, "name": topic} for topic in topics],
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": False,
    }
    answer = await connections.look(node, "metadata", asked, timeout_s)
    return {
        (str(topic.name), one.partition_index): _partition(cluster, one)
        for topic in answer.topics
        for one in topic.partitions
    }


def _partition(cluster: Cluster, found: Any) -> Partition:
    return Partition(
        leader=cluster.name_of(found.leader_id),
        epoch=found.leader_epoch,
        replicas=tuple(filter(None, map(cluster.name_of, found.replica_nodes))),
        in_sync=frozenset(filter(None, map(cluster.name_of, found.isr_nodes))),
    )


async def ask_all(connections: Connections, cluster: Cluster, topics: Sequence[str]) -> Mapping[str, Known]:
    """Return what each broker knows, by its name; who does not answer is left out."""

    async def one(node: str) -> Known | None:
        try:
            return await ask(connections, cluster, node, topics, LOOK_S)
        except Failed:
            return None

    found = await gather(*(one(node) for node in cluster.brokers))
    return {node: known for node, known in zip(cluster.brokers, found, strict=True) if known is not None}


def newest(views: Mapping[str, Known], key: Key) -> Partition | None:
    """Return the partition as the brokers that know its newest epoch see it: the leader, if it answers, else those who
    count the fewest as in sync. None while nobody knows it."""
    found = [(known[key], node) for node, known in views.items() if key in known]
    return max(
        found, key=lambda one: (one[0].epoch, one[0].leader == one[1], -len(one[0].in_sync)), default=(None, "")
    )[0]


def agreed(views: Mapping[str, Known], cluster: Cluster, key: Key) -> Partition | None:
    """Return the partition if all brokers see it in the same way, with a leader and all replicas in sync; else None."""
    seen = {views[node].get(key) if node in views else None for node in cluster.brokers}
    one = seen.pop() if len(seen) == 1 else None
    return one if one is not None and one.leader and one.in_sync == set(one.replicas) else None


async def controller_leader(connections: Connections, cluster: Cluster, node: str) -> str:
    """Return who leads the controllers, as they answer a broker that asks them; "" for nobody."""
    asked = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}
    try:
        return cluster.name_of((await connections.look(node, "describe_quorum", asked, LOOK_S)).leader_id)
    except Failed:
        return ""


async def offset(
    connections: Connections, node: str, queue: QueueRef, which: int, *, epoch: int, committed: bool, of: int = CLIENT
) -> int:
    """Return the first or the last offset of a partition that a node has. A leader of this epoch answers for the end
    only once its followers have all that was there when it began to lead. Raises :class:`Failed`."""
    partition = {"partition_index": queue.queue_id, "current_leader_epoch": epoch, "timestamp": which}
    topics = [{"name": queue.topic, "partitions": [partition]}]
    asked = {"replica_id": of, "isolation_level": int(committed), "topics": topics}
    return int((await connections.look(node, "list_offsets", asked)).offset)
