"""Locks of queues, by which each queue has one member of a group that reads it in order."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from reference.wire.codes import Request
from tests.reference.broker_cluster import TOPIC, Cluster


async def ask(
    cluster: Cluster, node: str, client: str, *queues: int, code: int = Request.LOCK_BATCH_MQ, group: str = "g"
) -> list[int]:
    """Lock queues for a member, or unlock them; return those that it was given."""
    wanted = [{"topic": TOPIC, "brokerName": "broker-a", "queueId": queue} for queue in queues]
    body = json.dumps({"consumerGroup": group, "clientId": client, "mqSet": wanted}).encode()
    answer = await cluster.ask(node, code, {}, body)
    assert answer is not None
    assert answer.code == 0
    told: dict[str, Any] = json.loads(answer.body or b"{}")
    assert {one["brokerName"] for one in told.get("lockOKMQSet", ())} <= {"broker-a"}
    return sorted(one["queueId"] for one in told.get("lockOKMQSet", ()))


def test_a_queue_has_one_member_of_a_group_until_it_lets_go_or_its_time_is_over() -> None:
    cluster = Cluster(brokers=1, min_in_sync=1, lock_ms=10_000)

    async def test() -> None:
        node = await cluster.master()
        assert await ask(cluster, node, "one", 0, 1, 7) == [0, 1]
        assert await ask(cluster, node, "two", 0, 1) == []
        assert await ask(cluster, node, "two", 0, 1, group="others") == [0, 1]
        assert await ask(cluster, node, "two", 0, code=Request.UNLOCK_BATCH_MQ) == []
        assert await ask(cluster, node, "two", 0) == []
        await ask(cluster, node, "one", 0, code=Request.UNLOCK_BATCH_MQ)
        assert await ask(cluster, node, "two", 0, 1) == [0]
        await asyncio.sleep(6.0)
        assert await ask(cluster, node, "one", 1) == [1]
        await asyncio.sleep(6.0)
        assert await ask(cluster, node, "one", 0, 1) == [0, 1]
        assert await ask(cluster, node, "two", 0, 1) == []

    cluster.run(test)


def test_two_members_that_ask_at_once_do_not_both_get_it() -> None:
    cluster = Cluster()

    async def test() -> None:
        node = await cluster.settled(cluster.brokers)
        given = await asyncio.gather(*(ask(cluster, node, f"member-{number}", 0) for number in range(5)))
        assert sum(one == [0] for one in given) == 1

    cluster.run(test)


def test_a_lock_outlives_its_master_and_the_files_that_it_stood_in() -> None:
    cluster = Cluster(retain_bytes=4096, delete_untiered=True)

    async def test() -> None:
        master = await cluster.settled(cluster.brokers)
        assert await ask(cluster, master, "one", 0) == [0]
        for _ in range(20):
            await cluster.send(master, 1, b"x" * 1000)
        await asyncio.sleep(2.0)
        assert (await cluster.state(master))["first"] > 0
        others = [name for name in cluster.brokers if name != master]
        await cluster.world.kill(master)
        await asyncio.sleep(2.0)
        second = await cluster.master()
        assert second in others
        assert await ask(cluster, second, "two", 0) == []
        assert await ask(cluster, second, "one", 0) == [0]

    cluster.run(test)
