"""The reference driver against scripted nodes: what an answer means, who is what, and what is collected."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import reference
from chaos import events
from chaos.driver import Disconnected, Profile
from chaos.ops import Answer, Failed, QueueRef, Unknown, message_id
from drivers.reference import controllers
from drivers.reference.driver import EVENTS, Options, Reference, create
from reference.broker import records
from reference.objectstore.faults import TierFault
from reference.objectstore.gateway import StoreLost
from reference.tier import manifest, objects
from reference.tier.interface import Stored, TopicQueue
from reference.wire.codes import Request, Response
from reference.wire.command import Command

QUEUE = QueueRef(index=2, topic="storm", queue_id=2)
ROUTE = {"brokerDatas": [{"brokerName": "broker-a", "brokerAddrs": {"0": "broker-1", "2": "broker-0"}}]}

Script = Callable[[str, Command], Command | Exception]


class ScriptedNetwork:
    """Answers every request from a script, and remembers who asked whom for what."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.asked: list[tuple[str, str, Command]] = []
        self._now_ns = 0

    def now_ns(self) -> int:
        self._now_ns += 1_000_000_000
        return self._now_ns

    def connect(self, client: str, node: str) -> ScriptedConnection:
        return ScriptedConnection(self, client, node)

    def answer(self, client: str, node: str, message: Command) -> Command:
        self.asked.append((client, node, message))
        answer = self._script(node, message)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def count(self, code: int) -> int:
        return sum(message.code == code for _, _, message in self.asked)


class ScriptedConnection:
    def __init__(self, network: ScriptedNetwork, client: str, node: str) -> None:
        self._network, self._client, self._node = network, client, node

    async def request(self, message: Command, timeout_s: float) -> Command:
        return self._network.answer(self._client, self._node, message)

    def oneway(self, message: Command) -> None: ...

    def close(self) -> None: ...


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(coroutine)


def as_json(value: object, **fields: str) -> Command:
    return Command(code=0, flags=1, fields=fields, body=json.dumps(value).encode())


def broker_says(answer: Command | Exception) -> ScriptedNetwork:
    """A route to broker-1, and this answer from there to everything."""

    def script(node: str, message: Command) -> Command | Exception:
        return as_json(ROUTE) if node == "nameserver-0" else answer

    return ScriptedNetwork(script)


def says(code: int, remark: str = "", body: bytes = b"", **fields: str) -> Command:
    return Command(code=code, flags=1, remark=remark, fields=fields, body=body)


def system(**options: Any) -> Reference:
    return create(Options(**options))


def send(network: ScriptedNetwork) -> Answer:
    answer: Answer = run(system().client(network, "producer-0").send(QUEUE, "0" * 31 + "7", b"body"))
    return answer


def test_an_acknowledged_send_tells_where_the_message_stands() -> None:
    network = broker_says(says(0, queueOffset="5", position="900", epoch="3", incarnation="2"))
    assert send(network) == Answer(node="broker-1", incarnation=2, epoch=3, queue=2, offset=5, position=900)
    client, node, message = network.asked[-1]
    assert (client, node, message.code, message.fields["e"]) == ("producer-0", "broker-1", 310, "2")
    assert records.message_number(message.fields["i"].encode()) == 7


@pytest.mark.parametrize(
    "answer",
    [
        says(Response.SYSTEM_ERROR, "[1] in-sync replicas not enough"),
        says(Response.SERVICE_NOT_AVAILABLE),
        says(Response.SYSTEM_BUSY),
        says(Response.TOPIC_NOT_EXIST),
        says(Response.MESSAGE_ILLEGAL),
        Disconnected("refused", sent=False),
    ],
)
def test_a_send_that_surely_was_not_stored_has_failed(answer: Command | Exception) -> None:
    with pytest.raises(Failed):
        send(broker_says(answer))


@pytest.mark.parametrize(
    "answer",
    [
        says(Response.FLUSH_DISK_TIMEOUT),
        says(Response.SLAVE_NOT_AVAILABLE),
        says(Response.FLUSH_SLAVE_TIMEOUT),
        says(Response.SYSTEM_ERROR, "java.lang.NullPointerException"),
        says(4711),
        TimeoutError(),
        Disconnected("reset", sent=True),
    ],
)
def test_a_send_that_may_have_been_stored_is_unclear(answer: Command | Exception) -> None:
    with pytest.raises(Unknown):
        send(broker_says(answer))


def test_without_a_route_nothing_was_sent() -> None:
    for answer in (TimeoutError(), says(Response.TOPIC_NOT_EXIST), as_json({"brokerDatas": []})):
        network = ScriptedNetwork(lambda node, message, answer=answer: answer)  # type: ignore[misc]
        with pytest.raises(Failed):
            send(network)
        assert network.count(Request.SEND_MESSAGE_V2) == 0


def test_the_route_is_kept_until_something_fails() -> None:
    answers = iter([says(0, queueOffset="0"), says(0, queueOffset="1"), TimeoutError(), says(0, queueOffset="2")])

    def script(node: str, message: Command) -> Command | Exception:
        return as_json(ROUTE) if node.startswith("nameserver") else next(answers)

    network = ScriptedNetwork(script)
    client = system(nameservers=2).client(network, "producer-0")

    async def four() -> None:
        await client.send(QUEUE, "1", b"")
        await client.send(QUEUE, "2", b"")
        with pytest.raises(Unknown):
            await client.send(QUEUE, "3", b"")
        await client.send(QUEUE, "4", b"")

    run(four())
    asked = [node for _, node, message in network.asked if message.code == Request.GET_ROUTEINFO_BY_TOPIC]
    assert asked == ["nameserver-0", "nameserver-1"]


def record(offset: int, body: bytes, key: str = "") -> bytes:
    properties = f"UNIQ_KEY\x01{key}\x02".encode() if key else b""
    return records.encode(
        topic="storm", queue_id=2, offset=offset, position=offset * 300, body=body, properties=properties
    )


def pull(answer: Command | Exception, **options: Any) -> tuple[Answer, ScriptedNetwork]:
    network = broker_says(answer)
    return run(system().client(network, "c").pull(QUEUE, 4, limit=8, **options)), network


def test_a_pull_delivers_messages_by_id_and_content() -> None:
    body = record(4, b"four", f"{message_id(2, 7):032X}") + record(5, b"five")
    told, network = pull(
        says(0, body=body, nextBeginOffset="6", minOffset="1", maxOffset="9", source="tier"),
        max_bytes=4096,
        node="broker-2",
        source="tier",
    )
    assert [(one.offset, one.message) for one in told.messages] == [(4, message_id(2, 7)), (5, -1)]
    assert told.messages[0].hash == records.body_hash(b"four")
    assert (told.minimum, told.maximum, told.following, told.source, told.node) == (1, 9, 6, "tier", "broker-2")
    fields = network.asked[0][2].fields
    assert fields["anyReplica"] == "true" and fields["demandSource"] == "tier" and fields["queueOffset"] == "4"
    assert (fields["maxMsgNums"], fields["maxMsgBytes"], told.size) == ("8", "4096", len(body))


def test_the_end_is_an_answer_a_moved_beginning_a_refusal_and_damage_unclear() -> None:
    told, _ = pull(says(Response.PULL_NOT_FOUND, minOffset="0", maxOffset="4", nextBeginOffset="4"))
    assert told.messages == () and told.maximum == 4
    with pytest.raises(Failed) as moved:
        pull(says(Response.PULL_OFFSET_MOVED, minOffset="0", maxOffset="40", nextBeginOffset="12"))
    assert (moved.value.answer.minimum, moved.value.answer.following) == (0, 12)
    with pytest.raises(Failed):
        pull(says(Response.PULL_RETRY_IMMEDIATELY))
    damaged = bytearray(record(4, b"four"))
    damaged[90] ^= 1
    with pytest.raises(Unknown, match="damaged"):
        pull(says(0, body=bytes(damaged)))


def test_consumer_offsets_are_read_and_written() -> None:
    client = system().client(broker_says(says(0, offset="17", epoch="3")), "c")
    assert run(client.committed(QUEUE, "g")).offset == 17
    assert run(client.commit(QUEUE, "g", 18)).offset == 18
    assert run(system().client(broker_says(says(Response.QUERY_NOT_FOUND)), "c").committed(QUEUE, "g")).offset == -1
    with pytest.raises(Unknown):
        run(system().client(broker_says(says(Response.FLUSH_SLAVE_TIMEOUT)), "c").commit(QUEUE, "g", 18))


# Who is what


def snapshots(**changes: Any) -> dict[str, dict[str, Any]]:
    """A healthy cluster's DESCRIBE answers; ``changes`` replace parts of nodes (``broker_0={…}``)."""
    group = {
        "master": "broker-1",
        "epoch": 3,
        "set": ["broker-0", "broker-1", "broker-2"],
        "set_epoch": 7,
        "brokers": {"broker-0": 2, "broker-1": 1, "broker-2": 3},
        "alive": ["broker-0", "broker-1", "broker-2"],
    }
    told: dict[str, dict[str, Any]] = {
        f"controller-{n}": {"role": "follower", "term": 2, "leader": "controller-1", "commit": 9, "groups": {}}
        for n in range(3)
    }
    voters = ["controller-1", "controller-0", "controller-2"]
    told["controller-1"] |= {"role": "leader", "voters": voters, "groups": {"broker-a": group}}
    for n in range(3):
        told[f"broker-{n}"] = {
            "role": "slave",
            "epoch": 3,
            "master": "broker-1",
            "end": 100,
            "ready": True,
            "queues": {},
        }
    told["broker-1"]["role"] = "master"
    told["nameserver-0"] = {"routes": {"broker-a": {"master": "broker-1", "epoch": 3, "brokers": {}}}}
    for name, change in changes.items():
        node = name.replace("_", "-")
        told[node] = told[node] | change if change is not None else {}
    return told


def network_of(told: dict[str, dict[str, Any]]) -> ScriptedNetwork:
    def script(node: str, message: Command) -> Command | Exception:
        return as_json(told[node]) if told[node] else TimeoutError()

    return ScriptedNetwork(script)


def test_a_healthy_cluster_is_settled() -> None:
    view = run(system().view(network_of(snapshots())))
    (group,) = view.groups
    assert view.settled and (group.leader, group.epoch, view.controller_leader) == ("broker-1", 3, "controller-1")
    assert group.in_sync == group.replicas == ("broker-0", "broker-1", "broker-2") and view.tier == ("store-0",)


@pytest.mark.parametrize(
    "change",
    [
        {"broker_0": None},
        {"controller_2": None},
        {"broker_0": {"epoch": 2}},
        {"broker_2": {"role": "fenced"}},
        {"broker_1": {"role": "slave"}},
        {"broker_1": {"ready": False}},
        {"nameserver_0": {"routes": {}}},
        {"controller_1": {"role": "follower"}},
        {"controller_1": {"voters": ["controller-0", "controller-1"]}},
        {"controller_0": {"commit": 8}},
    ],
)
def test_a_cluster_with_anything_amiss_is_not_settled(change: dict[str, Any]) -> None:
    assert not run(system().view(network_of(snapshots(**change)))).settled


def test_without_controllers_the_brokers_own_word_counts() -> None:
    gone = {f"controller_{n}": None for n in range(3)}
    view = run(system().view(network_of(snapshots(**gone))))
    (group,) = view.groups
    assert (group.leader, group.epoch, view.controller_leader, view.settled) == ("broker-1", 3, "", False)


def test_polls_are_recorded_as_intervals() -> None:
    rows: list[dict[str, Any]] = []

    def record(kind: str, **columns: Any) -> int:
        rows.append({"kind": kind, **columns})
        return len(rows) - 1

    run(system().view(network_of(snapshots(broker_2=None)), record))
    answers = [row for row in rows if row["type"] == "ok"]
    assert len(answers) == 6 and all(rows[row["op"]]["node"] == row["node"] for row in answers)
    (state,) = [row for row in answers if row["node"] == "broker-1"]
    assert state["f"] == "state" and state["epoch"] == 3 and state["value"]["role"] == "master"
    (route,) = [row for row in answers if row["f"] == "route"]
    assert route["epoch"] == 3 and route["value"]["master"] == "broker-1"


def test_a_switch_waits_for_the_new_master_and_a_refusal_has_failed() -> None:
    told = snapshots()

    def script(node: str, message: Command) -> Command | Exception:
        if message.code == Request.CONTROLLER_ELECT_MASTER:
            if message.fields["brokerId"] != "3":
                return says(Response.CONTROLLER_ELECT_MASTER_FAILED, "not in sync")
            told["broker-2"] |= {"role": "master", "epoch": 4}
            return says(0, masterEpoch="4")
        return as_json(told[node])

    evidence = run(system().switch(ScriptedNetwork(script), "broker-2", "broker-a"))
    assert evidence == {"from": "broker-1", "to": "broker-2", "epoch": 4}
    with pytest.raises(Failed, match="not in sync"):
        run(system().switch(ScriptedNetwork(script), "broker-0", "broker-a"))


def test_a_switch_that_nobody_confirms_is_unclear() -> None:
    def script(node: str, message: Command) -> Command | Exception:
        if message.code == Request.CONTROLLER_ELECT_MASTER:
            return says(0, masterEpoch="4")
        return as_json(snapshots()[node])

    with pytest.raises(Unknown, match="did not say so"):
        run(system().switch(ScriptedNetwork(script), "broker-0", "broker-a"))


def test_a_newcomer_counts_from_its_welcome_on_and_is_waited_for() -> None:
    told, asked = snapshots(), -1000

    def script(node: str, message: Command) -> Command | Exception:
        nonlocal asked
        asked += 1
        if asked > 6:
            told["controller-1"]["groups"]["broker-a"]["brokers"]["broker-3"] = 4
        return as_json(told[node]) if told.get(node) else TimeoutError()

    it, network = system(), ScriptedNetwork(script)
    before = run(it.view(network))
    assert before.settled and before.newcomers == tuple(f"broker-{number}" for number in range(3, 9))
    assert it.broker("broker-3", "") == replace(it.cluster("").nodes[-1], name="broker-3")
    asked = 0
    assert run(it.welcome(network, "broker-3")) == {"joined": True, "id": 4, "in_sync": False} and asked == 9
    after = run(it.view(network))
    assert not after.settled and after.brokers[-1] == "broker-3" and after.newcomers[0] == "broker-4"
    told["broker-3"] = told["broker-0"]
    told["controller-1"]["groups"]["broker-a"]["set"].append("broker-3")
    assert run(it.view(network)).settled
    assert it.promising(it.profile()).brokers == before.brokers, "another cluster has three"


def test_a_newcomer_that_its_group_does_not_take_in_is_still_one_of_the_brokers() -> None:
    it = system()
    assert run(it.welcome(network_of(snapshots()), "broker-3")) == {"joined": False}
    assert it.brokers[-1] == "broker-3"


# What is collected


def tiered_store() -> dict[str, bytes]:
    """One manifest with one object of two records, and an orphan."""
    stored = [
        Stored(
            queue=2, offset=o, position=o * 300, epoch=3, hash=records.body_hash(b"x"), data=record(o, b"x", f"{o:X}")
        )
        for o in (0, 1)
    ]
    content = objects.encode(2, stored)
    key = objects.DataName(queue=2, base=0, epoch=3, generation=1, attempt=1).key
    stamp = manifest.Stamp(epoch=3, generation=1, attempt=1, writer="broker-1", confirm=900)
    first = manifest.Manifest.first(TopicQueue(index=2, topic="storm", queue_id=2), 0, stamp)
    segment = manifest.Segment(
        key=key, base=0, count=2, bytes=len(content), hash=objects.content_hash(content), epoch=3
    )
    full = first.append(segment, stored[-1].end, stamp)
    return {
        objects.manifest_key(2): full.encode(),
        key: content,
        objects.DataName(queue=2, base=2, epoch=3, generation=1, attempt=9).key: b"left over",
    }


STATE = {
    "first": 0, "end": 600, "confirm": 600, "role": "slave", "epoch": 3, "epochs": [[3, 0]], "minimums": {"2": 0},
    "maximums": {"2": 2}, "views": [{"queue": 2, "version": 2, "offset": 2, "position": 600, "epoch": 3, "hash": 5}],
    "offsets": {"g": {"2": 1}}, "topics": {"storm": {"queues": 4, "first_index": 0}},
}  # fmt: skip


def collecting(store: dict[str, bytes], *, mute: str = "", page: int = 1000, forgets: bool = False) -> ScriptedNetwork:
    """A store that lists ``page`` keys at a time; if it ``forgets``, the first ones again and again."""

    def script(node: str, message: Command) -> Command | Exception:
        fields = message.fields
        if node == mute:
            return TimeoutError()
        if message.code == Request.STORE_LIST:
            after = "" if forgets else fields.get("after", "")
            keys = sorted(key for key in store if key > after)
            listed = as_json([[key, len(store[key])] for key in keys[:page]])
            return replace(listed, fields={"more": "true" if len(keys) > page else "false"})
        if message.code == Request.STORE_GET:
            found = store.get(fields["key"])
            return says(Response.STORE_ABSENT) if found is None else says(0, body=found)
        if message.code == Request.READ_STATE:
            return as_json(STATE)
        slices = {
            "-1": {"records": [[3, 0, 300, 2, 0, 0, 5, ""]], "next": 300, "end": 600},
            "300": {"records": [[3, 300, 300, -1, 0, -1, 6, "offsets"]], "next": 600, "end": 600},
        }
        return as_json(slices[fields["position"]])

    return ScriptedNetwork(script)


def collect(network: ScriptedNetwork) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []

    def record(kind: str, **columns: Any) -> int:
        rows.append({"kind": kind, **columns})
        return len(rows) - 1

    run(system(brokers=2).collect(network, record))
    return rows


def test_whole_logs_and_the_tier_are_collected() -> None:
    rows = collect(collecting(tiered_store()))
    logs = [row for row in rows if row["f"] == "log" and row["node"] == "broker-0"]
    assert [(row["position"], row["queue"], row["value"].get("system")) for row in logs] == [
        (0, 2, None),
        (300, -1, "offsets"),
    ]
    assert [row["offset"] for row in rows if row["f"] == "view"] == [2, 2]
    (kept,) = [row for row in rows if row["f"] == "manifest"]
    assert (kept["offset"], kept["value"]["version"], kept["epoch"]) == (2, 2, 3)
    assert [(row["offset"], row["message"]) for row in rows if row["f"] == "tiered"] == [(0, 0), (1, 1)]
    assert len([row for row in rows if row["f"] == "orphan"]) == 1
    assert [row["node"] for row in rows if row["f"] == "complete"] == ["broker-0", "broker-1", "store-0"]


def test_the_tier_is_listed_page_by_page() -> None:
    assert collect(collecting(tiered_store(), page=1)) == collect(collecting(tiered_store()))
    endless = collect(collecting(tiered_store(), page=1, forgets=True))
    assert [row["node"] for row in endless if row["f"] == "complete"] == ["broker-0", "broker-1"]


def test_what_could_not_be_read_to_its_end_is_not_complete() -> None:
    silent = collect(collecting(tiered_store(), mute="broker-1"))
    assert [row["node"] for row in silent if row["f"] == "complete"] == ["broker-0", "store-0"]
    store = tiered_store()
    del store[next(key for key in sorted(store) if key.endswith("-1"))]
    torn = collect(collecting(store))
    assert [row["node"] for row in torn if row["f"] == "complete"] == ["broker-0", "broker-1"]


def test_the_profile_reaches_the_nodes() -> None:
    profile = Profile(flush="async", acks="master", unclean=True, min_in_sync=1)
    it = system().promising(profile)
    assert it.profile() == profile
    nodes = {node.name: node for node in it.cluster("").nodes}
    assert nodes["broker-0"].options["acks"] == "master" and nodes["broker-0"].options["min_in_sync"] == 1
    assert nodes["controller-0"].options["unclean"] is True
    assert all(node.mutant == "sends-unchecked" for node in it.cluster("sends-unchecked").nodes)


def test_it_tells_all_events_that_its_nodes_trace_and_no_others():
    root = Path(reference.__file__).parent
    split = root / "split"  # another system, with a driver of its own
    sources = "".join(path.read_text() for path in root.rglob("*.py") if split not in path.parents)
    traced = {getattr(events, name).f for name in re.findall(r"\bevents\.(\w+)", sources)} | {TierFault.f, StoreLost.f}
    assert sorted(EVENTS) == sorted(traced)
    documented = (Path(__file__).parents[2] / "docs" / "history.md").read_text()
    assert all(f"`{event}`" in documented for event in EVENTS)


@pytest.mark.parametrize(("peers", "fails"), [("controller-0:x;controller-1:x", False), ("controller-2:x", True)])
def test_a_removal_that_the_leader_still_counts_is_none(
    monkeypatch: pytest.MonkeyPatch, peers: str, fails: bool
) -> None:
    async def answer(network: Any, leader: str, code: Request, fields: Mapping[str, str]) -> Command:
        return Command(code=Response.SUCCESS, fields={"peers": peers})

    monkeypatch.setattr(controllers, "_request", answer)
    removal = controllers.remove(network_of(snapshots()), "controller-1", "controller-2")
    if fails:
        with pytest.raises(Failed, match="still counts on its vote"):
            run(removal)
    else:
        assert run(removal)["voters"] == ["controller-0", "controller-1"]
