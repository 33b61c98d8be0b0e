"""Kafka's idempotent producers, against scripted brokers: the number of each message, and how a send of it ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chaos.driver import Profile, promising
from chaos.ops import Failed, QueueRef, Unknown
from drivers.kafka import Options, create
from drivers.kafka.idempotence import COUNTED_OTHERWISE, HAS_IT, IdempotentClient
from tests.drivers import kafka_servers as say
from tests.drivers.kafka_servers import Servers

pytest.importorskip("kio", reason="not there: pip install 'stormproof[kafka]'")

QUEUE, OTHER = (QueueRef(index=index, topic="storm", queue_id=index) for index in range(2))
OK, UNKNOWN, REFUSED = 0, 7, 19


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine under load is no silent server."""
    monkeypatch.setattr("drivers.kafka.connection.REQUEST_S", 60.0)


def numbers(*sends: tuple[str, int], queues: tuple[QueueRef, ...] = (), **options: Any) -> list[tuple[str, int, int]]:
    """Send these messages, each to be answered by a code; return how each ended, and the epoch and number it had."""
    codes = iter([code for _, code in sends])
    network = Servers(lambda node, name, asked: _answer(name, codes))

    async def use() -> list[str]:
        client = create(Options(**options)).client(network, "c")  # type: ignore[arg-type]
        ends = []
        for number, (body, _) in enumerate(sends):
            try:
                await client.send(queues[number] if queues else QUEUE, "0A", body.encode())
                ends.append("ok")
            except (Failed, Unknown) as error:
                again, stored = "again" in error.answer.value, error.answer.offset >= 0
                ends.append(type(error).__name__ + " again" * again + " stored" * stored)
        return ends

    ends = asyncio.run(use())
    sent = [one for one in network.requests if type(one).__name__ == "ProduceRequest"]
    return [(end, *_number(one.topic_data[0].partition_data[0].records)) for end, one in zip(ends, sent, strict=True)]


def _answer(name: str, codes: Any) -> Any:
    if name == "metadata":
        return say.metadata(leader=1, partitions=2)
    return say.initialized(0) if name == "init_producer_id" else say.produced(next(codes))


def _number(records: bytes) -> tuple[int, int]:
    from kio.records.readers import read_batch

    one, _ = read_batch(records, 0)
    assert one.producer_id == 50
    return one.producer_epoch, one.base_sequence


def test_messages_are_counted_in_each_queue_and_a_refused_one_is_not() -> None:
    sends = [("a", OK), ("b", REFUSED), ("c", OK), ("d", OK)]
    found = numbers(*sends, queues=(QUEUE, QUEUE, OTHER, QUEUE))
    assert found == [("ok", 0, 0), ("Failed", 0, 1), ("ok", 0, 0), ("ok", 0, 1)]


def test_a_retry_has_the_same_number_and_whether_it_was_stored_by_that_is_unknown() -> None:
    found = numbers(("a", OK), ("b", UNKNOWN), ("b", REFUSED), ("b", OK), ("c", OK))
    assert found == [
        ("ok", 0, 0),
        ("Unknown", 0, 1),
        ("Failed again", 0, 1),
        ("Unknown again stored", 0, 1),
        ("ok", 0, 2),
    ]
    assert numbers(("a", UNKNOWN), ("a", HAS_IT), ("b", OK)) == [
        ("Unknown", 0, 0),
        ("Unknown again", 0, 0),
        ("ok", 0, 1),
    ]


def test_another_message_after_one_of_unknown_outcome_begins_an_epoch_in_that_queue_alone() -> None:
    sends = [("a", OK), ("b", UNKNOWN), ("c", OK), ("d", OK), ("e", OK)]
    found = numbers(*sends, queues=(QUEUE, QUEUE, OTHER, QUEUE, QUEUE))
    assert found == [("ok", 0, 0), ("Unknown", 0, 1), ("ok", 0, 0), ("ok", 1, 0), ("ok", 1, 1)]


@pytest.mark.parametrize("code", sorted(COUNTED_OTHERWISE))
def test_a_broker_that_has_counted_otherwise_gets_a_new_epoch_unless_that_is_of_a_retry(code: int) -> None:
    found = numbers(("a", OK), ("b", code), ("b", OK))
    assert found == [("ok", 0, 0), ("Failed", 0, 1), ("ok", 1, 0)]
    found = numbers(("a", UNKNOWN), ("a", code), ("a", OK))
    assert found == [("Unknown", 0, 0), ("Failed again", 0, 0), ("Unknown again stored", 0, 0)], (
        "the first may be stored elsewhere"
    )


def test_who_gets_no_id_sends_nothing() -> None:
    network = Servers(lambda node, name, asked: say.initialized(code=15))

    async def use() -> None:
        await create(Options()).client(network, "c").send(QUEUE, "0A", b"a")  # type: ignore[arg-type]

    with pytest.raises(Failed, match="init_producer_id: 15 "):
        asyncio.run(use())


def test_only_producers_that_wait_for_all_are_idempotent_and_only_if_they_may() -> None:
    def is_idempotent(profile: Profile, **options: Any) -> bool:
        client = promising(create(Options(**options)), profile).client(Servers(lambda *_: None), "c")
        return isinstance(client, IdempotentClient)

    assert is_idempotent(Profile()) and not is_idempotent(Profile(), idempotent=False)
    assert not is_idempotent(Profile(acks="master")) and not is_idempotent(Profile(), acks="master")
