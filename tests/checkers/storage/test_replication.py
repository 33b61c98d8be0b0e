"""After recovery each group has its copies, and a drained store holds nothing."""

from __future__ import annotations

import json

import pytest

from chaos.judging.registry import registry
from chaos.testing.laws import check_law
from chaos.verdict import Validity
from tests.checkers.names import A, L
from tests.checkers.storage.clusters import REPLICAS, Cluster, cluster, digest

LAW = L.REPLICATION


def loaded(*, fourth: bool = True) -> Cluster:
    it = cluster()
    if fourth:
        it.entry("store", "store-3", disk=9, word="w", zone="", state="up")
    it.inject("kill", "store-2")
    it.undo("kill", "fault-0")
    return it


def finished(it: Cluster, *, groups: int = 4, calm_s: float = 40, recovers: bool = True) -> Cluster:
    """The three stores hold all groups to their ends, with one segment in the tier."""
    it.phase("heal")
    it.phase("recover")
    if recovers:
        it.recovered()
        it.phase("drain")
    it.wait(calm_s)
    it.phase("collect")
    for group in range(groups):
        for store in range(3):
            it.final(store, group, 100, segments=[[5, 0, 50, digest(1), "tier"]])
    it.complete_nodes()
    return it


def edited(it: Cluster, place: int, **value: object) -> Cluster:
    """Change what a store shows: of all such rows the one at this place."""
    rows = [row for row in it.rows if row["kind"] == "final" and row["f"] == "group"]
    position = value.pop("position", None)
    if position is not None:
        rows[place]["position"] = position
    told = json.loads(rows[place]["value"]) | value
    rows[place]["value"] = json.dumps(told)
    return it


def lacking(it: Cluster) -> Cluster:
    return edited(it, 0, segments=[[5, 0, 50, digest(1), "missing"]])


def test_enough_copies_keep_the_promise() -> None:
    verdict = finished(loaded()).expect(LAW, validity=Validity.VALID)
    assert verdict.counts == {"group_copies": 12, "replicated_groups": 4}


def test_a_copy_that_is_behind_is_none() -> None:
    edited(finished(loaded()), 1, position=90).expect(LAW, A.TOO_FEW_COPIES, validity=Validity.INVALID)
    it = edited(finished(loaded(), calm_s=5), 1, position=90)
    assert "less than 30 s ago" in it.expect(LAW, validity=Validity.UNKNOWN).why
    it = loaded(fourth=False)
    it.entry("store", "store-2", disk=3, word="w", zone="", state="gone")
    edited(finished(it), 1, position=90).expect(LAW, validity=Validity.VALID)  # there are two stores


def test_a_group_that_no_store_shows_has_no_copy() -> None:
    it = finished(loaded(), groups=3)
    assert "nobody held all of its 0 bytes" in it.expect(LAW, A.TOO_FEW_COPIES).anomalies[0].explanation


def test_a_vote_is_no_copy() -> None:
    lacking(finished(loaded())).expect(LAW, A.VOTER_LACKS_BYTES, A.TOO_FEW_COPIES, validity=Validity.INVALID)
    it = loaded()
    it.uploaded(0, 5, 0, 50, 1)
    lacking(finished(it)).expect(LAW, A.TOO_FEW_COPIES)  # it can be read, and is a copy less all the same
    it = loaded()
    it.undo("wipe", it.inject("wipe", "store-0"))
    lacking(finished(it, calm_s=5)).expect(LAW, validity=Validity.UNKNOWN)


def test_who_lacks_bytes_for_long_is_found_also_where_that_keeps_the_system_from_recovering() -> None:
    it = lacking(finished(loaded(), recovers=False))
    it.expect(LAW, A.VOTER_LACKS_BYTES, A.TOO_FEW_COPIES, validity=Validity.INVALID)
    it = lacking(finished(loaded(), recovers=False, calm_s=20))
    assert "did not recover" in it.expect(LAW, validity=Validity.UNKNOWN).why
    finished(loaded(), recovers=False).expect(LAW, validity=Validity.VALID)


def test_learners_and_former_members_are_no_copies() -> None:
    it = loaded()
    it.members(0, REPLICAS, ["store-3#9"])
    it.members(0, [*REPLICAS, "store-3#9"])
    it.members(0, [*REPLICAS[:2], "store-3#9"])
    it = finished(it)
    it.complete_nodes("store-3")
    it.expect(LAW, A.TOO_FEW_COPIES, validity=Validity.INVALID)


def test_what_can_not_be_read_is_unknown() -> None:
    it = finished(loaded())
    it.rows = [row for row in it.rows if not (row["f"] == "complete" and row["node"] == "store-1")]
    for index, row in enumerate(it.rows):
        row["index"] = index
    edited(it, 1, position=90).expect(LAW, validity=Validity.UNKNOWN)


def drained(*, moved: bool, waits_s: float = 40, undone: bool = True, hurt: bool = False) -> Cluster:
    it = loaded()
    it.wait(20)
    fault = it.inject("drain", "store-2", effects={"removes_replica": ["store-2"]})
    it.entry("store", "store-2", disk=3, word="w", zone="", state="draining")
    if hurt:
        it.inject("kill", "store-1")
    if moved:
        for group in range(4):
            it.members(group, REPLICAS, ["store-3#9"])
            it.members(group, [*REPLICAS, "store-3#9"])
            it.members(group, [*REPLICAS[:2], "store-3#9"])
    it.wait(waits_s)
    it.undo("drain", fault)
    if undone:
        it.entry("store", "store-2", disk=3, word="w", zone="", state="up")
    it = finished(it)
    if moved:
        it.complete_nodes("store-3")
        for group in range(4):
            segments = [[5, 0, 50, digest(1), "tier"]]
            it.final(2, group, 100, segments=segments, node="store-3", replica="store-3#9")
    return it


def test_a_drained_store_is_a_member_of_nothing_in_time() -> None:
    assert drained(moved=True).expect(LAW, validity=Validity.VALID).counts["drains"] == 1
    found = drained(moved=False).expect(LAW, A.DRAIN_UNFINISHED, validity=Validity.INVALID).anomalies[0]
    assert "of the groups 0, 1, 2, 3" in found.explanation
    drained(moved=False, waits_s=20).expect(LAW, validity=Validity.VALID)
    drained(moved=False, hurt=True).expect(LAW, validity=Validity.VALID)


def test_a_fault_that_is_long_over_excuses_no_drain() -> None:
    it = loaded()
    it.wait(20)
    it.inject("drain", "store-2", effects={"removes_replica": ["store-2"]})
    it.entry("store", "store-2", disk=3, word="w", zone="", state="draining")
    it.undo("kill", it.inject("kill", "store-1"))
    it.wait(65)
    finished(it).expect(LAW, A.DRAIN_UNFINISHED)


@pytest.mark.parametrize("moved", [True, False])
def test_no_clock_shows_elsewhere_how_long_it_took(moved: bool) -> None:
    it = drained(moved=moved, undone=False)
    it.meta["deployment"] = "process"
    it.expect(LAW, validity=Validity.VALID if moved else Validity.UNKNOWN)


@pytest.mark.parametrize(("waits_s", "undone"), [(20, True), (20, False), (31, True)])
def test_the_harness_shows_that_a_drain_was_too_short_to_be_due(waits_s: float, undone: bool) -> None:
    it = drained(moved=False, waits_s=waits_s, undone=undone)
    it.meta["deployment"] = "process"
    it.expect(LAW, validity=Validity.VALID if waits_s < 30 and undone else Validity.UNKNOWN)


def test_a_system_that_did_not_recover_is_unknown() -> None:
    it = loaded()
    it.phase("heal")
    it.expect(LAW, validity=Validity.UNKNOWN)


def test_it_keeps_the_contract_of_laws() -> None:
    few = edited(finished(loaded()), 1, position=90)
    bad = [
        (few.table(), [A.TOO_FEW_COPIES]),
        *(
            (lacking(finished(loaded(), recovers=recovers)).table(), [A.VOTER_LACKS_BYTES, A.TOO_FEW_COPIES])
            for recovers in (True, False)
        ),
        (drained(moved=False).table(), [A.DRAIN_UNFINISHED]),
    ]
    kernels = [registry().kernels[number] for number in registry().of(LAW)]
    good = finished(loaded())
    near = [finished(loaded(), recovers=False), drained(moved=True)]
    check_law(kernels, bad=bad, near_miss=[one.table() for one in (good, *near)], context=good.context())
