"""Pop consumption: what is given is invisible for a time, and comes again unless it is acknowledged."""

from __future__ import annotations

import asyncio

from reference.broker import records
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from tests.reference.broker_cluster import TOPIC, Cluster


async def pop(
    cluster: Cluster, node: str, count: int = 32, queue: int = 0, ms: int = 5000, group: str = "g", **more: str
) -> Command:
    fields = {
        "consumerGroup": group,
        "topic": TOPIC,
        "queueId": str(queue),
        "maxMsgNums": str(count),
        "invisibleTime": str(ms),
        **more,
    }
    answer = await cluster.ask(node, Request.POP_MESSAGE, fields)
    assert answer is not None
    return answer


def given(answer: Command) -> list[int]:
    """Return the numbers of the messages."""
    return [records.message_number(one.properties) for one in records.decode_all(answer.body)]


async def handle(
    cluster: Cluster, node: str, answer: Command, place: int, code: int = Request.ACK_MESSAGE, **more: str
) -> int:
    """Acknowledge a message of an answer, by its place there, or change its time; return the code."""
    first = answer.fields["startOffsetInfo"].split(" ")[2]
    offset = answer.fields["msgOffsetInfo"].split(" ")[2].split(",")[place]
    words = f"{first} {answer.fields['popTime']} {answer.fields['invisibleTime']} 0 0 broker-a 0 {offset}"
    fields = {"consumerGroup": "g", "topic": TOPIC, "queueId": "0", "offset": offset, "extraInfo": words, **more}
    told = await cluster.ask(node, code, fields)
    assert told is not None
    return told.code


def test_each_message_is_given_once_until_its_time_is_over() -> None:
    cluster = Cluster()

    async def test() -> None:
        node = await cluster.settled(cluster.brokers)
        for _ in range(5):
            await cluster.send(node)
        first, second = await asyncio.gather(pop(cluster, node, 2), pop(cluster, node, 2))
        third = await pop(cluster, node)
        assert sorted(given(first) + given(second) + given(third)) == [1, 2, 3, 4, 5]
        assert (await pop(cluster, node)).code == Response.POLLING_TIMEOUT
        assert given(await pop(cluster, node, group="others")) == [1, 2, 3, 4, 5]
        assert await handle(cluster, node, third, 0) == 0
        assert await handle(cluster, node, third, 0) == Response.INVALID_PARAMETER
        await asyncio.sleep(7.0)
        again = await pop(cluster, node)
        assert sorted(given(again)) == sorted({1, 2, 3, 4, 5} - set(given(third)))
        assert again.fields["startOffsetInfo"].startswith("1 0 ")
        assert {records.reconsumed(again.body)} == {1}

    cluster.run(test)


def test_the_next_master_knows_what_is_invisible_and_what_was_acknowledged() -> None:
    cluster = Cluster()

    async def test() -> None:
        node = await cluster.settled(cluster.brokers)
        for _ in range(3):
            await cluster.send(node)
        answer = await pop(cluster, node, ms=8000)
        assert given(answer) == [1, 2, 3]
        assert await handle(cluster, node, answer, 1) == 0
        await cluster.world.kill(node)
        await asyncio.sleep(1.0)
        node = await cluster.master()
        assert (await pop(cluster, node)).code == Response.POLLING_TIMEOUT
        assert await handle(cluster, node, answer, 2) == 0
        await asyncio.sleep(10.0)
        assert given(await pop(cluster, node)) == [1]

    cluster.run(test)


def test_a_member_may_want_more_time() -> None:
    cluster = Cluster(brokers=1, min_in_sync=1)

    async def test() -> None:
        node = await cluster.master()
        await cluster.send(node)
        answer = await pop(cluster, node, ms=2000)
        change = {"code": Request.CHANGE_MESSAGE_INVISIBLETIME, "invisibleTime": "6000"}
        assert await handle(cluster, node, answer, 0, **change) == 0  # type: ignore[arg-type]
        await asyncio.sleep(4.0)
        assert (await pop(cluster, node)).code == Response.POLLING_TIMEOUT
        await asyncio.sleep(4.0)
        assert given(await pop(cluster, node)) == [1]

    cluster.run(test)


def test_what_was_given_too_often_is_dead() -> None:
    cluster = Cluster(brokers=1, min_in_sync=1)

    async def test() -> None:
        node = await cluster.master()
        await cluster.send(node)
        times = 0
        while (answer := await pop(cluster, node, ms=1000)).code == 0:
            times += 1
            assert given(answer) == [1]
            await asyncio.sleep(2.5)
        assert times == 17
        dead = await cluster.pull(node, 0, topic="%DLQ%g")
        assert dead is not None
        assert given(dead) == [1]

    cluster.run(test)


def test_a_request_waits_for_messages() -> None:
    cluster = Cluster(brokers=1, min_in_sync=1)

    async def test() -> None:
        node = await cluster.master()
        waiting = asyncio.ensure_future(pop(cluster, node, pollTime="2000"))
        await asyncio.sleep(1.0)
        await cluster.send(node)
        assert given(await waiting) == [1]
        assert (await pop(cluster, node, pollTime="1000")).code == Response.POLLING_TIMEOUT

    cluster.run(test)


def test_what_the_log_holds_no_more_comes_from_the_tier() -> None:
    cluster = Cluster(tier=True, retain_bytes=8192)

    async def test() -> None:
        node = await cluster.settled(cluster.brokers)
        for _ in range(40):
            await cluster.send(node, 0, b"x" * 1000)
        await asyncio.sleep(3.0)
        assert (await cluster.state(node))["queues"]["0"][0] > 0
        found: list[int] = []
        while (answer := await pop(cluster, node)).code == 0:
            found += given(answer)
        assert found == list(range(1, 41))

    cluster.run(test)


def test_the_longest_properties_and_the_largest_bodies_come_and_come_again() -> None:
    cluster = Cluster(brokers=1, min_in_sync=1, segment_bytes=1 << 24)
    group = "g" * 90

    async def test() -> None:
        node = await cluster.master()
        longest = "p\x01" + "x" * (records.MAX_USER_PROPERTIES_BYTES - 44) + "\x02" + f"UNIQ_KEY\x01{1:032X}"
        fields = {"a": "p", "b": TOPIC, "e": "0", "f": "0", "g": "0", "h": "0", "i": longest}
        assert len(longest) == records.MAX_USER_PROPERTIES_BYTES
        for number in range(6):
            body = b"b" * (records.MAX_BODY_BYTES if number else 1)
            sent = await cluster.ask(node, Request.SEND_MESSAGE_V2, fields, body)
            assert sent is not None
            assert sent.code == 0
        sizes = []
        while (answer := await pop(cluster, node, ms=20_000, group=group)).code == 0:
            sizes.append(len(given(answer)))
        assert sizes == [1] * 6
        await asyncio.sleep(25.0)
        assert len(given(await pop(cluster, node, group=group))) == 1

    cluster.run(test)


def test_what_is_no_handle_is_refused() -> None:
    cluster = Cluster(brokers=1, min_in_sync=1)

    async def test() -> None:
        node = await cluster.master()
        await cluster.send(node)
        assert (await pop(cluster, node, order="true")).code == Response.MESSAGE_ILLEGAL
        for wrong in ({"ms": 10}, {"count": 0}, {"count": 33}, {"queue": 1 << 31}):
            assert (await pop(cluster, node, **wrong)).code == Response.INVALID_PARAMETER, wrong  # type: ignore[arg-type]
        assert (await pop(cluster, node, queue=99)).code == Response.TOPIC_NOT_EXIST
        answer = await pop(cluster, node, queue=-1)
        for words in ("", "x", "-1 2 3", "1" * 40, "7 8 9"):
            assert await handle(cluster, node, answer, 0, extraInfo=words) == Response.INVALID_PARAMETER, words
        assert await handle(cluster, node, answer, 0, consumerGroup="h") == Response.INVALID_PARAMETER

    cluster.run(test)
