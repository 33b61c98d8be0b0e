"""Offsets of groups that an administrator sets, also back."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from reference.broker.commitlog import Base
from reference.broker.queues import Queues, offsets_body
from reference.broker.records import OFFSET_RECORDS
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from tests.reference.broker_cluster import TOPIC, Cluster
from tests.reference.test_deleted_topics import commit, record, restart
from tests.reference.test_popping import given, pop


async def reset(cluster: Cluster, node: str, time_ms: int = -1, group: str = "g", **more: str) -> Command:
    fields = {"topic": TOPIC, "group": group, "timestamp": str(time_ms), **more}
    answer = await cluster.ask(node, Request.INVOKE_BROKER_TO_RESET_OFFSET, fields)
    assert answer is not None
    return answer


def offsets(answer: Command) -> dict[int, int]:
    """Return what an answer says of each queue: its keys are objects, which JSON does not know."""
    assert answer.code == 0, answer.remark
    found = re.findall(rb'{"brokerName":"[^"]*","queueId":(\d+),"topic":"storm"}:(\d+)', answer.body)
    return {int(queue): int(offset) for queue, offset in found}


async def stored(cluster: Cluster, node: str, group: str = "g") -> dict[str, int]:
    table: dict[str, int] = (await cluster.state(node, Request.READ_STATE))["offsets"].get(group, {})
    return table


def test_an_offset_is_set_back_and_forth_and_stays_over_switches_and_bases() -> None:
    cluster = Cluster(retain_bytes=4096, delete_untiered=True)

    async def test() -> None:
        node = await cluster.settled(cluster.brokers)
        for _ in range(6):
            assert (await cluster.send(node)).code == 0
        assert (await commit(cluster, node, 5)).code == 0
        assert offsets(await reset(cluster, node, 0)) == {0: 0, 1: 0}
        assert await stored(cluster, node) == {"0": 0, "1": 0}
        assert offsets(await reset(cluster, node)) == {0: 0, 1: 0}
        assert offsets(await reset(cluster, node, isForce="true")) == {0: 6, 1: 0}
        assert offsets(await reset(cluster, node, queueId="0", offset="2")) == {0: 2}
        assert (await commit(cluster, node, 1)).code == 0
        await restart(cluster, node)
        node = await cluster.settled(cluster.brokers)
        for name in cluster.brokers:
            assert await stored(cluster, name) == {"0": 2, "1": 0}
        for number in range(120):
            assert (await cluster.send(node, number % 2, b"x" * 200)).code == 0
        await asyncio.sleep(1.5)
        await restart(cluster, node)
        await cluster.settled(cluster.brokers)
        for name in cluster.brokers:
            assert (await cluster.state(name, Request.READ_STATE))["first"] > 2000
            assert await stored(cluster, name) == {"0": 2, "1": 0}

    cluster.run(test)


def test_a_time_means_the_first_message_stored_since_then() -> None:
    cluster = Cluster(brokers=1)

    async def test() -> None:
        node = await cluster.master()
        for _ in range(3):
            assert (await cluster.send(node)).code == 0
            await asyncio.sleep(1.0)
        asked = await cluster.ask(node, Request.GET_TOPIC_STATS, {"topic": TOPIC})
        last_ms = int(re.findall(rb'"lastUpdateTimestamp":(\d+)', asked.body)[0])
        assert offsets(await reset(cluster, node, last_ms))[0] == 2
        assert offsets(await reset(cluster, node, last_ms - 500, isForce="true"))[0] == 2
        assert offsets(await reset(cluster, node, last_ms - 1500, isForce="true"))[0] == 1
        assert offsets(await reset(cluster, node, last_ms + 1, isForce="true"))[0] == 3

    cluster.run(test)


def test_members_are_notified_once_and_are_given_messages_from_there() -> None:
    cluster = Cluster()

    async def test() -> None:
        node = await cluster.settled(cluster.brokers)
        heard: list[Command] = []
        connection = cluster.world.connect("client", node)
        connection.on_request(heard.append)
        for group in ("g", "others"):
            beat = {"clientID": "c", "consumerDataSet": [{"groupName": group}]}
            await cluster.ask(node, Request.HEART_BEAT, {}, json.dumps(beat).encode())
        for _ in range(3):
            await cluster.send(node)
        assert given(await pop(cluster, node, ms=60_000, group="others")) == [1, 2, 3]
        assert offsets(await reset(cluster, node, 0, group="nobody")) == {0: 0, 1: 0}
        answer = await reset(cluster, node, 0, group="others", isForce="true")
        assert offsets(answer) == {0: 0, 1: 0}
        await asyncio.sleep(0.5)
        notices = [one for one in heard if one.code == Request.RESET_CONSUMER_CLIENT_OFFSET]
        assert [(one.fields["group"], one.fields["topic"], one.fields["timestamp"]) for one in notices] == [
            ("others", TOPIC, "0")
        ]
        assert notices[0].body == answer.body and notices[0].is_oneway
        assert given(await pop(cluster, node, group="others")) == [1, 2, 3]

    cluster.run(test)


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"topic": "none"}, Response.TOPIC_NOT_EXIST),
        ({"queueId": "7"}, Response.TOPIC_NOT_EXIST),
        ({"queueId": "0", "offset": "1"}, Response.INVALID_PARAMETER),
        ({"offset": "0"}, Response.INVALID_PARAMETER),
        ({"timestamp": "soon"}, Response.INVALID_PARAMETER),
    ],
)
def test_what_can_not_be_set_is_refused_and_changes_nothing(more: dict[str, str], code: Response) -> None:
    cluster = Cluster(brokers=1)

    async def test() -> None:
        node = await cluster.master()
        fields = {"topic": TOPIC, "group": "g", "timestamp": "0", **more}
        answer = await cluster.ask(node, Request.INVOKE_BROKER_TO_RESET_OFFSET, fields)
        assert answer is not None and answer.code == code
        assert await stored(cluster, node) == {}

    cluster.run(test)


def test_what_is_cut_off_is_not_set_and_a_base_has_what_was() -> None:
    queues, places = Queues(Base(topics=[("t", 1, 0)])), [0]
    for offset, back in ((5, False), (2, True), (1, False), (3, False)):
        queues.add(one := record(places[-1], OFFSET_RECORDS, offsets_body("g", 0, offset, reset=back)))
        places.append(one.end)
    found = []
    for end in places[1:]:
        list(queues.dispatch(end, 1))
        found.append(queues.offsets["g"][0])
        assert queues.base_at(Base(topics=[("t", 1, 0)]), end).offsets == queues.offsets
        if len(found) == 3:
            assert queues.truncate(places[3])
            break
    assert found == [5, 2, 2] and queues.offsets == {"g": {0: 2}}
