"""A broker keeps nothing: its end changes no acknowledged byte, and costs little."""

from __future__ import annotations

import pytest

from chaos.judging.registry import registry
from chaos.testing.laws import check_law
from chaos.verdict import Validity
from tests.checkers.names import A, L
from tests.checkers.storage.clusters import STORES, Cluster, cluster

LAW = L.STATELESS


def killed(*, after_s: float = 2, end: int = 20, other: str = "", opens: bool = True, name: str = "kill") -> Cluster:
    """broker-0 is killed, and broker-1 opens its slice with group 0 at this end."""
    it = cluster()
    it.trace("broker-0", "start", value={})
    it.trace("store-0", "start", value={"disk": "w", "generation": 1})
    it.opened(0, 1)
    it.opened(1, 1, "broker-1", 2)
    it.acked(0, 1, 10)
    it.acked(0, 1, 20)
    it.wait(15)
    if other:
        it.inject("kill", other)
    fault = it.inject(name, "broker-0")
    it.wait(after_s)
    if opens:
        it.opened(0, 2, "broker-1", 2, ends={"0": end, "2": 0})
        it.acked(0, 2, 30, "broker-1")
    it.undo(name, fault)
    it.wait(20)
    return it.end()


@pytest.mark.parametrize("name", ["kill", "wipe", "pause"])
def test_the_end_of_a_broker_changes_nothing(name: str) -> None:
    verdict = killed(name=name).expect(LAW, validity=Validity.VALID)
    assert verdict.counts == {"broker_ends": 1, "slices_opened": 3}


def test_who_opens_begins_behind_all_that_was_acknowledged() -> None:
    found = killed(end=19).expect(LAW, A.OPENED_BELOW_ACKNOWLEDGED, validity=Validity.INVALID).anomalies[0]
    assert "group 0 at 19" in found.explanation and len(found.rows) == 2


@pytest.mark.parametrize("opens", [True, False])
def test_a_slice_is_open_again_within_the_bound(opens: bool) -> None:
    late = killed(after_s=11, opens=opens)
    late.expect(LAW, A.OPENED_LATE, validity=Validity.INVALID)
    late.meta["bounds"] = {"available_s": 12 if opens else 40}
    late.expect(LAW, validity=Validity.VALID)
    late.meta.update(bounds={}, deployment="process")
    late.expect(LAW, validity=Validity.VALID)


@pytest.mark.parametrize("other", [STORES[0], "meta-1"])
def test_what_else_is_in_the_way_excuses_it(other: str) -> None:
    killed(after_s=11, other=other).expect(LAW, validity=Validity.VALID)


def test_a_fault_that_is_long_over_excuses_no_closed_slice() -> None:
    it = killed(opens=False)
    it.undo("kill", it.inject("kill", STORES[0]))
    it.wait(25).phase("stop")
    it.expect(LAW, A.OPENED_LATE)


def test_a_broker_has_no_disk() -> None:
    it = killed()
    it.trace("broker-1", "start", incarnation=2, value={"disk": "w", "generation": 2})
    it.expect(LAW, A.BROKER_KEPT_STATE)


def test_where_no_broker_ends_it_is_not_exercised() -> None:
    it = cluster()
    it.opened(0, 1)
    it.expect(LAW, validity=Validity.NOT_APPLICABLE)
    it.inject("kill", STORES[0])
    it.expect(LAW, validity=Validity.NOT_APPLICABLE)
    cluster().expect(LAW, validity=Validity.UNKNOWN)


def test_it_keeps_the_contract_of_laws() -> None:
    disk = killed()
    disk.trace("broker-1", "start", incarnation=2, value={"disk": "w", "generation": 2})
    bad = [
        (killed(end=19).table(), [A.OPENED_BELOW_ACKNOWLEDGED]),
        (killed(after_s=11).table(), [A.OPENED_LATE]),
        (disk.table(), [A.BROKER_KEPT_STATE]),
    ]
    kernels = [registry().kernels[number] for number in registry().of(LAW)]
    check_law(kernels, bad=bad, near_miss=[killed().table()], context=killed().context())
