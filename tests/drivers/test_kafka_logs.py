"""Readers with positions, transactions, and members of groups of Kafka's, against scripted brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from chaos.ops import Failed, QueueRef, Unknown
from drivers.kafka import Options, create, wire
from drivers.kafka.classic_protocol import ASSIGNMENT
from drivers.kafka.members import IS_OVER
from drivers.kafka.transactions import FENCED, NOT_ADDED, UNCHANGED, UNDER_WAY
from tests.drivers import kafka_servers as say
from tests.drivers.kafka_servers import Servers

pytest.importorskip("kio", reason="not there: pip install 'stormproof[kafka]'")

T = TypeVar("T")
QUEUE, OTHER = (QueueRef(index=index, topic="storm", queue_id=index) for index in range(2))


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine under load is no silent server, and nobody waits for long."""
    monkeypatch.setattr("drivers.kafka.connection.REQUEST_S", 60.0)
    monkeypatch.setattr("drivers.kafka.transactions.PAUSE_S", 0.0)


def run(call: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(call)


def serving(**answers: Any) -> Servers:
    """Brokers; ``answers`` are said to requests of these names, those of a list one after the other."""

    def answer(node: str, name: str, request: Any) -> Any:
        if name in answers:
            found = answers[name]
            if isinstance(found, Callable):  # type: ignore[arg-type]
                return found(request)
            return found.pop(0) if isinstance(found, list) else found
        usual: dict[str, Any] = {
            "find_coordinator": say.coordinator(),
            "init_producer_id": say.initialized(),
            "add_partitions_to_txn": say.added(),
            "add_offsets_to_txn": say.done(),
            "txn_offset_commit": say.stored(),
            "end_txn": say.done(),
            "produce": say.produced(),
            "offset_fetch": say.offsets(-1),
        }
        return say.metadata(leader=1) if name == "metadata" else usual.get(name) or say.limits(request)

    return Servers(answer)


def names(network: Servers) -> list[str]:
    return [name for _, name in network.asked if name not in ("metadata", "find_coordinator")]


# Positions


def test_a_reader_begins_at_the_first_offset_and_a_failed_poll_leaves_its_position() -> None:
    network = serving(fetch=[say.fetched(code=6), say.fetched(), say.fetched()])

    async def use() -> None:
        reader = create(Options()).log_reader(network, "c")  # type: ignore[arg-type]
        assert (await reader.poll(5)).messages == ()
        assert (await reader.assign([QUEUE])).value["following"] == {"0": 2}
        with pytest.raises(Failed, match="fetch: 6"):
            await reader.poll(5)
        assert (await reader.seek(QUEUE, -1)).offset == 90
        with pytest.raises(Failed, match="not its own"):
            await reader.seek(OTHER, 3)
        assert (await reader.seek(QUEUE, 7)).value["following"] == {"0": 7}
        assert (await reader.poll(5)).value["following"] == {"0": 7}
        assert (await reader.assign([QUEUE])).value["following"] == {"0": 7}

    run(use())


# Transactions


def producer(network: Servers) -> Any:
    return create(Options()).transactions(network, "c", id="t")  # type: ignore[arg-type]


def test_a_transaction_adds_each_queue_and_group_once_and_then_ends() -> None:
    network = serving()

    async def use() -> None:
        one = producer(network)
        assert (await one.take_over()).value == {"epoch": 3}
        await one.begin()
        assert (await one.send(QUEUE, "0A", b"a")).offset == 5
        await one.send(QUEUE, "0B", b"b")
        await one.commit_offsets("g", {QUEUE: 4})
        await one.commit_offsets("g", {QUEUE: 5})
        await one.end(commit=True)
        await one.begin()
        await one.end(commit=True)

    run(use())
    assert names(network) == [
        "init_producer_id",
        *("add_partitions_to_txn", "produce", "produce"),
        *("add_offsets_to_txn", "txn_offset_commit", "txn_offset_commit"),
        "end_txn",
    ], "a transaction with nothing in it is no request"


@pytest.mark.parametrize("code", sorted({-1, 7, 6, 20} | (NOT_ADDED - FENCED - {UNDER_WAY})))
def test_a_send_fails_only_if_it_was_surely_not_added_and_the_next_transaction_has_a_new_epoch(code: int) -> None:
    network = serving(produce=[say.produced(code), say.produced()])

    async def use() -> None:
        one = producer(network)
        await one.take_over()
        await one.begin()
        with pytest.raises(Failed if code in NOT_ADDED else Unknown, match=f"produce: {code} "):
            await one.send(QUEUE, "0A", b"a")
        await one.end(commit=False)
        await one.begin()
        await one.send(QUEUE, "0A", b"a")

    run(use())
    assert names(network).count("init_producer_id") == 2
    again = [one for one in network.requests if type(one).__name__ == "InitProducerIdRequest"][-1]
    assert (again.producer_id, again.producer_epoch) == (50, 3)


def test_nothing_begins_while_the_last_transaction_may_be_open() -> None:
    network = serving(end_txn=[None, say.done()], init_producer_id=[say.initialized(), say.initialized(code=51)] * 30)

    async def use() -> None:
        one = producer(network)
        await one.take_over()
        await one.begin()
        await one.send(QUEUE, "0A", b"a")
        one._client.connections.ask = _timeout(one._client.connections.ask)
        with pytest.raises(Unknown):
            await one.end(commit=True)
        await one.begin()

    run(use())
    assert names(network).count("init_producer_id") == 3, "51 says that the end is under way: it is asked again"


def _timeout(ask: Any) -> Any:
    """Return a request of which the end of a transaction gets no answer."""

    async def asking(node: str, request: str, *given: Any, **more: Any) -> Any:
        if request == "end_txn":
            raise Unknown("no answer in time")
        return await ask(node, request, *given, **more)

    return asking


@pytest.mark.parametrize("code", sorted(FENCED))
def test_whoever_was_replaced_is_told_so_by_every_call(code: int) -> None:
    async def call(of: str, network: Servers) -> None:
        one = producer(network)
        if of == "take_over":
            await one.take_over()
        await one.begin()
        if of == "commit_offsets":
            await one.commit_offsets("g", {QUEUE: 4})
        await one.send(QUEUE, "0A", b"a")
        await one.end(commit=True)

    for of, answers in {
        "take_over": {"init_producer_id": say.initialized(code=code)},
        "send": {"produce": say.produced(code)},
        "step": {"add_partitions_to_txn": say.added(code)},
        "commit_offsets": {"txn_offset_commit": say.stored(code)},
        "end": {"end_txn": say.done(code)},
    }.items():
        with pytest.raises(Failed) as raised:
            run(call(of, serving(**answers)))
        assert raised.value.answer.value == {"error": code, "fenced": True}, of


@pytest.mark.parametrize("code", sorted({-1, 7, 15, 16} | (UNCHANGED - FENCED)))
def test_an_end_fails_only_if_nothing_has_changed(code: int) -> None:
    async def use() -> None:
        one = producer(serving(end_txn=say.done(code)))
        await one.begin()
        await one.send(QUEUE, "0A", b"a")
        await one.end(commit=True)

    with pytest.raises(Failed if code in UNCHANGED else Unknown, match=f"end_txn: {code} "):
        run(use())


def test_offsets_of_which_some_were_refused_are_unknown() -> None:
    both = {"topics": [*say.stored()["topics"], *say.stored(12)["topics"]]}

    async def use() -> None:
        one = producer(serving(txn_offset_commit=both))
        await one.commit_offsets("g", {QUEUE: 4, OTHER: 5})

    with pytest.raises(Unknown, match=r"errors \[0, 12\]"):
        run(use())


def test_a_broker_that_gives_an_epoch_with_each_transaction_adds_queues_and_groups_itself() -> None:
    over = {"error_code": 0, "producer_id": 50, "producer_epoch": 4}
    network = serving(produce=[say.produced(51), say.produced(), say.produced()], end_txn=over)

    async def use() -> None:
        one = create(Options(version="4.1.0")).transactions(network, "c", id="t")  # type: ignore[arg-type]
        await one.take_over()
        for _ in range(2):
            assert (await one.begin()).value["epoch"] in (3, 4)
            await one.send(QUEUE, "0A", b"a")
            await one.commit_offsets("g", {QUEUE: 4})
            await one.end(commit=True)

    run(use())
    assert names(network) == [
        "init_producer_id",
        *("produce", "produce", "txn_offset_commit", "end_txn"),
        *("produce", "txn_offset_commit", "end_txn"),
    ], "what is refused because the end before is under way is sent again"
    asked = [one for one in network.requests if type(one).__name__ in ("EndTxnRequest", "TxnOffsetCommitRequest")]
    assert [(one.__version__, one.producer_epoch) for one in asked] == [(5, 3), (5, 3), (5, 4), (5, 4)]


# Members of groups


def test_a_member_has_what_it_was_given_once_it_knows_where_to_begin_and_gives_back_what_is_taken() -> None:
    beats = [say.beaten(1, 0, 1), say.beaten(1, changes=False), say.beaten(2, 1), say.beaten(2, changes=False)]
    network = serving(
        consumer_group_heartbeat=beats, offset_fetch=[say.offsets(5), say.offsets(0, code=14), say.offsets(9)]
    )

    async def use() -> None:
        member = create(Options(protocol="consumer")).group_member(network, "c", "g")  # type: ignore[arg-type]
        joined = await member.join(["storm"])
        assert joined.value == {"queues": [0], "generation": 1, "rejoin": False, "following": {"0": 5}}
        assert (await member.heartbeat()).value["queues"] == [0, 1], "its offset could be had this time"
        assert (await member.heartbeat()).value == {
            "queues": [1],
            "generation": 2,
            "rejoin": False,
            "following": {"1": 9},
        }
        await member.heartbeat()

    run(use())
    told = [one.topic_partitions for one in network.requests if type(one).__name__ == "ConsumerGroupHeartbeatRequest"]
    assert [None if one is None else [part.partitions for part in one] for one in told] == [
        [],
        [(0,)],
        [(0, 1)],
        [(1,)],
    ]


@pytest.mark.parametrize("code", sorted(IS_OVER))
def test_a_member_that_was_put_out_is_told_to_join_again(code: int) -> None:
    network = serving(
        consumer_group_heartbeat=[say.beaten(1, 0), say.beaten(1, code=code)], offset_commit=say.stored(code)
    )

    async def use(call: str) -> None:
        member = create(Options(protocol="consumer")).group_member(network, "c", "g")  # type: ignore[arg-type]
        await member.join(["storm"])
        await (member.commit({QUEUE: 4}) if call == "commit" else member.heartbeat())

    with pytest.raises(Failed) as raised:
        run(use("heartbeat"))
    assert raised.value.answer.value == {"error": code, "fenced": True}


def test_commits_carry_the_members_epoch_and_leaving_gives_all_back() -> None:
    beats = [say.beaten(1, 0), say.beaten(-1, changes=False)]
    network = serving(consumer_group_heartbeat=beats, offset_commit=[say.stored(), say.stored(113)])

    async def use() -> None:
        member = create(Options(protocol="consumer")).group_member(network, "c", "g")  # type: ignore[arg-type]
        await member.join(["storm"])
        await member.commit({QUEUE: 4})
        with pytest.raises(Failed) as raised:
            await member.commit({QUEUE: 4})
        assert raised.value.answer.value == {"error": 113, "fenced": True}
        assert (await member.leave()).value["following"] == {}

    run(use())
    commit = next(one for one in network.requests if type(one).__name__ == "OffsetCommitRequest")
    assert (commit.member_id, commit.generation_id_or_member_epoch) == ("member-1", 1)
    assert network.requests[-1].member_epoch == -1


def test_a_classic_member_gets_an_id_first_and_the_leader_divides_the_queues() -> None:
    network = serving(
        join_group=[say.joined(code=79), say.joined(4, "member-0", "member-1")],
        sync_group=[say.given(1), say.given(0, 2)],
        offset_fetch=[say.offsets(5), say.offsets(0, code=14), say.offsets(9)],
        heartbeat=[say.done(), say.done(27)],
    )

    async def use() -> None:
        member = create(Options()).group_member(network, "c", "g")  # type: ignore[arg-type]
        joined = await member.join(["storm"])
        assert joined.value == {"queues": [1], "generation": 4, "rejoin": False, "following": {"1": 5}}
        assert (await member.heartbeat()).value["queues"] == [1]
        again = await member.heartbeat()
        assert (again.value["rejoin"], again.value["queues"]) == (True, [1]), "its own until it joins again"

    run(use())
    joins = [one for one in network.requests if type(one).__name__ == "JoinGroupRequest"]
    assert [one.member_id for one in joins] == ["", "member-1"]
    sync = next(one for one in network.requests if type(one).__name__ == "SyncGroupRequest")
    assert (sync.generation_id, sync.member_id) == (4, "member-1")
    divided = {one.member_id: wire.unpack(ASSIGNMENT, one.assignment).assigned_partitions for one in sync.assignments}
    assert {one: [part.partitions for part in parts] for one, parts in divided.items()} == {
        "member-0": [(0, 2)],
        "member-1": [(1,)],
    }


@pytest.mark.parametrize("request_name", ["heartbeat", "offset_commit", "leave_group", "sync_group"])
@pytest.mark.parametrize("code", [22, 25])
def test_a_classic_member_that_was_put_out_is_told_to_join_again(request_name: str, code: int) -> None:
    refused = {"offset_commit": say.stored(code), "leave_group": say.left(code), "sync_group": say.given(code=code)}
    network = serving(
        **{
            "join_group": say.joined(4),
            "sync_group": say.given(1),
            "heartbeat": say.done(code),
            **({request_name: refused[request_name]} if request_name in refused else {}),
        }
    )

    async def use() -> None:
        member = create(Options()).group_member(network, "c", "g")  # type: ignore[arg-type]
        await member.join(["storm"])
        call = {"offset_commit": lambda: member.commit({QUEUE: 4}), "leave_group": member.leave}
        await call.get(request_name, member.heartbeat)()

    with pytest.raises(Failed) as raised:
        run(use())
    assert raised.value.answer.value == {"error": code, "fenced": True}


def test_a_member_that_is_not_known_any_more_joins_as_a_new_one() -> None:
    network = serving(
        join_group=[say.joined(4), say.joined(code=25), say.joined(code=79), say.joined(6), say.joined(7)],
        sync_group=[say.given(1), say.given(bad=b"\0\0\xff"), say.given(bad=b"")],
    )

    async def use() -> None:
        member = create(Options()).group_member(network, "c", "g")  # type: ignore[arg-type]
        await member.join(["storm"])
        with pytest.raises(Unknown, match="sync_group: no consumer_protocol_assignment"):
            await member.join(["storm"])
        assert member.positions == {}  # type: ignore[attr-defined]
        assert (await member.join(["storm"])).value["queues"] == []

    run(use())
    joins = [one.member_id for one in network.requests if type(one).__name__ == "JoinGroupRequest"]
    assert joins == ["", "member-1", "", "member-1", "member-1"]


@pytest.mark.parametrize("answer", [None, b"", say.joined(code=24), say.joined(code=15)])
def test_a_join_that_does_not_end_well_has_given_nothing(answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drivers.kafka.classic_protocol.wait_s", lambda: 0.2)
    member = create(Options()).group_member(serving(join_group=answer), "c", "g")  # type: ignore[arg-type]
    with pytest.raises(Failed, match="join_group"):
        run(member.join(["storm"]))
