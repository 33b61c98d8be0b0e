"""RIP-18's metadata: entries of the controllers' log, and views that are prefixes of it and never go back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from chaos.node import Malformed, NodeSpec
from reference import build
from reference.metadata.catalog import (
    ANY,
    KINDS,
    Catalog,
    Entry,
    check_change,
    content,
    read_change,
    read_entries,
    split,
)
from reference.metadata.follower import Follower, View, WatchAnswer
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from tests.damage import altered, json_values
from tests.reference.raftnet import World

CONTROLLERS = ("controller-0", "controller-1", "controller-2")
VIEWERS = ("nameserver-0", "nameserver-1")


def world(seed: int = 1, **options: Any) -> World:
    def make(name: str) -> Any:
        role = name.partition("-")[0]
        told = {"controllers": CONTROLLERS, "metadata": True, **(options if role == "controller" else {})}
        return lambda: build(NodeSpec(name=name, role=role, package="reference", options=told))

    made = World(seed, {name: make(name) for name in (*CONTROLLERS, *VIEWERS)})
    made.run(3000)
    return made


def leader(it: World) -> str:
    return next(name for name in CONTROLLERS if name in it.envs and it.nodes[name].raft.leads_committed)


def ask(it: World, node: str, code: Request, body: bytes = b"", **fields: str) -> Command:
    it.transmit("client", node, Command(code=code, fields=fields, body=body))
    it.inbox.clear()
    it.run(2000, until=lambda: any(to == "client" for _, to, _ in it.inbox))
    return next(answer for _, to, answer in it.inbox if to == "client")


def put(it: World, queues: int | None, expected: int = -1, name: str = "t", node: str = "") -> Command:
    fields = {"kind": "topic", "name": name, "expectedVersion": str(expected)}
    body = b"" if queues is None else json.dumps({"queues": queues}).encode()
    return ask(it, node or leader(it), Request.METADATA_PUT, body, **fields)


def get(it: World, node: str, name: str = "t") -> tuple[int, object]:
    answer = ask(it, node, Request.METADATA_GET, kind="topic", name=name)
    assert answer.code == 0, answer.remark
    return int(answer.fields["version"]), json.loads(answer.body) if answer.body else None


def view(it: World, node: str) -> View:
    found: View = it.nodes[node].follower.view
    return found


def test_entries_are_made_changed_and_deleted_with_versions_and_every_node_knows() -> None:
    it = world()
    assert put(it, 1, 0).fields == {"version": "1", "revision": "1"}
    assert put(it, 2, 0).code == Response.METADATA_CONFLICT
    assert put(it, 2, 1).fields == {"version": "2", "revision": "2"}
    assert [get(it, node) for node in CONTROLLERS] == [(2, {"queues": 2})] * 3
    assert put(it, None, 2).fields == {"version": "3", "revision": "3"}
    assert put(it, 4, 0).code == Response.METADATA_CONFLICT, "a deleted entry's versions go on"
    it.run(100)
    assert [get(it, node) for node in (*CONTROLLERS, *VIEWERS)] == [(3, None)] * 5
    assert get(it, "nameserver-0", "u") == (0, None)
    follower = next(name for name in CONTROLLERS if name != leader(it))
    assert put(it, 1, node=follower).code == Response.CONTROLLER_NOT_LEADER


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        ({"kind": "topic"}, b'{"queues": 1}'),
        ({"kind": "tpoic", "name": "t"}, b'{"queues": 1}'),
        ({"kind": "topic", "name": "t"}, b'{"queues": "1"}'),
        ({"kind": "topic", "name": "t"}, b'{"queues": 1, "perm": 6}'),
        ({"kind": "topic", "name": "t"}, b"[]"),
        ({"kind": "route", "name": "g"}, json.dumps({"master": "x" * 256, "epoch": 1}).encode()),
        ({"kind": "topic", "name": "t", "expectedVersion": "-2"}, b'{"queues": 1}'),
    ],
)
def test_what_no_entry_may_hold_is_refused_and_logs_nothing(fields: dict[str, str], body: bytes) -> None:
    it = world()
    assert ask(it, leader(it), Request.METADATA_PUT, body, **fields).code == Response.INVALID_PARAMETER
    assert [row for row in it.traces if row[2] == "metadata"] == []


def test_a_name_server_follows_while_controllers_and_it_are_cut_off_killed_and_restarted() -> None:
    it = world(7)
    for number in range(1, 30):
        if number % 7 == 0:
            it.isolate(it.rng.choice((*CONTROLLERS, *VIEWERS)))
            it.run(400)
            it.heal()
            it.run(2500)
        if number % 10 == 5:
            victim = it.rng.choice((*CONTROLLERS, *VIEWERS))
            it.crash(victim)
            it.run(300)
            it.heal()
            it.run(2500)
        assert put(it, number).code == 0
    it.run(3000)
    for node in VIEWERS:
        assert view(it, node).revision == 29 and get(it, node) == (29, {"queues": 29})
    told = {tuple(row[3].items()) for row in it.traces if row[2] == "metadata"}
    assert len(told) == 29, "all controllers say the same of each revision"


def test_who_lacks_changes_that_are_forgotten_is_told_everything() -> None:
    it = world(metadata_kept=2)
    put(it, 1)
    put(it, 1, name="u")
    it.run(100)
    it.isolate("nameserver-0")
    it.run(3000)
    for number in range(5):
        put(it, 2 + number)
    assert view(it, "nameserver-0").revision == 2
    it.heal()
    it.run(3000)
    assert view(it, "nameserver-0").entries == view(it, "nameserver-1").entries
    assert get(it, "nameserver-0") == (6, {"queues": 6}) and get(it, "nameserver-0", "u") == (1, {"queues": 1})


def test_a_name_server_that_was_restarted_is_never_told_less_than_it_knew() -> None:
    """It asks a controller that is cut off from the others, and isn't answered until that one has caught up."""
    it = world()
    put(it, 1)
    lagging = next(name for name in CONTROLLERS if name != leader(it))
    for other in CONTROLLERS:
        it.block(lagging, other) if other != lagging else None
    put(it, 2)
    it.run(200)
    assert view(it, "nameserver-0").revision == 2
    it.crash("nameserver-0")
    it.block("nameserver-0", next(name for name in CONTROLLERS if name not in (lagging, leader(it))))
    it.block("nameserver-0", leader(it))
    it.start("nameserver-0")
    it.run(5000)
    answer = ask(it, "nameserver-0", Request.METADATA_GET, kind="topic", name="t")
    assert answer.code == Response.SYSTEM_BUSY
    it.heal()
    it.run(5000)
    assert get(it, "nameserver-0") == (2, {"queues": 2})


def test_an_election_changes_the_route_at_its_place_in_the_log_and_nobody_else_does() -> None:
    it = world()
    fields = {"clusterName": "c", "brokerName": "g"}
    at = leader(it)
    ask(it, at, Request.CONTROLLER_APPLY_BROKER_ID, appliedBrokerId="1", registerCheckCode="b;1", **fields)
    ask(it, at, Request.CONTROLLER_REGISTER_BROKER, brokerId="1", brokerAddress="b", generation="1", **fields)
    ask(it, at, Request.BROKER_HEARTBEAT, brokerId="1", brokerAddr="b", maxOffset="0", generation="1", **fields)
    assert ask(it, at, Request.CONTROLLER_ELECT_MASTER, brokerId="1", **fields).code == 0
    it.run(50)
    read = ask(it, "nameserver-0", Request.METADATA_GET, kind="route", name="g")
    assert json.loads(read.body) == {"master": "b", "epoch": 1}
    elected = [row[3]["position"] for row in it.traces if row[2] == "applied" and row[3]["entry"]["type"] == "elect"]
    changed = [row[3]["position"] for row in it.traces if row[2] == "metadata"]
    assert set(elected) == set(changed) and len(set(changed)) == 1
    body = json.dumps({"master": "x", "epoch": 9}).encode()
    assert ask(it, at, Request.METADATA_PUT, body, kind="route", name="g").code == Response.NO_PERMISSION
    it.run(4000)  # no heartbeat comes any more
    read = ask(it, "nameserver-0", Request.METADATA_GET, kind="route", name="g")
    assert json.loads(read.body) == {"master": "", "epoch": 2}


def register(it: World, node: str, broker: str, id: int, epoch: int) -> None:
    version = {"dataVersion": {"stateVersion": epoch}, "topicConfigTable": {"t": {"readQueueNums": 2}}}
    body = json.dumps({"topicConfigSerializeWrapper": version}).encode()
    ask(it, node, Request.REGISTER_BROKER, body, brokerName="g", brokerAddr=broker, brokerId=str(id), clusterName="c")


def route(it: World, node: str) -> tuple[int, dict[str, str]]:
    answer = ask(it, node, Request.GET_ROUTEINFO_BY_TOPIC, topic="t")
    found = json.loads(answer.body)["brokerDatas"][0]["brokerAddrs"] if answer.body else {}
    return it.nodes[node].routes.groups["g"].epoch, found


def test_a_name_server_learns_of_elections_from_the_log_before_brokers_register() -> None:
    it = world()
    fields, at = {"clusterName": "c", "brokerName": "g"}, leader(it)
    for id, name in ((1, "a"), (2, "b")):
        ask(
            it, at, Request.CONTROLLER_APPLY_BROKER_ID, appliedBrokerId=str(id), registerCheckCode=f"{name};1", **fields
        )
        ask(it, at, Request.CONTROLLER_REGISTER_BROKER, brokerId=str(id), brokerAddress=name, generation="1", **fields)

    def beat(*names: str) -> None:
        for name in names:
            id = str("ab".index(name) + 1)
            told = {"brokerId": id, "brokerAddr": name, "maxOffset": "0", "generation": "1"}
            ask(it, leader(it), Request.BROKER_HEARTBEAT, **told, **fields)

    beat("a", "b")
    ask(it, at, Request.CONTROLLER_ELECT_MASTER, brokerId="1", **fields)
    it.run(50)
    register(it, "nameserver-0", "b", 2, 0)
    assert route(it, "nameserver-0") == (1, {"2": "b"})
    register(it, "nameserver-0", "a", 0, 1)
    assert route(it, "nameserver-0") == (1, {"0": "a", "2": "b"})
    beat("a", "b")
    body = json.dumps({"syncStateSet": [1, 2], "syncStateSetEpoch": 1}).encode()
    altered = ask(it, at, Request.CONTROLLER_ALTER_SYNC_STATE_SET, body, masterBrokerId="1", masterEpoch="1", **fields)
    assert altered.code == 0

    def only_b_lives() -> None:
        for _ in range(8):
            it.run(300)
            beat("b")

    only_b_lives()
    epoch, found = route(it, "nameserver-0")
    assert epoch > 1 and found == {"0": "b"}
    it.crash("nameserver-0")
    it.heal()
    only_b_lives()
    register(it, "nameserver-0", "a", 0, 1)  # it doesn't know yet that it was replaced
    register(it, "nameserver-0", "b", 2, 1)
    assert route(it, "nameserver-0") == (epoch, {"0": "b"})


def test_a_controller_begins_anew_at_a_snapshot_with_the_metadata() -> None:
    it = world(snapshot_entries=8)
    away = next(name for name in CONTROLLERS if name != leader(it))
    it.crash(away)
    for number in range(1, 40):
        put(it, number)
    it.heal()
    it.run(5000)
    assert it.nodes[away].raft.log.snapshot_index > 8
    assert it.nodes[away].catalog.entries == it.nodes[leader(it)].catalog.entries
    assert get(it, away) == (39, {"queues": 39})
    it.crash(away)
    it.heal()
    it.run(5000)
    assert get(it, away) == (39, {"queues": 39})


# The parts


def entry(version: int, revision: int, name: str = "t") -> Entry:
    return Entry("topic", name, version, revision, {"queues": version})


def test_a_view_takes_what_follows_and_nothing_twice() -> None:
    it = View()
    assert it.take(WatchAnswer(3, [entry(1, 1)], ()))
    assert it.take(WatchAnswer(5, None, [entry(2, 4), entry(1, 5, "u")])) and it.revision == 5
    assert it.take(WatchAnswer(5, None, [entry(2, 4), entry(1, 5, "u")])) and it.revision == 5
    assert not it.take(WatchAnswer(7, None, [entry(3, 7)])) and it.revision == 5
    assert it.take(WatchAnswer(4, [], ())) and it.revision == 5, "who lags is not believed"


def test_a_snapshot_is_of_one_moment_and_comes_back_whole() -> None:
    catalog = Catalog()
    assert list(catalog.pieces()) == [], "what has no metadata writes the snapshots that it always wrote"
    for number in range(300):
        catalog.put(("topic", f"t-{number}"), {"queues": number})
    pieces = catalog.pieces()
    first = next(pieces)
    catalog.put(("topic", "t-299"), None)
    text = b"{}" + first + b"".join(pieces)
    revision, entries = read_entries(split(text)[1])
    assert revision == 300 and len(entries) == 300 and entries["topic", "t-299"].value == {"queues": 299}
    again = Catalog()
    again.restore(text)
    assert again.since(299) is None and again.revision == 300


@pytest.mark.parametrize(
    "text", [b"x", b'1\n["topic","t",1,2,null]', b'3\n["topic","t",1,1,null]\n["topic","t",1,2,null]']
)
def test_a_damaged_snapshot_is_refused(text: bytes) -> None:
    with pytest.raises(Malformed):
        read_entries(text)


def test_an_entry_of_the_log_is_checked_before_it_is_taken() -> None:
    good = {"op": "metadata", "kind": "owner", "name": "g", "expected": -1, "value": {"broker": "b"}}
    check_change(good)
    for bad in ({"kind": "x"}, {"expected": "1"}, {"name": ""}, {"value": {"broker": 1}}):
        with pytest.raises(Malformed):
            check_change({**good, **bad})


@pytest.mark.parametrize(
    "body", [b"", b'{"changes": [["topic", "t", 0, 1, null]]}', b'{"changes": [["topic", "t", 1, 9, null]]}']
)
def test_an_answer_that_makes_no_sense_is_refused(body: bytes) -> None:
    with pytest.raises(Malformed):
        WatchAnswer.read(Command(code=0, fields={"revision": "3"}, body=body))


def test_a_follower_without_controllers_asks_nobody() -> None:
    it = World(
        1,
        {
            "nameserver-0": lambda: build(
                NodeSpec(name="n", role="nameserver", package="reference", options={"metadata": True})
            )
        },
    )
    it.run(3000)
    assert it.nodes["nameserver-0"].follower.view.revision == -1 and isinstance(
        it.nodes["nameserver-0"].follower, Follower
    )
    assert content(None) == -1 < content({"queues": 1})


def watch(it: World, node: str, after: int) -> None:
    it.inbox.clear()
    it.transmit("client", node, Command(code=Request.METADATA_WATCH, opaque=7, fields={"after": str(after)}))


def told(it: World) -> list[tuple[int, str, list[object]]]:
    """Of each answer the revision, and what it tells."""
    return [
        (int(answer.fields["revision"]), *next(iter(json.loads(answer.body).items())))
        for _, to, answer in it.inbox
        if to == "client" and answer.opaque == 7
    ]


@pytest.mark.parametrize("place", [0, 1])
def test_any_client_is_told_what_comes_after_the_revision_that_it_knows(place: int) -> None:
    it = world()
    node = sorted(CONTROLLERS, key=lambda name: name != leader(it))[place]
    for number in (1, 2, 3):
        put(it, number)
    it.run(100)
    watch(it, node, 1)
    it.run(50)
    changes = [["topic", "t", 2, 2, {"queues": 2}], ["topic", "t", 3, 3, {"queues": 3}]]
    assert told(it) == [(3, "changes", changes)]
    watch(it, node, 3)
    it.run(500)
    assert told(it) == [], "nothing has happened yet"
    it.transmit("x", leader(it), Command(code=Request.METADATA_PUT, fields={"kind": "topic", "name": "t"}))
    it.run(200)
    assert told(it) == [(4, "changes", [["topic", "t", 4, 4, None]])]
    watch(it, node, 4)
    it.run(1200)
    assert told(it) == [(4, "changes", [])], "a poll ends after a second"
    watch(it, node, 9)
    it.run(200)
    assert told(it) == [], "who lags behind the asker waits"
    watch(it, node, -1)
    it.run(200)
    assert told(it) == [(4, "entries", [["topic", "t", 4, 4, None]])]


def test_a_controller_that_knows_no_leader_sends_watchers_away() -> None:
    it = world()
    node = next(name for name in CONTROLLERS if name != leader(it))
    for other in CONTROLLERS:
        it.block(node, other) if other != node else None
    it.run(3000)
    watch(it, node, 0)
    it.run(50)
    assert [answer.code for _, to, answer in it.inbox if to == "client"] == [Response.SYSTEM_BUSY]


def test_who_is_gone_is_told_nothing() -> None:
    it = world()
    node = leader(it)
    watch(it, node, 0)
    it.run(20)
    it.nodes[node].closed(it.envs[node], "client")
    put(it, 1)
    assert told(it) == []


class CatalogMachine(RuleBasedStateMachine):
    """The catalog beside the list of all its changes. A snapshot is of the moment at which it began."""

    KEYS = [(kind, name) for kind in KINDS for name in ("a", "ü b")]
    VALUES = {int: st.integers(0, 9), str: st.text(max_size=3)}

    def __init__(self) -> None:
        super().__init__()
        self.catalog, self.kept = Catalog(kept=5), 5
        self.changes: list[Entry] = []
        self.known_from = 0  # the revision from which on the last changes may be known
        self.begun: list[tuple[int, Iterator[bytes]]] = []

    def now(self, revision: int = 1 << 62) -> dict[tuple[str, str], Entry]:
        return {change.key: change for change in self.changes if change.revision <= revision}

    @rule(key=st.sampled_from(KEYS), data=st.data(), off=st.sampled_from((0, 0, 0, 1, -1)), any_version=st.booleans())
    def change(self, key: tuple[str, str], data: st.DataObject, off: int, any_version: bool) -> None:
        known = self.now().get(key)
        version = known.version if known is not None else 0
        value = data.draw(
            st.none() | st.fixed_dictionaries({name: self.VALUES[type_] for name, type_ in KINDS[key[0]].items()})
        )
        expected = ANY if any_version else max(0, version + off)
        asked = read_change(*key, expected, b"" if value is None else json.dumps(value).encode())
        check_change(asked)
        outcome = self.catalog.apply(json.loads(json.dumps(asked)))
        if expected in (ANY, version):
            self.changes.append(Entry(*key, version + 1, len(self.changes) + 1, value))
        assert bool(outcome.code) == (expected not in (ANY, version))

    @rule()
    def begin_snapshot(self) -> None:
        self.begun.append((len(self.changes), self.catalog.pieces()))

    @precondition(lambda self: self.begun)
    @rule()
    def restore_the_last_snapshot(self) -> None:
        """As a controller does that crashed, and is given later changes once more."""
        revision, pieces = self.begun.pop()
        snapshot = b"groups" + b"".join(pieces)
        assert split(snapshot)[0] == b"groups"
        self.catalog.restore(snapshot)
        assert (self.catalog.revision, self.catalog.entries) == (revision, self.now(revision))
        self.known_from, self.begun = revision, [one for one in self.begun if one[0] <= revision]
        for change in self.changes[revision:]:
            assert self.catalog.put(change.key, change.value) == change

    @invariant()
    def it_knows_what_the_dictionary_does(self) -> None:
        assert (self.catalog.revision, self.catalog.entries) == (len(self.changes), self.now())
        known_from = max(self.known_from, len(self.changes) - self.kept)
        for revision in (0, *range(max(0, len(self.changes) - 6), len(self.changes) + 2)):
            known = revision >= min(known_from, len(self.changes))
            assert self.catalog.since(revision) == (self.changes[revision:] if known else None)


TestCatalog = CatalogMachine.TestCase


@given(st.binary() | json_values().map(lambda value: json.dumps(value).encode()), st.integers(-2, 3))
def test_whatever_is_asked_for_is_a_change_or_malformed(body: bytes, expected: int) -> None:
    for kind in (*KINDS, "other"):
        try:
            asked = read_change(kind, "n", expected, body)
        except Malformed:
            continue
        check_change(asked)
        assert Catalog().apply(asked).code == (0 if expected in (ANY, 0) else Response.METADATA_CONFLICT)


@given(st.data())
def test_a_damaged_snapshot_is_malformed_or_another_one_that_can_be_written(data: st.DataObject) -> None:
    catalog = Catalog()
    for number in range(data.draw(st.integers(0, 4))):
        catalog.put(("topic", f"t{number % 3}"), {"queues": number})
    text = data.draw(altered(split(b"".join(catalog.pieces()))[1]))
    again = Catalog()
    try:
        again.restore(b"groups\n" + text)
    except Malformed:
        return
    third = Catalog()
    third.restore(b"groups" + b"".join(again.pieces()))
    assert (third.revision, third.entries) == (again.revision, again.entries)
