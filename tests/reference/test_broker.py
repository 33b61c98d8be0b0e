"""A broker alone and in a group, in the simulator."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from reference.broker.records import decode_all
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from tests.reference import broker_cluster as cluster


def bodies(answer: Command | None) -> list[bytes]:
    assert answer is not None and answer.code == 0, answer
    return [record.body for record in decode_all(answer.body)]


def test_one_broker_takes_sends_and_gives_them_back_in_order() -> None:
    group = cluster.Cluster(brokers=1)

    async def test() -> None:
        for number in range(40):
            answer = await group.send("broker-0", number % 2)
            assert answer.code == 0 and int(answer.fields["queueOffset"]) == number // 2, answer
        assert bodies(await group.pull("broker-0", 0)) == [b"body-%d" % (2 * n + 1) for n in range(20)]
        assert (await group.pull("broker-0", 20)).code == Response.PULL_NOT_FOUND

    group.run(test)


def test_all_replicas_hold_the_same_log() -> None:
    group = cluster.Cluster()

    async def test() -> None:
        master = await group.master()
        for number in range(100):
            assert (await group.send(master, number % 2)).code == 0
        await group.settled(group.brokers)
        logs = [await group.log(name) for name in group.brokers]
        messages = [[row for row in log if not row[7]] for log in logs]
        assert messages[0] == messages[1] == messages[2] and len(messages[0]) == 100
        for name in group.brokers:
            assert len(bodies(await group.pull(name, 10, anyReplica="true"))) == 32

    group.run(test)


async def commit(group: Any, node: str, offset: int, name: str = "g") -> Command:
    fields = {"consumerGroup": name, "topic": "storm", "queueId": "0", "commitOffset": str(offset)}
    answer = await group.ask(node, Request.UPDATE_CONSUMER_OFFSET, fields)
    assert answer is not None
    return answer


async def committed(group: Any, node: str, name: str = "g") -> Command:
    fields = {"consumerGroup": name, "topic": "storm", "queueId": "0"}
    answer = await group.ask(node, Request.QUERY_CONSUMER_OFFSET, fields)
    assert answer is not None
    return answer


def test_a_group_keeps_its_offset_through_a_switch_and_never_goes_back() -> None:
    group = cluster.Cluster()

    async def test() -> None:
        master = await group.master()
        for _ in range(10):
            assert (await group.send(master)).code == 0
        assert (await committed(group, master)).code == Response.QUERY_NOT_FOUND
        assert (await commit(group, master, 7)).code == 0
        assert (await commit(group, master, 5)).code == 0  # late: no effect
        assert (await commit(group, master, 11)).code == Response.INVALID_PARAMETER
        await group.world.kill(master)
        await asyncio.sleep(2.0)
        other = await group.master()
        assert other != master
        assert (await committed(group, other)).fields["offset"] == "7"
        await group.start(master)
        await group.settled(group.brokers)

    group.run(test)


def test_a_send_is_refused_while_too_few_replicas_are_in_sync() -> None:
    group = cluster.Cluster()

    async def test() -> None:
        master = await group.master()
        for name in group.brokers:
            if name != master:
                await group.world.kill(name)
        await asyncio.sleep(4.0)
        end = (await group.state(master))["end"]
        answer = await group.send(master)
        assert answer.code == Response.SYSTEM_ERROR and "in-sync replicas not enough" in answer.remark
        assert (await group.state(master))["end"] == end

    group.run(test)


def test_a_send_that_no_replica_confirms_ends_unclear_not_refused() -> None:
    group = cluster.Cluster(max_lag_ms=10_000)

    async def test() -> None:
        master = await group.master()
        for name in group.brokers:
            if name != master:
                await group.world.pause(name)
        assert (await group.send(master)).code == Response.FLUSH_SLAVE_TIMEOUT
        assert (await group.pull(master, 0)).code == Response.PULL_NOT_FOUND

    group.run(test)


def test_a_held_pull_is_answered_when_a_message_comes_or_its_time_is_over() -> None:
    group = cluster.Cluster(brokers=1)
    wait = {"sysFlag": "2", "suspendTimeoutMillis": "1000"}

    async def test() -> None:
        start = group.world.now_ns()
        assert (await group.pull("broker-0", 0, **wait)).code == Response.PULL_NOT_FOUND
        assert 0.9e9 < group.world.now_ns() - start < 1.5e9
        held = asyncio.get_running_loop().create_task(group.pull("broker-0", 0, **wait))
        await asyncio.sleep(0.2)
        fields = {"a": "p", "b": "storm", "e": "0", "f": "0", "g": "0", "h": "0"}
        request = Command(code=Request.SEND_MESSAGE_V2, fields=fields, body=b"at last")
        assert (await group.world.connect("other", "broker-0").request(request, 2.0)).code == 0
        assert bodies(await held) == [b"at last"]

    group.run(test)


def test_topics_and_queues_are_created_once_and_found_after_a_restart() -> None:
    group = cluster.Cluster(brokers=1)
    create = {"topic": "more", "writeQueueNums": "3", "readQueueNums": "3", "perm": "6"}

    async def test() -> None:
        for _ in range(2):
            assert (await group.ask("broker-0", Request.UPDATE_AND_CREATE_TOPIC, create)).code == 0
        assert (await group.pull("broker-0", 0, topic="none")).code == Response.TOPIC_NOT_EXIST
        assert (await group.pull("broker-0", 0, queue=9)).code == Response.TOPIC_NOT_EXIST
        await group.world.kill("broker-0")
        await asyncio.sleep(0.1)
        await group.start("broker-0")
        await group.master()
        state = await group.state("broker-0", Request.READ_STATE)
        assert state["topics"] == {
            "storm": {"queues": 2, "first_index": 0},
            "more": {"queues": 3, "first_index": 2},
        }

    group.run(test)


def test_nobody_collects_half_a_log() -> None:
    group = cluster.Cluster(brokers=1)

    async def test() -> None:
        for _ in range(50):
            assert (await group.send("broker-0")).code == 0
        await group.world.kill("broker-0")
        await group.start("broker-0")
        codes = []
        for _ in range(1000):
            answer = await group.ask("broker-0", Request.READ_LOG, {"position": "-1"})
            if answer is None or answer.code:
                codes.append(None if answer is None else answer.code)
                await asyncio.sleep(0.0005)
                continue
            assert len([row for row in await group.log("broker-0") if not row[7]]) == 50
            break
        assert len(codes) < 1000 and set(codes) <= {None, Response.SYSTEM_BUSY}

    group.run(test)


def test_requests_that_make_no_sense_are_refused_and_change_nothing() -> None:
    group = cluster.Cluster(brokers=1)

    async def test() -> None:
        end = (await group.state("broker-0"))["end"]
        assert (await group.ask("broker-0", 4711, {})).code == Response.REQUEST_CODE_NOT_SUPPORTED
        assert (await group.ask("broker-0", Request.SEND_MESSAGE_V2, {"b": "storm"})).code == Response.INVALID_PARAMETER
        assert (await group.ask("broker-0", Request.PULL_MESSAGE, {"sysFlag": "x"})).code == Response.INVALID_PARAMETER
        assert (await group.ask("broker-0", Request.HEART_BEAT, {}, b"{")).code == Response.INVALID_PARAMETER
        assert (await group.state("broker-0"))["end"] == end

    group.run(test)


@pytest.mark.parametrize(("acks", "flush"), [("master", "sync"), ("2", "sync"), ("all", "async")])
def test_other_policies_acknowledge_earlier_but_show_only_what_is_confirmed(acks: str, flush: str) -> None:
    group = cluster.Cluster(acks=acks, flush=flush)

    async def test() -> None:
        master = await group.master()
        for number in range(50):
            assert (await group.send(master)).code == 0, number
        await group.settled(group.brokers)
        assert len(bodies(await group.pull(master, 20))) == 30

    group.run(test)
    for row in group.rows("acked"):
        assert flush == "async" or row["position"] <= row["value"]["confirm"] or acks != "all"


def test_a_replica_whose_durable_log_is_damaged_comes_back_as_a_new_one() -> None:
    group = cluster.Cluster()

    async def test() -> None:
        master = await group.master()
        for _ in range(100):
            assert (await group.send(master)).code == 0
        await group.settled(group.brokers)
        await asyncio.sleep(1.0)
        slave = next(name for name in group.brokers if name != master)
        await group.world.kill(slave)
        group.damage(slave)
        await group.start(slave)
        await asyncio.sleep(1.0)
        await group.settled(group.brokers)
        assert [row[5] for row in await group.log(slave) if not row[7]] == list(range(1, 101))
        told = await group.state("controller-0")
        assert max(told["groups"]["broker"]["brokers"].values()) == 4

    group.run(test)


@pytest.mark.parametrize("harm", ["log", "small files"])
def test_a_replica_that_lost_what_it_held_is_not_elected(harm: str) -> None:
    """Nobody else lives when it comes back: the group waits for the one that has everything."""
    group = cluster.Cluster(brokers=2)

    async def test() -> None:
        master = await group.master()
        for _ in range(50):
            assert (await group.send(master)).code == 0
        await group.settled(group.brokers)
        await asyncio.sleep(1.5)
        slave = next(name for name in group.brokers if name != master)
        await group.world.kill(slave)
        if harm == "log":
            group.damage(slave)
        else:
            for path in ("state.0", "state.1", "identity.0"):
                group.damage(slave, path, 20)
        await group.world.kill(master)
        await group.start(slave)
        await asyncio.sleep(5.0)
        assert (await group.state("controller-0"))["groups"]["broker"]["master"] == ""
        assert (await group.state(slave))["end"] == 0
        await group.start(master)
        assert await group.settled(group.brokers) == master
        assert [row[5] for row in await group.log(slave) if not row[7]] == list(range(1, 51))
        assert [row["value"]["generation"] for row in group.rows("start") if row["node"] == slave][-1] == 1

    group.run(test)


def test_a_replica_keeps_its_place_when_one_copy_of_a_small_file_is_damaged() -> None:
    group = cluster.Cluster()

    async def test() -> None:
        master = await group.master()
        assert (await group.send(master)).code == 0
        await group.settled(group.brokers)
        await asyncio.sleep(1.5)
        slave = next(name for name in group.brokers if name != master)
        await group.world.kill(slave)
        for path in ("state.1", "identity.0"):
            group.damage(slave, path, 20)
        await group.start(slave)
        await asyncio.sleep(1.0)
        await group.settled(group.brokers)
        assert not group.rows("damaged")
        assert max((await group.state("controller-0"))["groups"]["broker"]["brokers"].values()) == 3

    group.run(test)


def test_a_record_that_is_damaged_in_mid_life_is_not_served() -> None:
    """The master stops when a client asks for it, and begins anew with what a slave has."""
    group = cluster.Cluster()

    async def test() -> None:
        master = await group.master()
        for _ in range(50):
            assert (await group.send(master)).code == 0
        await group.settled(group.brokers)
        await asyncio.sleep(1.0)
        group.damage(master)
        assert await group.pull(master, 0) is None
        (crash,) = group.world.crashes
        assert crash.node == master and "Damaged: the disk gives back other bytes" in crash.error
        group.world.crashes.clear()
        await group.start(master)
        assert await group.settled(group.brokers) != master
        assert [row[5] for row in await group.log(master) if not row[7]] == list(range(1, 51))

    group.run(test)


def test_a_disk_that_went_back_in_time_is_known_also_after_a_life_that_nobody_heard_of() -> None:
    """It counts as many lives then as if nothing had happened."""
    group = cluster.Cluster()

    async def test() -> None:
        master = await group.master()
        slave = next(name for name in group.brokers if name != master)
        await group.world.copy_disk(slave)
        await group.start(slave)
        await group.settled(group.brokers)
        for _ in range(20):
            assert (await group.send(master)).code == 0
        await group.settled(group.brokers)
        await group.world.roll_back_disk(slave)
        await group.world.kill("controller-0")
        await group.start(slave)
        await asyncio.sleep(0.5)
        await group.world.kill(slave)
        await group.start("controller-0")
        await group.start(slave)
        await group.settled(group.brokers)
        lives = [row["value"]["generation"] for row in group.rows("start") if row["node"] == slave]
        assert lives == [1, 2, 2, 3]
        entries = [row["value"]["entry"] for row in group.rows("applied") if row["incarnation"] == 2]
        assert [entry["removed"] for entry in entries if entry.get("removed")] == [[slave]]

    group.run(test)
