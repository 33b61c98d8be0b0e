"""What meta's entries change when they are applied, and what they don't once they are stale."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from chaos.node import Malformed
from reference.metadata.catalog import read_entries
from reference.split.meta import state
from reference.split.meta.entries import check_entry
from reference.split.meta.state import ClusterCatalog, ClusterState
from reference.split.names import KINDS, Group, Owner, replica_name, split_replica
from reference.split.names import check_entry as check_catalog_entry
from reference.wire.codes import Response
from tests.damage import altered, json_values

STALE = Response.METADATA_CONFLICT


class Log:
    """A state machine, and what is written to its log."""

    def __init__(self) -> None:
        self.state = ClusterState(ClusterCatalog(), groups=4, slices=2)
        self.cluster = self.state.cluster

    def write(self, op: str, **entry: Any) -> int:
        """Apply an entry as it comes from the log. Return its code; -1 where it was allowed and changed nothing."""
        written = json.loads(json.dumps({"op": op, **entry}))
        check_entry(written)
        before = self.state.catalog.revision
        outcome = self.state.apply(written)
        changed = self.state.catalog.revision - before
        assert changed == (outcome.changed["type"] == "entry") and (not outcome.code or not changed)
        if changed:
            known = self.state.catalog.entries[outcome.changed["kind"], outcome.changed["name"]]
            check_catalog_entry(known)
            assert (known.value, known.revision) == (outcome.changed["value"], before + 1)
        return outcome.code if changed or outcome.code else -1

    def broker(self, node: str = "broker-0", nonce: str = "n") -> int:
        self.write("register_broker", node=node, nonce=nonce)
        found = self.cluster.broker(node)
        assert found is not None
        return found.life

    def store(self, node: str, word: str = "w", zone: str = "") -> str:
        self.write("register_store", node=node, word=word, zone=zone)
        found = self.cluster.store(node)
        assert found is not None
        return found.replica

    def born(self) -> Group:
        replicas = [self.store(f"store-{number}") for number in range(3)]
        assert self.write("birth", group=1, replicas=replicas) == 0
        return self.group()

    def group(self) -> Group:
        found = self.cluster.group(1)
        assert found is not None
        return found


def test_an_owner_is_made_only_of_a_living_life_and_of_the_epoch_that_was_known() -> None:
    it = Log()
    life = it.broker()
    about = {"slice": 0, "broker": "broker-0"}
    assert it.write("own", **about, life=life, after=1) == STALE
    assert it.write("own", **about, life=life + 1, after=0) == STALE
    assert it.write("own", slice=2, broker="broker-0", life=life, after=0) == STALE
    assert it.write("own", slice=0, broker="broker-9", life=life, after=0) == STALE
    assert it.write("own", **about, life=life, after=0) == 0
    assert it.write("own", **about, life=life, after=0) == STALE, "the same decision again"
    assert it.write("own", **about, life=life, after=1) == STALE, "it owns the slice already"
    assert it.write("drain", node="broker-0", undo=False) == 0
    other = it.broker("broker-1")
    assert it.write("own", slice=1, broker="broker-0", life=life, after=0) == STALE, "nothing goes to one that drains"
    assert it.write("own", slice=0, broker="broker-1", life=other, after=1) == 0
    assert it.cluster.owner(0) == Owner("slice-0", "broker-1", other, 2)


def test_a_slice_is_orphaned_only_while_its_owner_is_dead() -> None:
    it = Log()
    life = it.broker()
    assert it.write("orphaned", slice=0, after=0) == STALE, "nobody owns it"
    it.write("own", slice=0, broker="broker-0", life=life, after=0)
    assert it.write("orphaned", slice=0, after=1) == STALE, "its owner lives"
    assert it.write("ended", node="broker-0", life=life + 1) == STALE
    assert it.write("ended", node="broker-0", life=life) == 0
    assert it.write("ended", node="broker-0", life=life) == STALE
    assert it.write("own", slice=1, broker="broker-0", life=life, after=0) == STALE
    assert it.write("orphaned", slice=0, after=0) == STALE, "said of an older epoch"
    assert it.write("orphaned", slice=0, after=1) == 0
    assert it.cluster.owner(0) == Owner("slice-0", "", 0, 2)


def test_lives_disks_and_topics_are_numbered_once() -> None:
    it = Log()
    first = it.broker()
    assert it.broker() == first
    second = it.broker(nonce="m")
    assert second > first and it.broker() > second, "the first life is over, whatever word it comes with"
    disk = it.store("store-0")
    assert it.store("store-0") == disk != it.store("store-0", "wiped") != disk
    it.write("ended", node="broker-0", life=it.broker())
    assert it.broker() > second


def test_a_store_turns_gone_and_up_again_by_its_disk() -> None:
    it = Log()
    node, disk = split_replica(it.store("store-0"))
    assert it.write("seen", node=node, disk=disk) == STALE
    assert it.write("lost", node=node, disk=disk + 1) == STALE
    assert it.write("lost", node="store-9", disk=disk) == STALE
    assert it.write("lost", node=node, disk=disk) == 0
    assert it.write("lost", node=node, disk=disk) == STALE
    assert it.write("seen", node=node, disk=disk) == 0
    it.write("lost", node=node, disk=disk)
    assert it.store("store-0") == replica_name(node, disk) and it.cluster.stores()[0].state == "up"
    it.write("drain", node=node, undo=False)
    assert it.write("lost", node=node, disk=disk) == STALE
    assert it.store("store-0") == replica_name(node, disk) and it.cluster.stores()[0].state == "draining"


def test_a_group_is_born_once_on_stores_that_can_hold_it() -> None:
    it = Log()
    group = it.born()
    again = [it.store(f"store-{number}") for number in (3, 4, 5)]
    assert it.write("birth", group=1, replicas=again) == STALE
    assert it.write("birth", group=4, replicas=again) == STALE
    it.write("lost", node="store-5", disk=split_replica(again[2])[1])
    assert it.write("birth", group=2, replicas=again) == STALE
    assert it.write("birth", group=2, replicas=["store-3#99", *again[:2][1:]]) == STALE
    assert it.write("birth", group=2, replicas=[]) == STALE
    assert it.group() == group and it.cluster.group(2) is None


def test_a_wish_is_of_the_membership_that_was_known_and_leaves_a_majority() -> None:
    it = Log()
    group = it.born()
    a, b, c = group.voters
    d, e = it.store("store-3"), it.store("store-4")
    assert it.write("want", group=1, index=1, wanted=[a, b, d]) == STALE
    assert it.write("want", group=2, index=0, wanted=[a, b, d]) == STALE
    assert it.write("want", group=1, index=0, wanted=[a, d, e]) == STALE, "one of three is no majority"
    assert it.write("want", group=1, index=0, wanted=[a, b, "store-3#99"]) == STALE
    assert it.write("want", group=1, index=0, wanted=[a, b, d]) == 0
    now = it.group()
    assert (now.voters, now.members, now.wanted) == ((a, b, c), (a, b, c), (a, b, d)) and not now.is_settled
    assert it.write("report", group=1, index=5, voters=[a, b, d], learners=[]) == 0
    assert it.write("want", group=1, index=0, wanted=[a, b, c]) == STALE
    assert it.group().is_settled and it.group().birth == (a, b, c)


def test_reports_are_taken_by_rising_index_alone() -> None:
    it = Log()
    a, b, c = it.born().voters
    assert it.write("report", group=1, index=0, voters=[a], learners=[]) == -1
    assert it.write("report", group=1, index=4, voters=[a, b], learners=[c]) == 0
    assert it.write("report", group=1, index=3, voters=[a, b, c], learners=[]) == -1
    assert it.write("report", group=1, index=4, voters=[a, b, c], learners=[]) == -1
    assert (it.group().voters, it.group().learners, it.group().index) == ((a, b), (c,), 4)
    assert it.write("report", group=2, index=4, voters=[a], learners=[]) == Response.INVALID_PARAMETER


def test_there_is_an_end_of_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "MAX_NODES", 3)
    it = Log()
    for number in range(3):
        it.broker(f"broker-{number}")
    refused = it.write("register_broker", node="broker-x", nonce="n")
    assert refused == Response.NO_PERMISSION and it.broker("broker-0", "m") > 0


GOOD = [
    {"op": "register_broker", "node": "broker-0", "nonce": "n"},
    {"op": "own", "slice": 0, "broker": "broker-0", "life": 1, "after": 0},
    {"op": "birth", "group": 0, "replicas": ["store-0#1"]},
    {"op": "report", "group": 0, "index": 1, "voters": ["store-0#1", "store-0#2"], "learners": []},
    {"op": "topic", "name": "t", "queues": 1, "retain_ms": -1, "retain_bytes": 0, "expected": -1},
]


@pytest.mark.parametrize(
    ("place", "bad"),
    [
        (0, {"op": "x"}),
        (0, {"node": ""}),
        (0, {"node": "n" * 256}),
        (0, {"more": 1}),
        (0, {"nonce": 1}),
        (1, {"slice": -1}),
        (1, {"life": True}),
        (2, {"replicas": ["store-0"]}),
        (2, {"replicas": ["store-0#1", "store-0#2"]}),
        (3, {"voters": ["store-0#1", "store-0#1"]}),
        (3, {"voters": []}),
        (3, {"voters": ["store-0#1"], "learners": ["store-0#1"]}),
        (3, {"voters": ["store-0#01"]}),
        (3, {"learners": [f"store-{one}#9" for one in range(300)]}),  # no follower would take such an entry
        (4, {"queues": 1 << 21}),
        (4, {"retain_ms": -2}),
        (4, {"name": ""}),
    ],
)
def test_an_entry_of_another_member_that_cannot_be_applied_is_refused(place: int, bad: dict[str, Any]) -> None:
    check_entry(GOOD[place])
    with pytest.raises(Malformed):
        check_entry({**GOOD[place], **bad})


@settings(max_examples=50)
@given(json_values(), st.sampled_from(GOOD), st.data())
def test_whatever_stands_in_a_log_is_malformed_or_can_be_applied(value: Any, good: Any, data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(good)))
    for entry in ({**good, key: value}, value):
        try:
            check_entry(entry if isinstance(entry, dict) else {})
        except Malformed:
            continue
        Log().state.apply(entry)


@settings(max_examples=50)
@given(st.data())
def test_a_damaged_snapshot_is_malformed_or_can_be_restored(data: st.DataObject) -> None:
    it = Log()
    it.broker()
    it.born()
    it.write("topic", name="t", queues=3, retain_ms=-1, retain_bytes=-1, expected=-1)
    whole = b"".join(it.state.catalog.pieces())
    again = ClusterCatalog()
    again.restore(whole)
    assert (again.entries, again.revision) == (it.state.catalog.entries, it.state.catalog.revision)
    try:
        entries = read_entries(data.draw(altered(whole[1:])), KINDS)[1]
    except Malformed:
        return
    assert all(entry.value is None or entry.value.keys() == KINDS[entry.kind].keys() for entry in entries.values())


class Owners(RuleBasedStateMachine):
    """Whatever is decided in whatever order: an epoch of a slice belongs to one life, and rises by one."""

    def __init__(self) -> None:
        super().__init__()
        self.log = Log()
        self.seen: dict[tuple[str, int], tuple[str, int]] = {}
        self.lives: set[tuple[str, int]] = set()

    @rule(node=st.sampled_from("ab"), nonce=st.sampled_from("xy"))
    def register(self, node: str, nonce: str) -> None:
        before = self.log.cluster.broker(node)
        life = self.log.broker(node, nonce)
        if before is None or life != before.life:
            assert all(number != life for _, number in self.lives)
            self.lives.add((node, life))

    @rule(node=st.sampled_from("ab"), off=st.integers(0, 2))
    def end(self, node: str, off: int) -> None:
        known = self.log.cluster.broker(node)
        self.log.write("ended", node=node, life=known.life - off if known and known.life >= off else 0)

    @rule(node=st.sampled_from("ab"), number=st.integers(0, 1), off=st.integers(0, 1), life_off=st.integers(0, 1))
    def own(self, node: str, number: int, off: int, life_off: int) -> None:
        known, owner = self.log.cluster.broker(node), self.log.cluster.owner(number)
        life = max(0, (known.life if known else 1) - life_off)
        self.log.write("own", slice=number, broker=node, life=life, after=max(0, owner.epoch - off))

    @rule(number=st.integers(0, 1))
    def orphan(self, number: int) -> None:
        self.log.write("orphaned", slice=number, after=self.log.cluster.owner(number).epoch)

    @invariant()
    def an_epoch_has_one_owner(self) -> None:
        for number in range(2):
            owner = self.log.cluster.owner(number)
            if owner.epoch:
                known = self.seen.setdefault((owner.name, owner.epoch), (owner.broker, owner.life))
                assert known == (owner.broker, owner.life)
                assert owner.epoch == sum(name == owner.name for name, _ in self.seen)


TestOwners = Owners.TestCase
TestOwners.settings = settings(max_examples=30, stateful_step_count=30)
