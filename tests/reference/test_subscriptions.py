"""Readers that want some of a queue's messages: they get those, and go past all others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from chaos.driver import Disconnected
from reference.broker.pulls import MAX_PULL_COUNT
from reference.broker.records import decode_all
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from tests.reference.broker_cluster import TOPIC, Cluster

TAGGED = {"sysFlag": "4", "expressionType": "TAG"}


class Readers(Cluster):
    """One broker, whose messages have tags and a number each."""

    def __init__(self, **options: object) -> None:
        super().__init__(brokers=1, **options)

    async def fill(self, tags: str) -> None:
        """Send a message for each letter, which is its tag."""
        for number, tag in enumerate(tags):
            key = f"UNIQ_KEY\x01{number + 1:032X}\x02TAGS\x01{tag}\x02n\x01{number}\x02"
            fields = {"topic": TOPIC, "queueId": "0", "sysFlag": "0", "bornTimestamp": "0", "flag": "0"}
            sent = await self.ask("broker-0", Request.SEND_MESSAGE, {**fields, "properties": key}, b"x")
            assert sent is not None and sent.code == 0

    async def read(self, offset: int, **more: str) -> Command:
        answer = await self.pull("broker-0", offset, **more)
        assert answer is not None
        return answer

    async def held(self, offset: int, **more: str) -> Command:
        """Read and wait at the end of the queue, for 10 s at most."""
        fields = {"consumerGroup": "g", "topic": TOPIC, "queueId": "0", "queueOffset": str(offset), "maxMsgNums": "32"}
        fields |= {**more, "sysFlag": str(int(more["sysFlag"]) | 2), "suspendTimeoutMillis": "10000"}
        request = Command(code=Request.PULL_MESSAGE, fields=fields)
        return await self.world.connect("waiter", "broker-0").request(request, 20.0)

    async def beats(self, client: str, group: str, *subscriptions: Mapping[str, Any]) -> None:
        consumer = {"groupName": group, "subscriptionDataSet": list(subscriptions)}
        body = json.dumps({"clientID": client, "consumerDataSet": [consumer]}).encode()
        answer = await self.world.connect(client, "broker-0").request(Command(code=Request.HEART_BEAT, body=body), 3.0)
        assert answer.code == 0


def offsets(answer: Command) -> list[int]:
    return [record.offset for record in decode_all(answer.body)]


def seen(answer: Command) -> tuple[int, list[int], int]:
    return answer.code, offsets(answer), int(answer.fields["nextBeginOffset"])


def wants(expression: str, version: int, kind: str = "TAG", topic: str = TOPIC) -> dict[str, Any]:
    return {"topic": topic, "subString": expression, "expressionType": kind, "subVersion": version}


def test_a_reader_gets_what_it_wants_and_goes_past_the_rest() -> None:
    cluster = Readers()

    async def script() -> None:
        await cluster.fill("aabacab")
        assert seen(await cluster.read(0)) == (0, [0, 1, 2, 3, 4, 5, 6], 7)
        assert seen(await cluster.read(0, **TAGGED, subscription="*")) == (0, [0, 1, 2, 3, 4, 5, 6], 7)
        assert seen(await cluster.read(0, **TAGGED, subscription="b || c")) == (0, [2, 4, 6], 7)
        assert seen(await cluster.read(0, **TAGGED, subscription="b || c", maxMsgNums="2")) == (0, [2, 4], 6)
        assert seen(await cluster.read(3, **TAGGED, subscription="c", maxMsgNums="1")) == (0, [4], 7)
        nothing = await cluster.read(1, **TAGGED, subscription="d")
        assert seen(nothing) == (Response.PULL_RETRY_IMMEDIATELY, [], 7)
        assert nothing.remark == "NO_MATCHED_MESSAGE"
        assert seen(await cluster.read(7, **TAGGED, subscription="d")) == (Response.PULL_NOT_FOUND, [], 7)
        by_number = {"sysFlag": "4", "expressionType": "SQL92"}
        found = await cluster.read(0, **by_number, subscription="n BETWEEN 1 AND 4 AND TAGS <> 'a'")
        assert seen(found) == (0, [2, 4], 7)

    cluster.run(script)


def test_what_can_not_be_parsed_is_refused_in_a_sentence() -> None:
    cluster = Readers()

    async def script() -> None:
        refused = await cluster.read(0, sysFlag="4", expressionType="SQL92", subscription="n >")
        assert refused.code == Response.SUBSCRIPTION_PARSE_FAILED
        assert refused.remark.startswith("the subscription can't be parsed: end: expected is a number")
        for fields in ({"expressionType": "XPATH", "subscription": "n"}, {"subscription": "||"}):
            refused = await cluster.read(0, sysFlag="4", **fields)
            assert refused.code == Response.SUBSCRIPTION_PARSE_FAILED
        for code, expression in ((0, "n > 1"), (Response.SUBSCRIPTION_PARSE_FAILED, "n > 'x'")):
            body = json.dumps({"clientId": "c", "subscriptionData": wants(expression, 1, "SQL92")}).encode()
            answer = await cluster.ask("broker-0", Request.CHECK_CLIENT_CONFIG, {}, body)
            assert answer is not None and answer.code == code

    cluster.run(script)


def test_one_step_examines_a_bounded_number_of_messages() -> None:
    cluster = Readers(segment_bytes=1 << 20)

    async def script() -> None:
        await cluster.fill("a" * (MAX_PULL_COUNT + 5) + "b")
        first = await cluster.read(0, **TAGGED, subscription="b")
        assert seen(first) == (Response.PULL_RETRY_IMMEDIATELY, [], MAX_PULL_COUNT)
        assert seen(await cluster.read(MAX_PULL_COUNT, **TAGGED, subscription="b"))[:2] == (0, [MAX_PULL_COUNT + 5])

    cluster.run(script)


def test_a_read_that_waits_is_woken_by_what_it_wants_alone() -> None:
    cluster = Readers()

    async def script() -> None:
        await cluster.fill("aa")
        at_once = await cluster.held(0, **TAGGED, subscription="b")
        assert seen(at_once) == (Response.PULL_RETRY_IMMEDIATELY, [], 2)
        waiting = asyncio.ensure_future(cluster.held(2, **TAGGED, subscription="b"))
        await asyncio.sleep(1)
        await cluster.fill("aaa")
        await asyncio.sleep(1)
        assert not waiting.done()
        await cluster.fill("ab")
        assert seen(await waiting) == (0, [6], 7)
        in_vain = asyncio.ensure_future(cluster.held(7, **TAGGED, subscription="c"))
        await asyncio.sleep(1)
        await cluster.fill("b")
        assert seen(await in_vain) == (Response.PULL_NOT_FOUND, [], 8)

    cluster.run(script)


def test_a_read_without_a_subscription_means_the_newest_of_its_group() -> None:
    cluster = Readers()

    async def script() -> None:
        await cluster.fill("abc")
        assert offsets(await cluster.read(0)) == [0, 1, 2]
        await cluster.beats("one", "g", wants("a", 5), wants("c", 9, topic="another"))
        assert offsets(await cluster.read(0)) == [0]
        assert offsets(await cluster.read(0, consumerGroup="h")) == [0, 1, 2]
        assert offsets(await cluster.read(0, **TAGGED, subscription="c")) == [2]
        await cluster.beats("two", "g", wants("n > 0", 6, "SQL92"))
        assert offsets(await cluster.read(0)) == [1, 2]
        await cluster.beats("one", "g", wants("b", 5))
        assert offsets(await cluster.read(0)) == [1, 2]
        cluster.world.connect("two", "broker-0").close()
        await asyncio.sleep(0.1)
        assert offsets(await cluster.read(0)) == [1]
        await cluster.beats("one", "g")
        assert offsets(await cluster.read(0)) == [0, 1, 2]

    cluster.run(script)


def test_who_takes_leave_wants_nothing_any_more() -> None:
    cluster = Readers()

    async def leaves(**fields: str) -> None:
        await cluster.world.connect("one", "broker-0").request(
            Command(code=Request.UNREGISTER_CLIENT, fields=fields), 3.0
        )

    async def script() -> None:
        await cluster.fill("ab")
        await cluster.beats("one", "g", wants("a", 5))
        await leaves(consumerGroup="another")
        await leaves(producerGroup="g")
        assert offsets(await cluster.read(0)) == [0]
        await leaves(consumerGroup="g")
        assert offsets(await cluster.read(0)) == [0, 1]
        await cluster.beats("one", "g", wants("a", 5))
        await leaves()
        assert offsets(await cluster.read(0)) == [0, 1]

    cluster.run(script)


def test_a_condition_that_nobody_has_registered_selects_nothing() -> None:
    """Clients look at tags themselves, but not at other properties: given everything, they would deliver it."""
    cluster = Readers()

    async def script() -> None:
        await cluster.fill("ab")
        refused = await cluster.read(0, expressionType="SQL92")
        assert refused.code == Response.SUBSCRIPTION_NOT_EXIST
        await cluster.beats("one", "g", wants("n <", 5, "SQL92"))
        assert (await cluster.read(0, expressionType="SQL92")).code == Response.SUBSCRIPTION_PARSE_FAILED
        await cluster.beats("one", "g", wants("n < 1", 6, "SQL92"))
        assert offsets(await cluster.read(0, expressionType="SQL92")) == [0]

    cluster.run(script)


def test_the_tier_is_read_alike() -> None:
    cluster = Readers(tier=True, retain_bytes=1)

    async def script() -> None:
        await cluster.fill("ab" * 60)
        for _ in range(200):
            if (await cluster.state("broker-0"))["queues"]["0"][0] > 20:
                break
            await asyncio.sleep(0.1)
        at, found = 0, []
        while at < 120:
            answer = await cluster.read(at, **TAGGED, subscription="b", maxMsgNums="3")
            assert answer.code in (Response.SUCCESS, Response.PULL_RETRY_IMMEDIATELY)
            if at == 0:
                assert answer.fields["source"] == "tier"
            found += offsets(answer)
            at = int(answer.fields["nextBeginOffset"])
        assert found == list(range(1, 120, 2))
        in_vain = await cluster.read(0, **TAGGED, subscription="c")
        assert in_vain.code == Response.PULL_RETRY_IMMEDIATELY
        assert in_vain.fields["source"] == "tier" and int(in_vain.fields["nextBeginOffset"]) > 0

    cluster.run(script)


@pytest.mark.parametrize("subscription", ["a" * 3000, "((" * 500, "n = 1 OR " * 200])
def test_what_is_too_much_ends_no_node(subscription: str) -> None:
    cluster = Readers()

    async def script() -> None:
        with_it = await cluster.read(0, sysFlag="4", expressionType="SQL92", subscription=subscription)
        assert with_it.code == Response.SUBSCRIPTION_PARSE_FAILED
        try:
            await cluster.beats("one", "g", wants(subscription, 5, "SQL92"))
        except Disconnected as error:
            raise AssertionError("a heartbeat ends its connection") from error
        assert (await cluster.read(0)).code == Response.SUBSCRIPTION_PARSE_FAILED

    cluster.run(script)
