"""Messages found by their keys, and by their places in the log."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import pytest

from reference.broker import index
from reference.broker.index import MessageIndex
from reference.broker.parts import Refused
from reference.broker.records import decode, decode_all, encode
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from tests.reference.broker_cluster import TOPIC, Cluster

_FOR_EVER = 1 << 50


class Lookups(Cluster):
    async def send_keys(self, *keys: str, own: str = "", node: str = "broker-0") -> Command:
        properties = f"KEYS\x01{' '.join(keys)}\x02UNIQ_KEY\x01{own}\x02"
        fields = {"topic": TOPIC, "queueId": "0", "sysFlag": "0", "bornTimestamp": "0", "flag": "0"}
        answer = await self.ask(node, Request.SEND_MESSAGE, {**fields, "properties": properties}, b"x" * 50)
        assert answer is not None and answer.code == 0
        return answer

    async def look(self, key: str, node: str = "broker-0", **more: Any) -> Command:
        fields = {"topic": TOPIC, "key": key, "maxNum": 64, "beginTimestamp": 0, "endTimestamp": _FOR_EVER, **more}
        answer = await self.ask(node, Request.QUERY_MESSAGE, {name: str(value) for name, value in fields.items()})
        assert answer is not None
        return answer

    async def found(self, key: str, node: str = "broker-0", **more: Any) -> list[int]:
        """Return the offsets of the messages that are found."""
        answer = await self.look(key, node, **more)
        assert (answer.code == Response.QUERY_NOT_FOUND) is (not answer.body)
        return [record.offset for record in decode_all(answer.body)]


def test_messages_are_found_by_any_of_their_keys_the_newest_first() -> None:
    cluster = Lookups(brokers=1)

    async def script() -> None:
        await cluster.send_keys("a", "b", own="U1")
        await cluster.send_keys("b", own="U2")
        await cluster.send_keys(own="U3")
        assert await cluster.found("a") == [0]
        assert await cluster.found("b") == [1, 0]
        assert await cluster.found("b", maxNum=1) == [1]
        assert await cluster.found("b", maxNum=0) == [1]
        assert await cluster.found("U3") == await cluster.found("U3", _UNIQUE_KEY_QUERY="true") == [2]
        assert await cluster.found("b", _UNIQUE_KEY_QUERY="true") == await cluster.found("b", indexType="U") == []
        assert await cluster.found("b", indexType="K") == [1, 0]
        assert await cluster.found("c") == await cluster.found("a b") == await cluster.found("A") == []
        assert await cluster.found("a", topic="another") == []
        await cluster.send_keys("a")
        assert await cluster.found("a") == [3, 0]
        assert (await cluster.look("a", indexType="T")).code == Response.INVALID_PARAMETER

    cluster.run(script)


def test_messages_are_found_in_a_time() -> None:
    cluster = Lookups(brokers=1)

    async def script() -> None:
        for _ in range(3):
            await cluster.send_keys("a")
            await asyncio.sleep(1)
        times = [record.store_ms for record in decode_all((await cluster.look("a")).body)][::-1]
        assert times == sorted(set(times))
        assert await cluster.found("a", beginTimestamp=times[1]) == [2, 1]
        assert await cluster.found("a", beginTimestamp=times[1], endTimestamp=times[1]) == [1]
        assert await cluster.found("a", endTimestamp=times[1] - 1) == [0]
        assert await cluster.found("a", beginTimestamp=times[2] + 1) == []
        answer = await cluster.look("a")
        state = await cluster.state("broker-0")
        assert answer.fields["indexLastUpdateTimestamp"] == str(times[2])
        assert answer.fields["indexLastUpdatePhyoffset"] == str(state["confirm"])

    cluster.run(script)


def test_a_message_is_found_at_its_place() -> None:
    cluster = Lookups(brokers=1)

    async def view(offset: object) -> Command:
        answer = await cluster.ask("broker-0", Request.VIEW_MESSAGE_BY_ID, {"offset": str(offset)})
        assert answer is not None
        return answer

    async def script() -> None:
        sent = [await cluster.send_keys(key) for key in "ab"]
        position = int(sent[1].fields["position"])
        (record,) = decode_all((await view(position)).body)
        assert (record.position, record.offset, record.topic) == (position, 1, TOPIC)
        end = (await cluster.state("broker-0"))["end"]
        for wrong in (position + 1, end, 0, -1, 1 << 62):  # the first record of the log is the system's own
            assert (await view(wrong)).code == Response.SYSTEM_ERROR
        assert (await view("x")).code == Response.INVALID_PARAMETER

    cluster.run(script)


def test_what_is_not_confirmed_is_not_found() -> None:
    cluster = Lookups(brokers=3)

    async def script() -> None:
        master = await cluster.master()
        slaves = [name for name in cluster.brokers if name != master]
        await cluster.send_keys("a", node=master)
        for slave in slaves:
            await cluster.world.kill(slave)
        fields = {"topic": TOPIC, "queueId": "0", "sysFlag": "0", "bornTimestamp": "0", "flag": "0"}
        message = {**fields, "properties": "KEYS\x01a\x02"}
        unclear = await cluster.ask(master, Request.SEND_MESSAGE, message, b"x")
        assert unclear is not None and unclear.code == Response.FLUSH_SLAVE_TIMEOUT
        position = (await cluster.state(master))["confirm"]
        assert position < (await cluster.state(master))["end"]
        assert await cluster.found("a", node=master) == [0]
        view = await cluster.ask(master, Request.VIEW_MESSAGE_BY_ID, {"offset": str(position)})
        assert view is not None and view.code == Response.SYSTEM_ERROR

    cluster.run(script)


def test_slaves_find_them_too_and_a_long_log_is_indexed_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "STEP_BYTES", 400)
    cluster = Lookups(brokers=3)

    async def script() -> None:
        master = await cluster.master()
        for number in range(40):
            await cluster.send_keys(f"k{number % 4}", node=master)
        await cluster.settled(cluster.brokers)
        for node in cluster.brokers:
            both = await asyncio.gather(cluster.found("k1", node), cluster.found("k2", node))
            assert both == [list(range(37, 0, -4)), list(range(38, 0, -4))]

    cluster.run(script)


def test_a_question_does_not_keep_reads_waiting_nor_they_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "STEP_BYTES", 1)
    cluster = Lookups(brokers=1)

    async def script() -> None:
        for _ in range(30):
            await cluster.send_keys("a")
        waiting = {"sysFlag": "2", "suspendTimeoutMillis": "1000"}
        began = asyncio.get_running_loop().time()
        found, held, other = await asyncio.gather(
            cluster.found("a"), cluster.pull("broker-0", 30, **waiting), cluster.found("a")
        )
        assert found == other == list(range(29, -1, -1))
        assert held is not None and held.code == Response.PULL_NOT_FOUND
        assert 0.9 < asyncio.get_running_loop().time() - began < 1.5

    cluster.run(script)


def test_what_the_log_has_dropped_is_found_no_more() -> None:
    cluster = Lookups(brokers=1, tier=True, retain_bytes=1)

    async def script() -> None:
        for _ in range(20):
            await cluster.send_keys("a")
        assert len(await cluster.found("a")) == 20
        for _ in range(100):
            await cluster.send_keys("a")
        for _ in range(200):
            if (await cluster.state("broker-0"))["queues"]["0"][0] > 60:
                break
            await asyncio.sleep(0.1)
        first = (await cluster.state("broker-0"))["queues"]["0"][0]
        found = await cluster.found("a")
        assert first > 60 and found == list(range(119, first - 1, -1))

    cluster.run(script)


def test_keys_of_one_checksum_are_told_apart() -> None:
    cluster = Lookups(brokers=1)
    first, other = "75be4d1e", "4baa5d72"
    assert crc32(f"{TOPIC}#{first}".encode()) == crc32(f"{TOPIC}#{other}".encode())

    async def script() -> None:
        await cluster.send_keys(first)
        await cluster.send_keys(other)
        await cluster.send_keys(first, other)
        assert await cluster.found(first) == [2, 0]
        assert await cluster.found(other) == [2, 1]

    cluster.run(script)


class Fake:
    """A broker that holds two records, and the step that it is in."""

    def __init__(self) -> None:
        one = encode(topic=TOPIC, queue_id=0, offset=0, position=0, body=b"x", properties=b"KEYS\x01a\x02")
        self.data = one + encode(topic=TOPIC, queue_id=0, offset=1, position=len(one), body=b"x", properties=b"")
        self.queues: Any = SimpleNamespace(dispatched=len(self.data), holds=lambda record: True)
        self.log: Any = SimpleNamespace(first=0, read_records=self._read, decode_all=decode_all)
        self.refusal: Refused | None = None
        self.answers: list[Command] = []
        self.timers: list[str] = []

    def _read(self, env: object, position: int, size: int) -> bytes:
        return self.data[position : position + decode(self.data, position).size]

    def must_serve(self, *, any_replica: bool) -> None:
        if self.refusal is not None:
            raise self.refusal

    def send(self, to: str, answer: Command) -> None:
        self.answers.append(answer)

    def set_timer(self, name: str, delay_ns: int) -> None:
        self.timers.append(name)


def asked(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, MessageIndex]:
    """Return a broker whose index has read one of two records for a question."""
    monkeypatch.setattr(index, "STEP_BYTES", 1)
    fake: Any = Fake()
    made = MessageIndex(fake, "held")
    fields = {"topic": TOPIC, "key": "a", "maxNum": "9", "beginTimestamp": "0", "endTimestamp": "9"}
    made.by_key(fake, "client", Command(code=Request.QUERY_MESSAGE, fields=fields))
    assert fake.answers == [] and fake.timers == ["held"]
    return fake, made


def test_a_question_is_answered_when_the_index_has_come_far_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, made = asked(monkeypatch)
    made.go_on(fake)
    assert [answer.code for answer in fake.answers] == [0] and fake.timers == ["held"]


def test_questions_are_refused_while_the_log_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """The records that the queues name may be gone then."""
    fake, made = asked(monkeypatch)
    fake.refusal, fake.data = Refused(Response.SYSTEM_BUSY, "retry: the log is being cut"), b""
    made.go_on(fake)
    assert [answer.remark for answer in fake.answers] == ["retry: the log is being cut"]
    made.go_on(fake)
    assert fake.timers == ["held"] and len(fake.answers) == 1


def test_questions_about_a_log_that_has_begun_again_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, made = asked(monkeypatch)
    fake.queues = SimpleNamespace(dispatched=0)
    made.go_on(fake)
    assert [answer.code for answer in fake.answers] == [Response.SYSTEM_BUSY] and fake.timers == ["held"]


def test_a_client_that_is_gone_is_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, made = asked(monkeypatch)
    made.closed("client")
    made.go_on(fake)
    assert fake.answers == [] and fake.timers == ["held"]


def test_questions_that_are_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "MAX_WAITING", 1)
    fake, made = asked(monkeypatch)
    with pytest.raises(Refused, match="too many questions"):
        made.by_key(fake, "other", made._waiting[0].request)
