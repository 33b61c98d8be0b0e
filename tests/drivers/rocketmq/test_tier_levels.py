"""Reads that demand a source switch the level of the broker's tier, and switch it back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chaos.ops import Failed
from drivers.rocketmq.driver import Options, RocketMQ, create
from tests.drivers.rocketmq.fake import FakeNetwork
from tests.drivers.rocketmq.test_driver import QUEUE, healthy, run


def levels(network: FakeNetwork, node: str = "broker-1") -> list[str]:
    """What this node was told to read from, in order."""
    return [
        message.body.decode().strip().removeprefix("tieredStorageLevel=")
        for name, message in network.asked
        if name == node and message.code == 25
    ]


def ready(*, log_end: int, told: int, result: int = 19) -> FakeNetwork:
    network = healthy()
    for node in ("broker-1", "broker-2"):
        network.says(node, 25)
        network.says(node, 30, offset=str(log_end))
        network.says(node, 31, offset="0")
        network.says(node, 11, result=result, maxOffset=str(told), nextBeginOffset="7", minOffset="0")
    return network


def driver(**options: Any) -> RocketMQ:
    return create(Options(tier=True, **options))


def test_a_read_from_the_tier_is_known_by_an_end_that_is_not_the_logs() -> None:
    network = ready(log_end=90, told=40)
    read = run(driver().client(network, "reader").pull(QUEUE, 40, limit=1, source="tier"))
    assert (read.source, read.maximum, read.epoch) == ("tier", -1, 3)
    assert levels(network) == ["FORCE", "NOT_IN_DISK"]


@pytest.mark.parametrize("told", [90, 95, -1])
def test_where_the_ends_are_equal_nobody_knows_the_source(told: int) -> None:
    read = run(driver().client(ready(log_end=90, told=told), "reader").pull(QUEUE, 90, limit=1, source="tier"))
    assert (read.source, read.maximum) == ("", told)


@pytest.mark.parametrize("told", [90, 95])
def test_readers_that_demand_nothing_are_told_the_queues_end(told: int) -> None:
    assert run(driver().client(ready(log_end=90, told=told), "reader").pull(QUEUE, 40, limit=1)).maximum == told


def test_who_finds_nothing_since_the_tier_ends_was_not_served() -> None:
    with pytest.raises(Failed, match="reads from its tier, which ends at 50, and its log at 90"):
        run(driver().client(ready(log_end=90, told=50), "reader").pull(QUEUE, 50, limit=1))


def test_a_read_from_the_log_leaves_the_tier_out_and_any_replica_can_be_asked() -> None:
    network = ready(log_end=90, told=90)
    client = driver(broker_options={"tieredStorageLevel": "FORCE"}).client(network, "reader")
    read = run(client.pull(QUEUE, 90, limit=1, node="broker-2", source="local"))
    assert (read.source, read.maximum, levels(network, "broker-2")) == ("local", 90, ["DISABLE", "FORCE"])
    assert levels(network) == []


def test_a_refused_read_switches_back_too() -> None:
    network = ready(log_end=90, told=40, result=21)
    with pytest.raises(Failed) as refused:
        run(driver().client(network, "reader").pull(QUEUE, 60, limit=1, source="tier"))
    assert refused.value.answer.following == 7 and levels(network) == ["FORCE", "NOT_IN_DISK"]


def test_a_broker_that_does_not_take_the_level_is_not_read() -> None:
    network = ready(log_end=90, told=40)
    network.says("broker-1", 25, result=1, remark="no")
    with pytest.raises(Failed, match="does not take the level FORCE"):
        run(driver().client(network, "reader").pull(QUEUE, 0, limit=1, source="tier"))
    assert 11 not in network.codes("broker-1")


def test_a_master_that_was_replaced_between_switch_and_read_is_not_believed() -> None:
    network = ready(log_end=90, told=40)
    client: Any = driver().client(network, "reader")
    turns = iter(["broker-1", "broker-2"])

    async def next_master(queue: object) -> str:
        return next(turns)

    client._master = next_master
    network.says("broker-2", 1007, body={"brokerId": 0, "epochList": [{"epoch": 4}]})
    with pytest.raises(Failed, match="broker-1 is not the master any more"):
        run(client.pull(QUEUE, 0, limit=1, source="tier"))


def test_two_readers_of_one_broker_take_turns() -> None:
    network, made = ready(log_end=90, told=40), driver()

    async def both() -> None:
        clients = [made.client(network, name) for name in ("one", "two")]
        sources = ("tier", "local")
        pulls = [one.pull(QUEUE, 0, limit=1, source=source) for one, source in zip(clients, sources, strict=True)]
        await asyncio.gather(*pulls)

    run(both())
    assert levels(network) == ["FORCE", "NOT_IN_DISK", "DISABLE", "NOT_IN_DISK"]


def test_without_a_tier_no_source_can_be_demanded() -> None:
    with pytest.raises(Failed, match="there is no tier"):
        run(create(Options()).client(healthy(), "reader").pull(QUEUE, 0, limit=1, source="tier"))


def test_logs_are_told_only_of_brokers_that_read_nothing_else() -> None:
    network, rows = ready(log_end=0, told=0), []
    network.says("broker-1", 25, result=1)
    network.answers.pop(("broker-0", 1007))

    def record(kind: str, **columns: Any) -> int:
        rows.append(columns)
        return len(rows)

    run(driver(queues=1).collect(network, record))
    assert [one["node"] for one in rows if one["f"] == "complete"] == ["broker-2"]
    assert levels(network, "broker-2") == ["DISABLE"]
