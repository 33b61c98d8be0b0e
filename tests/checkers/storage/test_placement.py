"""The map is what was committed, and each queue is in one group."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chaos.judging.registry import registry
from chaos.testing.laws import check_law
from chaos.verdict import Validity
from tests.checkers.names import A, L
from tests.checkers.storage.clusters import REPLICAS, STORES, Cluster, cluster

LAW = L.PLACEMENT
NEW = "store-3#9"
QUEUES = [{"index": 0, "topic": "t", "broker": "slice-0", "queue_id": 0}]


def send(it: Cluster, sequence: int, group: int) -> None:
    it.send(sequence)
    it.rows[-1]["position"] = (group << 40) + 100 * sequence


def view(it: Cluster, revision: int, *, node: str = "broker-0", life: int = 1, **groups: int) -> None:
    told = {"revision": revision, "groups": {name.removeprefix("g"): index for name, index in groups.items()}}
    it.trace(node, "map_view", incarnation=life, value=told)


def served() -> Cluster:
    """Group 0 gets a new member in the place of an old one, and meta's map follows."""
    it = cluster(queues=QUEUES)
    it.topic("t", 20)
    view(it, 4, g0=0, g1=0)
    it.leads(0, 0, 1)
    it.index(0)
    changes = ((REPLICAS, [NEW]), ([*REPLICAS, NEW], []), ([*REPLICAS[1:], NEW], []))
    for voters, learners in changes:
        index = it.members(0, voters, learners)
        it.group_entry(0, voters, learners, index)
        view(it, it.revision, g0=index)
    view(it, 3, life=2, g0=0)  # it was started again
    it.trace("nameserver-0", "route", epoch=1, value={"group": "slice-0", "master": "broker-0", "brokers": []})
    for sequence in range(3):
        send(it, sequence, 2)
    return it


def finished(it: Cluster) -> Cluster:
    it.wait(20)
    return it.end()


def test_a_map_that_follows_keeps_the_promise() -> None:
    verdict = finished(served()).expect(LAW, validity=Validity.VALID)
    assert verdict.counts == {"map_entries": 7, "map_views": 5, "placed_queues": 1}


def _uncommitted(it: Cluster) -> None:
    it.group_entry(0, [*REPLICAS[:2], NEW], index=it.last[0] + 1)


def _others(it: Cluster) -> None:
    it.group_entry(0, REPLICAS, index=it.last[0])


def _older(it: Cluster) -> None:
    it.group_entry(0, REPLICAS, index=0)


def _view_back(it: Cluster) -> None:
    view(it, 10, life=3)
    view(it, 9, life=3)


def _group_back(it: Cluster) -> None:
    view(it, 10, life=3, g0=3)
    view(it, 11, life=3, g0=2)


def _late(it: Cluster) -> None:
    it.wait(6)
    it.members(0, [*REPLICAS[2:], NEW])
    it.wait(6)


def _stranger(it: Cluster) -> None:
    it.leads(0, 0, 2, commit=it.last[0])


def _other_group(it: Cluster) -> None:
    send(it, 3, 0)


def _other_route(it: Cluster) -> None:
    it.trace("nameserver-0", "route", epoch=1, value={"group": "slice-0", "master": "broker-1", "brokers": []})


BREACHES: dict[Callable[[Cluster], None], tuple[str, ...]] = {
    _uncommitted: (A.MAP_NOT_MEMBERS,),
    _others: (A.MAP_NOT_MEMBERS,),
    _older: (A.MAP_WENT_BACK,),
    _view_back: (A.MAP_WENT_BACK,),
    _group_back: (A.MAP_WENT_BACK,),
    _late: (A.MAP_LATE,),
    _stranger: (A.LED_BY_STRANGER,),
    _other_group: (A.QUEUE_MOVED,),
    _other_route: (A.ROUTE_UNLOGGED,),
}


@pytest.mark.parametrize("breach", BREACHES)
def test_each_breach_is_found(breach: Callable[[Cluster], None]) -> None:
    it = served()
    breach(it)
    verdict = finished(it).expect(LAW, *BREACHES[breach], validity=Validity.INVALID)
    assert all(anomaly.rows for anomaly in verdict.anomalies)


@pytest.mark.parametrize("deployment", ["sim", "process"])
def test_lateness_is_judged_by_one_clock_and_in_calm_time(deployment: str) -> None:
    it = served()
    it.meta["deployment"] = deployment
    if deployment == "sim":
        it.inject("kill", STORES[0])
    _late(it)
    finished(it).expect(LAW, validity=Validity.VALID)


def test_a_fault_that_is_long_over_excuses_no_map() -> None:
    it = served()
    it.undo("kill", it.inject("kill", STORES[0]))
    it.wait(3)
    _late(it)
    finished(it).expect(LAW, A.MAP_LATE)


def test_a_topic_that_was_made_again_may_lie_elsewhere() -> None:
    it = served()
    it.topic("t", 20, deleted=True)
    it.topic("t", it.revision + 1)
    _other_group(it)
    finished(it).expect(LAW, validity=Validity.VALID)


def test_without_a_map_nothing_is_known() -> None:
    assert "no node reported its map" in cluster().expect(LAW, validity=Validity.UNKNOWN).why


def test_it_keeps_the_contract_of_laws() -> None:
    bad = []
    for breach, names in BREACHES.items():
        it = served()
        breach(it)
        bad.append((finished(it).table(), names))
    kernels = [registry().kernels[number] for number in registry().of(LAW)]
    good = finished(served())
    check_law(kernels, bad=bad, near_miss=[good.table()], context=good.context())
