"""Records of a newer version are written once all replicas read them; then who reads less does not follow."""

from __future__ import annotations

import asyncio

from reference.broker.commitlog import Base
from reference.broker.queues import Queues, version_body
from reference.broker.records import VERSION_RECORDS, decode, encode
from reference.wire.codes import Request, Response
from tests.reference.broker_cluster import Cluster
from tests.reference.test_deferral import bodies, send

DELAYED = "TIMER_DELAY_MS\x011000\x02"


async def with_master(cluster: Cluster, number: int) -> str:
    """Have the broker of this number lead."""
    wanted = cluster.brokers[number]
    for _ in range(20):
        master = await cluster.settled(cluster.brokers)
        if master == wanted:
            return master
        await cluster.world.kill(master)
        await asyncio.sleep(3.0)
        await cluster.start(master)
    raise AssertionError(f"{wanted} was never elected")


def test_a_master_waits_until_all_replicas_read_what_it_writes() -> None:
    cluster = Cluster(first=(2,))

    async def test() -> None:
        master = await with_master(cluster, 0)
        for _ in range(2):
            refused = await send(cluster, master, DELAYED)
            assert refused.code == Response.SYSTEM_BUSY, refused
        assert "not all replicas read" in refused.remark
        assert (await send(cluster, master, body=b"plain")).code == 0
        old = cluster.brokers[2]
        await cluster.world.kill(old)
        await cluster.settled_set(cluster.brokers[:2])
        assert (await send(cluster, master, DELAYED, b"late")).code == 0
        await cluster.start(old)
        await asyncio.sleep(6.0)
        assert sorted((await cluster.state(master))["set"]) == list(cluster.brokers[:2])
        assert (await cluster.state(old))["end"] < (await cluster.state(master))["end"]
        assert await bodies(cluster, master) == [b"plain", b"late"]

    cluster.run(test)


def test_a_broker_of_the_first_version_does_what_it_did() -> None:
    cluster = Cluster(first=(0, 1, 2))

    async def test() -> None:
        master = await cluster.settled(cluster.brokers)
        assert (await send(cluster, master, DELAYED)).code == Response.MESSAGE_ILLEGAL
        batch = await cluster.ask(master, Request.SEND_BATCH_MESSAGE, {}, b"")
        assert batch is not None
        assert batch.code == Response.REQUEST_CODE_NOT_SUPPORTED
        assert (await send(cluster, master, body=b"plain")).code == 0

    cluster.run(test)


def test_the_version_is_known_though_the_log_begins_behind_it() -> None:
    cluster = Cluster(retain_bytes=4096, delete_untiered=True)

    async def test() -> None:
        master = await cluster.settled(cluster.brokers)
        away = next(name for name in cluster.brokers if name != master)
        assert (await send(cluster, master, DELAYED)).code == 0
        await cluster.world.kill(away)
        for _ in range(20):
            await cluster.send(master, 1, b"x" * 1000)
        await asyncio.sleep(3.0)
        await cluster.start(away)
        await cluster.settled(cluster.brokers)
        assert (await cluster.state(away))["first"] > 0
        states = [await cluster.state(name, Request.READ_STATE) for name in cluster.brokers]
        assert [state["version"] for state in states] == [2, 2, 2]

    cluster.run(test)


def test_what_is_cut_off_the_log_was_not_said() -> None:
    queues = Queues(Base())
    data = encode(topic=VERSION_RECORDS, queue_id=0, offset=0, position=0, body=version_body(2))
    queues.add(decode(data))
    assert queues.version == 2
    assert queues.truncate(0)
    assert queues.version == 1
    queues.add(decode(data))
    assert len(list(queues.dispatch(len(data), 10))) == 1
    assert queues.version == 2
    assert queues.base_at(Base(), len(data)).version == 2
    assert Base.from_json(queues.base_at(Base(), len(data)).to_json()).version == 2
