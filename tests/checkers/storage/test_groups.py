"""Each group has one elected leader a term, keeps what is committed, and applies one log."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from chaos.judging.registry import registry
from chaos.testing.laws import check_law
from chaos.verdict import Validity
from tests.checkers.names import A, L
from tests.checkers.storage.clusters import REPLICAS, STORES, Cluster, cluster

LAW = L.GROUPS
NEW = "store-3#9"


def served() -> Cluster:
    """store-0 leads group 0, which takes records up to 20, all of them acknowledged; then a member is replaced."""
    it = cluster()
    for voter in (0, 1):
        it.vote(0, voter, 0, 1)
    it.leads(0, 0, 1)
    it.fence(0, 1)
    it.add(0, 1, 0, 10)
    it.add(0, 1, 10, 20, synced=STORES[:2])
    it.acked(0, 1, 20)
    it.members(0, REPLICAS, [NEW])
    it.members(0, [*REPLICAS, NEW])
    it.members(0, [*REPLICAS[:2], NEW])
    return it


def test_a_group_that_serves_keeps_the_promise() -> None:
    verdict = served().expect(LAW, validity=Validity.VALID)
    assert {
        "group_terms": 1,
        "group_entries": 9,
        "group_synced_acks": 1,
        "memberships": 3,
    }.items() <= verdict.counts.items()


def _two_leaders(it: Cluster) -> None:
    for voter in (1, 2):
        it.vote(0, voter, 1, 2)
    it.leads(0, 1, 2, votes=(1, 2))
    it.leads(0, 2, 2, votes=(1, 2))


def _unelected(it: Cluster) -> None:
    it.vote(0, 1, 1, 2)
    it.leads(0, 1, 2, votes=(1,))


def _votes_twice(it: Cluster) -> None:
    it.vote(0, 1, 2, 1)


def _vote_in_memory(it: Cluster) -> None:
    it.vote(0, 1, 1, 2, value={"file": "raft/1", "size": 100, "disk": 99})


def _term_back(it: Cluster) -> None:
    value = {"role": "follower", "leader": "", "group": 0}
    it.trace(STORES[0], "raft", epoch=0, value=value)


def _deserted(it: Cluster) -> None:
    value = {"by": REPLICAS[1], "election_ms": 300, "transfer": 0, "silence_ms": 20, "group": 0}
    it.trace(STORES[2], "term_raised", epoch=2, value=value)


def _two_members_at_once(it: Cluster) -> None:
    it.members(0, [REPLICAS[0]])


def _other_members(it: Cluster) -> None:
    it.members(0, REPLICAS, index=it.last[0], stores=["store-2"])


def _dropped(it: Cluster) -> None:
    it.trace(STORES[1], "entries_cut", position=it.last[0] - 3, epoch=1, value={"last": it.last[0], "group": 0})


def _other_records(it: Cluster) -> None:
    index = it.add(0, 1, 20, 30, stores=STORES[:2])
    it.add(0, 1, 20, 30, crc=8, stores=STORES[2:], index=index)


def _refused_by_one(it: Cluster) -> None:
    index = it.fence(0, 2, "broker-1", 2, end=20, stores=STORES[:2])
    it.fence(0, 2, "broker-1", 2, end=20, stores=STORES[2:], index=index, accepted=False)


def _fence_and_append(it: Cluster) -> None:
    index = it.add(0, 1, 20, 30, stores=STORES[:2])
    it.fence(0, 1, end=20, stores=STORES[2:], index=index)


def _acked_before_sync(it: Cluster) -> None:
    it.add(0, 1, 20, 30, synced=STORES[:1])
    it.acked(0, 1, 30)


def _gap(it: Cluster) -> None:
    it.add(0, 1, 21, 30)


def _overwritten(it: Cluster) -> None:
    it.add(0, 1, 10, 30)


def _other_end(it: Cluster) -> None:
    it.fence(0, 2, "broker-1", 2, end=21)


def _voted_wiped(it: Cluster) -> None:
    it.trace("store-1", "start", incarnation=2, value={})
    for voter in (1, 2):
        it.vote(0, voter, 2, 2, incarnation=voter % 2 + 1)
    it.leads(0, 2, 2, votes=(1, 2))


def _given_up(it: Cluster) -> None:
    it.trace("store-1", "damaged", position=-1)


BREACHES: dict[Callable[[Cluster], None], tuple[str, ...]] = {
    _two_leaders: (A.GROUP_TWO_LEADERS, A.GROUP_UNELECTED_LEADER),
    _unelected: (A.GROUP_UNELECTED_LEADER,),
    _votes_twice: (A.GROUP_TWO_VOTES,),
    _vote_in_memory: (A.GROUP_VOTE_NOT_DURABLE,),
    _term_back: (A.GROUP_TERM_REGRESSION,),
    _deserted: (A.GROUP_LEADER_DESERTED,),
    _two_members_at_once: (A.GROUP_MEMBERSHIP_JUMP,),
    _other_members: (A.GROUP_MEMBERSHIP_JUMP,),
    _dropped: (A.GROUP_ENTRY_LOST,),
    _other_records: (A.GROUP_ENTRIES_DIFFER,),
    _refused_by_one: (A.GROUP_ENTRIES_DIFFER,),
    _fence_and_append: (A.GROUP_ENTRIES_DIFFER,),
    _acked_before_sync: (A.GROUP_ACKED_UNSYNCED,),
    _gap: (A.APPEND_MISPLACED,),
    _overwritten: (A.APPEND_MISPLACED,),
    _other_end: (A.APPEND_MISPLACED,),
    _voted_wiped: (A.GROUP_WIPED_VOTER,),
    _given_up: (A.DISK_GIVEN_UP,),
}


@pytest.mark.parametrize("breach", BREACHES)
def test_each_breach_is_found(breach: Callable[[Cluster], None]) -> None:
    it = served()
    breach(it)
    verdict = it.expect(LAW, *BREACHES[breach], validity=Validity.INVALID)
    assert all(anomaly.rows for anomaly in verdict.anomalies)


def test_metas_own_group_is_judged_too() -> None:
    it = served()
    for node in ("meta-0", "meta-1"):
        it.trace(node, "raft", epoch=1, value={"role": "leader", "leader": node})
    it.expect(LAW, A.GROUP_TWO_LEADERS)


def test_groups_are_apart() -> None:
    it = served()
    for voter in (0, 1):
        it.vote(1, voter, 1, 1)
    it.leads(1, 1, 1)
    it.add(1, 1, 0, 10, crc=9, index=2)
    it.expect(LAW, validity=Validity.VALID)


def test_what_a_fault_took_from_a_disk_is_gone() -> None:
    it = served()
    it.undo("wipe", it.inject("wipe", "store-1"))
    for breach in (_votes_twice, _given_up):
        breach(it)
    it.expect(LAW, validity=Validity.VALID)


def test_a_store_on_another_disk_need_not_remember() -> None:
    it = served()
    it.undo("rot", it.inject("rot", "store-0", effects={"loses_disk": ["store-0"]}))
    it.wait(1)
    it.vote(0, 0, 0, 5)
    it.leads(0, 0, 5, votes=(0,), voters=REPLICAS[:1])  # alone, which is another matter
    it.trace("store-0", "damaged", position=-1)
    it.entry("store", "store-0", disk=9, word="v", zone="", state="up")
    value = {"role": "follower", "leader": "", "group": 0}
    it.trace(STORES[0], "raft", epoch=2, value=value)
    it.trace(STORES[0], "entries_cut", position=1, epoch=1, value={"last": 1, "group": 0})
    it.expect(LAW, A.GROUP_UNELECTED_LEADER)


def test_a_disk_that_an_unknown_fault_may_have_damaged_leaves_the_verdict_unknown() -> None:
    it = served()
    it.inject("odd", "store-1", effects=None)
    _given_up(it)
    it.expect(LAW, validity=Validity.UNKNOWN)


@pytest.mark.parametrize(("deployment", "found"), [("sim", True), ("process", False)])
def test_a_disk_that_came_later_counts_where_clocks_differ(deployment: str, found: bool) -> None:
    it = served()
    it.meta["deployment"] = deployment
    index = it.add(0, 1, 20, 30, synced=())
    it.acked(0, 1, 30)
    for store in STORES[:2]:
        it.trace(store, "group_synced", value={"groups": {"0": index}})
    it.expect(LAW, *[A.GROUP_ACKED_UNSYNCED] * found)


@pytest.mark.parametrize("disk", [2, 9])
def test_a_store_may_vote_with_the_disk_that_it_began_on(disk: int) -> None:
    it = served()
    word = {"disk": "w"} if disk == 2 else {}
    it.trace("store-1", "start", incarnation=2, value=word)
    it.entry("store", "store-1", disk=9, word="v", zone="", state="up")
    for voter in (1, 2):
        it.vote(0, voter, 2, 2, incarnation=voter % 2 + 1)
    it.leads(0, 2, 2)
    named = [f"store-1#{disk}", REPLICAS[2]]
    told = json.loads(it.rows[-1]["value"]) | {"votes": named, "voters": [*named, REPLICAS[0]]}
    it.rows[-1]["value"] = json.dumps(told)
    it.expect(LAW, *[A.GROUP_UNELECTED_LEADER] * (disk == 9), validity=None)


def test_members_of_a_change_count_before_it_is_committed() -> None:
    it = served()
    it.add(0, 1, 20, 30, synced=(STORES[0], "store-3"))
    it.acked(0, 1, 30)
    it.expect(LAW, validity=Validity.VALID)


def test_without_leaders_nothing_is_known() -> None:
    assert "no store reported" in cluster().expect(LAW, validity=Validity.UNKNOWN).why


def test_it_keeps_the_contract_of_laws() -> None:
    bad = []
    for breach, names in BREACHES.items():
        it = served()
        breach(it)
        bad.append((it.table(), names))
    kernels = [registry().kernels[number] for number in registry().of(LAW)]
    check_law(kernels, bad=bad, near_miss=[served().table()], context=served().context())
