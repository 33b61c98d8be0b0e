"""A replica that was not in sync becomes the master only when no other lives, or when an operator forces it."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.judging.registry import registry
from chaos.testing.laws import check_law
from chaos.verdict import Validity
from tests.checkers.controller_runs import Run, run
from tests.checkers.names import A, L

LAW = L.ROLES
SWITCH = {"switches_master": ["broker-2"]}


def led(**meta: Any) -> Run:
    """A group of which broker-0 and broker-1 are in sync, some time after its first election."""
    it = run(**{"profile": {"unclean": True}, "tells": ["elections"], **meta})
    it.alter("broker-0", "broker-1")
    it.wait(20)
    return it


def unclean(it: Run) -> Run:
    """broker-2 is elected."""
    told = {"type": "elect", "group": "g", "master": "broker-2", "master_epoch": 2, "bootstrap": False, "unclean": True}
    it.entry(told | {"set": ["broker-2"], "set_epoch": it.last + 1, "previous_set": ["broker-0", "broker-1"]})
    it.wait(1)
    return it


def switched(it: Run, **detail: str) -> Run:
    it.inject("switch", "broker-2", effects=SWITCH, **detail)
    return it


def test_a_planned_switch_goes_to_no_replica_that_is_not_in_sync_while_another_one_lives() -> None:
    found = unclean(switched(led())).expect(LAW, A.ELECTION_OUTSIDE_SET).anomalies[0]
    assert "broker-2 was elected master of epoch 2" in found.explanation
    assert "broker-0, broker-1 of the SyncStateSet lived" in found.explanation and len(found.rows) == 1


def test_a_forced_switch_may() -> None:
    unclean(switched(led(), mode="forced")).expect(LAW, validity=Validity.VALID)


@pytest.mark.parametrize("targets, excused", [(["broker-0", "broker-1"], True), (["broker-0"], False)])
def test_who_was_touched_may_not_have_lived(targets: list[str], excused: bool) -> None:
    it = led()
    it.undo("kill", it.inject("kill", *targets))
    it.wait(9)
    names = [] if excused else [A.ELECTION_OUTSIDE_SET]
    unclean(it).expect(LAW, *names)


@pytest.mark.parametrize("f", ["start", "crash", "bootstrap"])
def test_who_has_just_begun_can_not_be_elected_yet(f: str) -> None:
    it = led()
    for node in ("broker-0", "broker-1"):
        it.trace(node, f, value={"generation": 2})
    it.wait(5)
    assert not it.verdict(LAW).anomalies
    assert not unclean(it).verdict(LAW).anomalies


def test_controllers_that_were_touched_or_have_a_new_leader_may_not_know_who_lives() -> None:
    slow, elected, asked = led(), led(), led()
    slow.inject("slow_link", "controller-1")
    elected.leads("controller-1", 2)
    asked.invoke("elect", value={"group": "g", "target": "broker-2"})
    for it in (slow, elected, asked):
        it.wait(5)
        unclean(it).expect(LAW, validity=Validity.VALID)


@pytest.mark.parametrize("wait_s, names", [(2, []), (4, [A.ELECTION_OUTSIDE_SET])])
def test_a_group_that_has_just_had_an_election_may_not_be_ready(wait_s: float, names: list[str]) -> None:
    it = led()
    it.entry({"type": "masterless", "group": "g", "master_epoch": 1})
    it.elect("broker-1", 2)
    it.wait(wait_s)
    told = {"type": "elect", "group": "g", "master": "broker-2", "master_epoch": 3, "bootstrap": False, "unclean": True}
    it.entry(told | {"set": ["broker-2"], "set_epoch": it.last + 1, "previous_set": ["broker-1"]})
    found = {anomaly.name for anomaly in it.verdict(LAW).anomalies} & {A.ELECTION_OUTSIDE_SET}
    assert found == set(names)


def test_what_a_fault_that_declares_nothing_may_have_been_the_need_of_is_unknown() -> None:
    it = led()
    it.inject("mystery", effects=None)
    assert "no need but perhaps" in unclean(it).expect(LAW, validity=Validity.UNKNOWN).why


def test_elsewhere_than_in_the_simulator_it_is_not_judged() -> None:
    unclean(switched(led(deployment="process"))).expect(LAW, validity=Validity.VALID)


def test_it_keeps_the_contract_of_laws() -> None:
    known = registry()
    bad, good = unclean(switched(led())), unclean(switched(led(), mode="forced"))
    kernels = [known.kernels[number] for number in known.of(LAW)]
    check_law(kernels, bad=[(bad.table(), [A.ELECTION_OUTSIDE_SET])], near_miss=[good.table()], context=good.context())
