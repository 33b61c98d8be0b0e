"""Messages that come to their queue later: after a delay, when their transaction is committed, when they come back."""

from __future__ import annotations

import asyncio
import json
import struct
from typing import Any

import pytest

from reference.broker import properties, records
from reference.broker.commitlog import Base
from reference.broker.deferred import Deferred, DeferredMessages
from reference.broker.queues import Queues
from reference.broker.sends import LEVELS_S, MAX_BATCH
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from tests.reference.broker_cluster import PARTS, TOPIC, Cluster

SEND = {"a": "p", "b": TOPIC, "c": "", "d": "4", "e": "0", "f": "0", "g": "0", "h": "0"}
HALF = "TRAN_MSG\x01true\x02PGROUP\x01p\x02"


async def send(cluster: Cluster, master: str, names: str = "", body: bytes = b"body", **more: str) -> Command:
    fields = {**SEND, "i": f"{names}UNIQ_KEY\x01{1:032X}\x02", **more}
    answer = await cluster.ask(master, Request.SEND_MESSAGE_V2, fields, body)
    assert answer is not None
    return answer


async def end(cluster: Cluster, master: str, position: str, decision: int, group: str = "p") -> Command:
    fields = {
        "producerGroup": group,
        "commitLogOffset": position,
        "tranStateTableOffset": position,
        "commitOrRollback": str(decision),
    }
    answer = await cluster.ask(master, Request.END_TRANSACTION, fields)
    assert answer is not None
    return answer


async def bodies(cluster: Cluster, master: str, topic: str = TOPIC) -> list[bytes]:
    """Return the bodies of all that stands in a topic's first queue."""
    answer = await cluster.pull(master, 0, topic=topic)
    assert answer is not None
    return [one.body for one in records.decode_all(answer.body)] if answer.code == 0 else []


async def switched(cluster: Cluster, master: str) -> str:
    """Kill the master; return the next one."""
    await cluster.world.kill(master)
    await asyncio.sleep(1.0)
    return await cluster.master()


@pytest.mark.parametrize("names", ["DELAY\x012\x02", "TIMER_DELAY_SEC\x015\x02", "TIMER_DELAY_MS\x015000\x02"])
def test_a_delayed_message_comes_when_it_is_due_and_not_before(names: str) -> None:
    cluster = Cluster()

    async def test() -> None:
        master = await cluster.settled(cluster.brokers)
        assert (await send(cluster, master, names)).code == 0
        assert (await send(cluster, master, body=b"at once")).code == 0
        await asyncio.sleep(4.5)
        assert await bodies(cluster, master) == [b"at once"]
        await asyncio.sleep(1.0)
        assert await bodies(cluster, master) == [b"at once", b"body"]
        (delivered,) = [row for row in cluster.rows("append", master) if row["queue"] == 0 and row["offset"] == 1]
        assert delivered["message"] == 1

    cluster.run(test)


@pytest.mark.parametrize("away_s", [0.5, 8.0])
def test_a_delay_is_kept_over_a_switch_of_masters_once(away_s: float) -> None:
    cluster = Cluster()

    async def test() -> None:
        master = await cluster.settled(cluster.brokers)
        assert (await send(cluster, master, "TIMER_DELAY_MS\x013000\x02")).code == 0
        second = await switched(cluster, master)
        await asyncio.sleep(away_s)
        await cluster.start(master)
        await asyncio.sleep(5.0)
        third = await switched(cluster, second)
        assert third != second
        await asyncio.sleep(3.0)
        assert await bodies(cluster, third) == [b"body"]

    cluster.run(test)


def test_a_transaction_decides_once_whether_its_message_comes() -> None:
    cluster = Cluster(brokers=1, min_in_sync=1)

    async def test() -> None:
        master = await cluster.master()
        first, second = [await send(cluster, master, HALF, body, f="4") for body in (b"one", b"two")]
        assert first.fields["transactionId"] == f"{1:032X}"
        assert await bodies(cluster, master) == []
        assert (await end(cluster, master, first.fields["queueOffset"], 8, group="others")).code == 1
        assert (await end(cluster, master, first.fields["queueOffset"], 0)).code == 0
        assert (await end(cluster, master, first.fields["queueOffset"], 8)).code == 0
        assert (await end(cluster, master, second.fields["queueOffset"], 12)).code == 0
        for position, decision in ((first, 12), (first, 8), (second, 8)):
            assert (await end(cluster, master, position.fields["queueOffset"], decision)).code == 1
        assert (await end(cluster, master, "7", 8)).code == 1
        assert (await end(cluster, master, "7", 3)).code == Response.INVALID_PARAMETER
        answer = await cluster.pull(master, 0)
        assert answer is not None
        (record,) = records.decode_all(answer.body)
        assert record.body == b"one"
        assert record.prepared == int(first.fields["queueOffset"])
        assert properties.read(record.properties) == {"PGROUP": "p", "UNIQ_KEY": f"{1:032X}"}

    cluster.run(test)


def test_a_producer_is_asked_how_a_transaction_ends_also_by_the_next_master() -> None:
    cluster = Cluster(transaction_timeout_ms=2000, transaction_check_ms=1000)

    async def test() -> None:
        master = await cluster.settled(cluster.brokers)
        sent = await send(cluster, master, HALF, f="4")
        master = await switched(cluster, master)
        asked: list[Command] = []
        connection = cluster.world.connect("client", master)
        connection.on_request(asked.append)
        beat = {"clientID": "c", "producerDataSet": [{"groupName": "p"}]}
        await cluster.ask(master, Request.HEART_BEAT, {}, json.dumps(beat).encode())
        await asyncio.sleep(4.0)
        assert len(asked) >= 2
        assert {one.code for one in asked} == {Request.CHECK_TRANSACTION_STATE}
        fields, record = asked[0].fields, records.decode(asked[0].body)
        assert fields["commitLogOffset"] == fields["tranStateTableOffset"] == sent.fields["queueOffset"]
        assert (record.topic, record.queue_id, record.body) == (TOPIC, 0, b"body")
        assert (await end(cluster, master, fields["commitLogOffset"], 8)).code == 0
        count = len(asked)
        await asyncio.sleep(4.0)
        assert len(asked) == count
        assert await bodies(cluster, master) == [b"body"]

    cluster.run(test)


def test_a_transaction_that_nobody_ends_is_rolled_back() -> None:
    cluster = Cluster(brokers=1, min_in_sync=1, transaction_timeout_ms=500, transaction_keep_ms=3000)

    async def test() -> None:
        master = await cluster.master()
        sent = await send(cluster, master, HALF, f="4")
        await asyncio.sleep(40.0)
        assert (await end(cluster, master, sent.fields["queueOffset"], 8)).code == 1
        assert [row["system"] for row in await log_rows(cluster, master)][-2:] == ["deferred", "settled"]

    cluster.run(test)


async def log_rows(cluster: Cluster, node: str) -> list[dict[str, Any]]:
    names = ("epoch", "position", "size", "queue", "offset", "message", "hash", "system")
    return [dict(zip(names, row, strict=True)) for row in await cluster.log(node)]


def test_the_log_goes_on_though_a_message_waits_for_long() -> None:
    """What waits is written again at the end, and the first files go; an empty slave is given it, too."""
    cluster = Cluster(retain_bytes=16_384, delete_untiered=True)

    async def test() -> None:
        master = await cluster.settled(cluster.brokers)
        half = await send(cluster, master, HALF, b"half", f="4")
        assert (await send(cluster, master, "TIMER_DELAY_SEC\x0160\x02", b"late")).code == 0
        away = next(name for name in cluster.brokers if name != master)
        await cluster.world.kill(away)
        for _ in range(40):
            assert (await cluster.send(master, 1, b"x" * 1000)) is not None
            await asyncio.sleep(0.1)
        await asyncio.sleep(3.0)
        state = await cluster.state(master)
        assert state["first"] > int(half.fields["queueOffset"])
        await cluster.start(away)
        await cluster.settled(cluster.brokers)
        master = await switched(cluster, master)
        assert (await end(cluster, master, half.fields["queueOffset"], 8)).code == 0
        await asyncio.sleep(70.0)
        assert await bodies(cluster, master) == [b"half", b"late"]

    cluster.run(test)


def batch(*parts: tuple[bytes, bytes]) -> bytes:
    made = []
    for body, names in parts:
        size = 20 + len(body) + 2 + len(names)
        made.append(struct.pack(">iiiii", size, 0, 0, 7, len(body)) + body + struct.pack(">h", len(names)) + names)
    return b"".join(made)


def test_the_messages_of_a_batch_stand_one_after_the_other() -> None:
    cluster = Cluster(brokers=1, min_in_sync=1)

    async def test() -> None:
        master = await cluster.master()
        body = batch((b"a", b"UNIQ_KEY\x0105\x02"), (b"bb", b"UNIQ_KEY\x0106\x02k\x01v"), (b"c", b""))
        fields = {**SEND, "i": "", "m": "true"}
        answer = await cluster.ask(master, Request.SEND_BATCH_MESSAGE, fields, body)
        assert answer is not None
        assert (answer.code, answer.fields["queueOffset"]) == (0, "0")
        assert len(set(answer.fields["msgId"].split(","))) == 3
        read = await cluster.pull(master, 0)
        assert read is not None
        found = records.decode_all(read.body)
        assert [(one.body, one.offset, records.message_number(one.properties)) for one in found] == [
            (b"a", 0, 5),
            (b"bb", 1, 6),
            (b"c", 2, -1),
        ]
        before = (await cluster.state(master))["end"]
        wrong = (
            b"",
            body[:-1],
            body + b"\0",
            batch((b"", b"")),
            batch((b"d", b"DELAY\x011\x02")),
            batch(*[(b"x", b"")] * (MAX_BATCH + 1)),
        )
        for bad in wrong:
            answer = await cluster.ask(master, Request.SEND_BATCH_MESSAGE, fields, bad)
            assert answer is not None
            assert answer.code == Response.MESSAGE_ILLEGAL, bad[:40]
        assert (await cluster.state(master))["end"] == before

    cluster.run(test)


def test_a_message_comes_back_later_each_time_and_is_dead_in_the_end() -> None:
    cluster = Cluster(brokers=1, min_in_sync=1)
    retry, dead = "%RETRY%g", "%DLQ%g"

    async def test() -> None:
        master = await cluster.master()
        sent = await send(cluster, master)
        back = {"group": "g", "offset": sent.fields["position"], "originTopic": TOPIC, "delayLevel": "0"}

        async def send_back(**more: str) -> Command:
            answer = await cluster.ask(master, Request.CONSUMER_SEND_MSG_BACK, {**back, **more})
            assert answer is not None
            return answer

        assert (await send_back(offset="5")).code == 1
        assert (await send_back()).code == 0
        await asyncio.sleep(LEVELS_S[2] - 1)
        assert await bodies(cluster, master, retry) == []
        await asyncio.sleep(2.0)
        answer = await cluster.pull(master, 0, topic=retry)
        assert answer is not None
        (record,) = records.decode_all(answer.body)
        values = properties.read(record.properties)
        assert (record.body, values["RETRY_TOPIC"]) == (b"body", TOPIC)
        assert values["ORIGIN_MESSAGE_ID"] == sent.fields["msgId"]
        assert records.reconsumed(answer.body) == 1
        assert (await send_back(offset=str(record.position), maxReconsumeTimes="1")).code == 0
        await asyncio.sleep(1.0)
        assert await bodies(cluster, master, dead) == [b"body"]
        assert (await send_back(delayLevel="-1")).code == 0
        await asyncio.sleep(1.0)
        assert await bodies(cluster, master, dead) == [b"body", b"body"]

    cluster.run(test)


class Looked(DeferredMessages):
    """Counts how often somebody looks at what waits."""

    count = 0

    def get(self, key: int) -> Deferred | None:
        Looked.count += 1
        return super().get(key)

    def waiting(self) -> list[Deferred]:
        Looked.count += len(self)
        return super().waiting()


class LookedQueues(Queues):
    def __init__(self, base: Base) -> None:
        super().__init__(base)
        self.deferred = Looked()


def test_ten_thousand_messages_that_wait_are_not_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PARTS, "queues", LookedQueues)
    cluster = Cluster(brokers=1, min_in_sync=1, segment_bytes=1 << 22)

    async def test() -> None:
        master = await cluster.master()
        for number in range(500):
            fields = {**SEND, "i": f"TIMER_DELAY_SEC\x01{600 + number}\x02"}
            for _ in range(20):
                request = Command(code=Request.SEND_MESSAGE_V2, fields=fields, body=b"b")
                cluster.world.connect("client", master).oneway(request)
            await asyncio.sleep(0.001)
        await asyncio.sleep(2.0)
        Looked.count = 0
        await asyncio.sleep(580.0)
        assert Looked.count == 0
        await asyncio.sleep(40.0)
        came = await cluster.pull(master, 0, maxMsgNums="1024")
        assert came is not None
        assert Looked.count == len(records.decode_all(came.body)) >= 300

    cluster.run(test)
