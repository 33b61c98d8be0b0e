"""What the harness has Kafka change: a topic is made, a partition gets another leader, or other replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from chaos.driver import Network
from chaos.ops import Failed, QueueRef, Unknown
from drivers.kafka import topology, wire
from drivers.kafka.cluster import Cluster, number_of
from drivers.kafka.connection import ERROR, Connections

CHANGE_S, SEEN_S, LOOK_S = 5.0, 15.0, 0.2
EXISTS, NOT_NEEDED = 36, 84
#: Refusals: no such partition, wrong replicas, under way already, and no replica that could lead.
REFUSED = (3, 39, 60, 80, 83)


async def create_topic(
    connections: Connections,
    node: str,
    topic: str,
    replicas: Mapping[int, Sequence[str]],
    settings: Mapping[str, object],
) -> None:
    """Create a topic whose partitions have these replicas, the preferred leader first, with ``settings`` of its own.
    One that exists stays as it is. Raises :class:`Failed` or :class:`Unknown` when it may not be there."""
    assignments = [
        {"partition_index": number, "broker_ids": [number_of(one) for one in nodes]}
        for number, nodes in replicas.items()
    ]
    configs = [{"name": name, "value": str(value)} for name, value in settings.items()]
    made = {"name": topic, "num_partitions": -1, "replication_factor": -1, "configs": configs}
    asked = {"topics": [{**made, "assignments": assignments}], "timeout": wire.milliseconds(CHANGE_S)}
    await _change(connections, node, "create_topics", asked, EXISTS)


async def elect(
    network: Network, connections: Connections, nodes: Cluster, queue: QueueRef, order: Sequence[str]
) -> Mapping[str, object]:
    """Name the replicas of a partition in this order, and have the first of them elected, as operators do; then wait
    until that is the newest leader that any broker knows. Raises :class:`Failed` when Kafka refused, and
    :class:`Unknown` when it is not seen in time."""
    key, target = (queue.topic, queue.queue_id), order[0]
    chosen = [{"topic": queue.topic, "partitions": [queue.queue_id]}]
    election = {"timeout": wire.milliseconds(CHANGE_S), "election_type": 0, "topic_partitions": chosen}
    before = topology.newest(await topology.ask_all(connections, nodes, [queue.topic]), key)
    if before is None or not before.leader:
        raise Failed(f"no broker leads {queue.group}")
    await _name_replicas(connections, before.leader, queue, order)
    await _change(connections, before.leader, "elect_leaders", election, NOT_NEEDED)
    deadline_ns = network.now_ns() + round(SEEN_S * 1e9)
    while network.now_ns() < deadline_ns:
        now = topology.newest(await topology.ask_all(connections, nodes, [queue.topic]), key)
        if now is not None and now.leader == target:
            return {"from": before.leader, "to": target, "epoch": now.epoch}
        await asyncio.sleep(LOOK_S)
    raise Unknown(f"{target} was to be elected, and did not lead within {SEEN_S:g} s")


async def move_away(
    connections: Connections, nodes: Cluster, queues: Sequence[QueueRef], node: str
) -> Mapping[str, object]:
    """Name another broker that runs in the place of ``node`` among the replicas of each of these partitions that it
    holds, as operators do. Kafka copies to it then, and has the old one forget its copy. Raises :class:`Failed` for one
    that leads, or holds nothing, or that no other broker can replace, and what Kafka answers."""
    views = await topology.ask_all(connections, nodes, list({queue.topic for queue in queues}))
    found = {queue: topology.newest(views, (queue.topic, queue.queue_id)) for queue in queues}
    held = {queue: one for queue, one in found.items() if one is not None and node in one.replicas}
    if not held or any(one.leader in ("", node) for one in held.values()):
        raise Failed(f"{node} holds nothing, or leads, or no broker leads what it holds")
    moved = {}
    for queue, one in held.items():
        spares = [broker for broker in views if broker != node and broker not in one.replicas]
        if not spares:
            raise Failed(f"no other broker runs that could hold {queue.group} in the place of {node}")
        spare = spares[queue.queue_id % len(spares)]
        order = [spare if replica == node else replica for replica in one.replicas]
        await _name_replicas(connections, one.leader, queue, order)
        moved[queue.group] = {"from": list(one.replicas), "to": order}
    return {"moved": moved}


async def _name_replicas(connections: Connections, node: str, queue: QueueRef, order: Sequence[str]) -> None:
    partition = {"partition_index": queue.queue_id, "replicas": [number_of(one) for one in order]}
    topics = [{"name": queue.topic, "partitions": [partition]}]
    asked = {"timeout": wire.milliseconds(CHANGE_S), "topics": topics}
    await _change(connections, node, "alter_partition_reassignments", asked)


async def _change(connections: Connections, node: str, request: str, asked: Mapping[str, Any], done: int = 0) -> None:
    """Ask for a change; the error ``done`` says that there is nothing to do."""
    try:
        await connections.ask(node, request, asked, (done, *REFUSED), CHANGE_S)
    except Failed as error:
        if not done or error.answer.value.get(ERROR) != done:
            raise
