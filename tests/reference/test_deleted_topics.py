"""Topics that are deleted: nothing of them is left, and one that is made again has other queues."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from reference.broker import properties, records
from reference.broker.commitlog import Base
from reference.broker.queues import Queues, deletion_body, offsets_body, topic_body
from reference.broker.records import OFFSET_RECORDS, TOPIC_RECORDS, encode
from reference.nameserver import Registration, Routes
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from tests.reference.broker_cluster import TOPIC, Cluster
from tests.reference.test_deferral import bodies, send
from tests.reference.test_locks import ask as lock


async def delete(cluster: Cluster, node: str, topic: str = TOPIC) -> Command:
    answer = await cluster.ask(node, Request.DELETE_TOPIC_IN_BROKER, {"topic": topic})
    assert answer is not None
    return answer


async def create(cluster: Cluster, node: str, topic: str = TOPIC, queues: int = 1) -> Command:
    answer = await cluster.ask(node, Request.UPDATE_AND_CREATE_TOPIC, {"topic": topic, "writeQueueNums": str(queues)})
    assert answer is not None
    return answer


async def commit(cluster: Cluster, node: str, offset: int) -> Command:
    fields = {"topic": TOPIC, "queueId": "0", "consumerGroup": "g", "commitOffset": str(offset)}
    answer = await cluster.ask(node, Request.UPDATE_CONSUMER_OFFSET, fields)
    assert answer is not None
    return answer


async def restart(cluster: Cluster, node: str) -> None:
    await cluster.world.kill(node)
    await asyncio.sleep(0.1)
    await cluster.start(node)


async def topics_of(cluster: Cluster, node: str) -> dict[str, Any]:
    found: dict[str, Any] = (await cluster.state(node, Request.READ_STATE))["topics"]
    return found


def test_a_deleted_topic_is_gone_for_all_and_comes_again_with_other_queues() -> None:
    cluster = Cluster(brokers=1)

    async def test() -> None:
        node = await cluster.master()
        assert (await cluster.send(node, body=b"old")).code == 0
        assert (await commit(cluster, node, 1)).code == 0
        assert await lock(cluster, node, "one", 0) == [0]
        wait = {"sysFlag": "2", "suspendTimeoutMillis": "30000"}
        held = asyncio.get_running_loop().create_task(cluster.pull(node, 1, **wait))
        await asyncio.sleep(0.2)
        started = cluster.world.now_ns()
        for _ in range(2):
            assert (await delete(cluster, node)).code == 0
        assert (await held).code == Response.TOPIC_NOT_EXIST
        assert cluster.world.now_ns() - started < 1e9
        assert (await cluster.send(node)).code == Response.TOPIC_NOT_EXIST
        assert (await cluster.pull(node, 0)).code == Response.TOPIC_NOT_EXIST
        assert (await commit(cluster, node, 0)).code == Response.TOPIC_NOT_EXIST
        state = await cluster.state(node, Request.READ_STATE)
        assert (state["topics"], state["offsets"]) == ({}, {})
        assert (await cluster.ask(node, Request.VIEW_MESSAGE_BY_ID, {"offset": "0"})).code != 0
        await restart(cluster, node)
        await cluster.master()
        assert await topics_of(cluster, node) == {}
        assert (await create(cluster, node)).code == 0
        assert await topics_of(cluster, node) == {TOPIC: {"queues": 1, "first_index": 2}}
        assert (await cluster.send(node, body=b"new")).code == 0
        assert await bodies(cluster, node) == [b"new"]
        assert await lock(cluster, node, "two", 0) == [0]
        rows = [row for row in await cluster.log(node) if not row[7]]
        assert [(row[3], row[4]) for row in rows] == [(0, 0), (2, 0)]

    cluster.run(test)


def test_a_topic_that_is_being_deleted_is_neither_served_nor_made_again() -> None:
    cluster = Cluster()

    async def test() -> None:
        node = await cluster.settled(cluster.brokers)
        deleting = asyncio.get_running_loop().create_task(delete(cluster, node))
        await asyncio.sleep(0.005)
        assert (await cluster.send(node)).code == Response.SYSTEM_BUSY
        assert (await create(cluster, node)).code == Response.SYSTEM_BUSY
        assert (await deleting).code == 0
        assert (await create(cluster, node)).code == 0

    cluster.run(test)


@pytest.mark.parametrize("again", [False, True], ids=["gone", "made-again"])
def test_a_deletion_outlives_its_master_and_the_files_that_it_stood_in(again: bool) -> None:
    cluster = Cluster(retain_bytes=4096, delete_untiered=True)

    async def test() -> None:
        node = await cluster.settled(cluster.brokers)
        assert (await create(cluster, node, "other")).code == 0
        assert (await delete(cluster, node, "other")).code == 0
        if again:
            assert (await create(cluster, node, "other", 2)).code == 0
        for number in range(120):
            assert (await cluster.send(node, number % 2, b"x" * 200)).code == 0
        await asyncio.sleep(1.5)
        wiped = next(name for name in cluster.brokers if name != node)
        await cluster.world.kill(wiped)
        await cluster.world.wipe(wiped)
        await cluster.start(wiped)
        for name in (wiped, node):
            await cluster.settled(cluster.brokers)
            assert (await cluster.state(name, Request.READ_STATE))["first"] > 2000
            await restart(cluster, name)
        await cluster.settled(cluster.brokers)
        expected = {TOPIC: {"queues": 2, "first_index": 0}}
        if again:
            expected["other"] = {"queues": 2, "first_index": 3}
        for name in cluster.brokers:
            assert await topics_of(cluster, name) == expected
        assert [row["position"] for row in cluster.rows("bootstrap", wiped)][-1] > 2000

    cluster.run(test)


def test_what_waits_for_a_deleted_topic_never_comes_also_not_to_the_next_one() -> None:
    cluster = Cluster(brokers=1)

    async def test() -> None:
        node = await cluster.master()
        delay = f"{properties.DELAY_LEVEL}\x012\x02"
        assert (await send(cluster, node, delay, b"early")).code == 0
        assert (await delete(cluster, node)).code == 0
        assert (await create(cluster, node)).code == 0
        assert (await send(cluster, node, delay, b"late")).code == 0
        await asyncio.sleep(8.0)
        assert await bodies(cluster, node) == [b"late"]
        systems = [row[7] for row in await cluster.log(node)]
        assert systems == ["topic", "version", "deferred", "topic", "topic", "deferred", "settled", ""]

    cluster.run(test)


def test_a_topic_of_the_options_is_not_made_again_by_the_next_master() -> None:
    cluster = Cluster()

    async def test() -> None:
        node = await cluster.settled(cluster.brokers)
        assert (await delete(cluster, node)).code == 0
        await cluster.world.kill(node)
        assert await cluster.master() != node
        await asyncio.sleep(1.0)
        assert await topics_of(cluster, await cluster.master()) == {}

    cluster.run(test)


def test_the_tier_keeps_nothing_of_a_deleted_topic() -> None:
    cluster = Cluster(tier=True)

    async def keys(prefix: str) -> list[str]:
        answer = await cluster.ask("store-0", Request.STORE_LIST, {"prefix": prefix, "request": "test"})
        assert answer is not None
        return [key for key, _ in json.loads(answer.body)]

    async def test() -> None:
        node = await cluster.settled(cluster.brokers)
        assert (await create(cluster, node, "other")).code == 0
        for number in range(40):
            assert (await cluster.send(node, number % 2, b"x" * 200)).code == 0
        await asyncio.sleep(3.0)
        assert await keys("queues/0/data/") and await keys("queues/1/data/")
        assert (await delete(cluster, node)).code == 0
        await asyncio.sleep(3.0)
        assert await keys("queues/0/data/") + await keys("queues/1/data/") == []
        answer = await cluster.ask("store-0", Request.STORE_GET, {"key": "queues/0/manifest", "request": "test"})
        manifest = json.loads(answer.body)
        assert manifest["segments"] == [] and manifest["start"] == manifest["end"] == 20
        assert cluster.rows("tier_stop") == []

    cluster.run(test)


def record(at: int, topic: str, body: bytes, offset: int = 0) -> records.Record:
    return records.decode(encode(topic=topic, queue_id=0, offset=offset, position=at, body=body))


def test_a_deletion_that_is_cut_off_undoes_itself_and_all_behind_it() -> None:
    queues, at = Queues(Base()), 0
    lives = []
    for body in (topic_body("t", 2, 0), deletion_body(Queues(Base(topics=[("t", 2, 0)])).topics["t"])):
        one = record(at, TOPIC_RECORDS, body)
        queues.add(one)
        lives.append(at)
        at = one.end
    queues.add(again := record(at, TOPIC_RECORDS, topic_body("t", 1, 2)))
    queues.add(record(again.end, "t", b"new"))
    assert list(queues.dispatch(lives[1], 10))
    assert queues.queue("t", 0) is queues.by_index[2] and not queues.topics["t"].is_served
    assert queues.truncate(at)
    assert queues.next_index() == 2 and queues.queue("t", 1) is queues.by_index[1] and queues.topics["t"].is_ending
    assert queues.truncate(lives[1])
    assert queues.topics["t"].is_served


def test_a_base_knows_what_was_deleted_before_it_and_what_was_not() -> None:
    queues = Queues(Base())
    bodies = (
        (TOPIC_RECORDS, topic_body("t", 1, 0)),
        (OFFSET_RECORDS, offsets_body("g", 0, 0)),
        (TOPIC_RECORDS, deletion_body(Queues(Base(topics=[("t", 1, 0)])).topics["t"])),
        (OFFSET_RECORDS, offsets_body("g", 0, 0)),
        (TOPIC_RECORDS, topic_body("t", 1, 1)),
    )
    places = [0]
    for topic, body in bodies:
        queues.add(one := record(places[-1], topic, body))
        places.append(one.end)
    assert len(list(queues.dispatch(places[-1], 10))) == 5
    bases = [Base.from_json(json.loads(json.dumps(queues.base_at(Base(), at).to_json()))) for at in places]
    assert [base.topics for base in bases] == [[], *[[("t", 1, 0)]] * 4, [("t", 1, 0), ("t", 1, 1)]]
    assert [base.deleted for base in bases] == [[], [], [], *[[(0, places[2])]] * 3]
    assert [base.offsets for base in bases] == [{}, {}, {"g": {0: 0}}, {}, {}, {}]
    begun = [Queues(base) for base in bases]
    assert [sorted(topic.first_index for topic in one.known_topics()) for one in begun] == [[], [0], [0], [], [], [1]]
    assert [one.next_index() for one in begun] == [0, 1, 1, 1, 1, 2]


def test_a_name_server_forgets_a_topic_until_a_broker_registers_it_again() -> None:
    routes = Routes()
    one = Registration("broker-0", 0, 1, "broker-0", 0)
    routes.register("a", "c", one, {"t": {}, "u": {}})
    routes.forget("t")
    routes.forget("never")
    assert set(routes.groups["a"].topics) == {"u"}
    routes.register("a", "c", one, {"t": {}})
    assert set(routes.groups["a"].topics) == {"t"}
