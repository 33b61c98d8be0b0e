"""Whoever leads an older term answers nothing that is asked once a later term is led."""

from __future__ import annotations

from typing import Any

from chaos.judging.registry import registry
from chaos.testing.laws import check_law
from chaos.verdict import Validity
from tests.checkers.controller_runs import Run, run
from tests.checkers.names import A, L

LAW = L.CONTROLLERS


def cut_off(**meta: Any) -> Run:
    """The leader of the first term can't reach the others, who are led by another one."""
    it = run(**meta)
    it.inject("partition", "controller-0")
    it.leads("controller-1", 2)
    return it


def test_who_leads_an_older_term_answers_nothing_that_is_asked_from_then_on() -> None:
    it = cut_off()
    it.ask("read", "controller-1")
    it.expect(LAW, validity=Validity.VALID)
    it.ask("read", "controller-0", type="fail")
    it.expect(LAW, validity=Validity.VALID)
    it.ask("read", "controller-0")
    found = it.expect(LAW, A.OLD_LEADER_ANSWERED).anomalies[0]
    assert "as the leader of term 1" in found.explanation and "controller-1 led term 2" in found.explanation
    assert len(found.rows) == 4


def test_an_older_leader_may_answer_what_was_asked_before_and_what_it_is_asked_as_a_follower() -> None:
    early = run()
    early.inject("partition", "controller-0")
    asked = early.invoke("read", value={"object": "o", "to": "controller-0"})
    early.leads("controller-1", 2)
    early.complete(asked, node="controller-0")
    early.expect(LAW, validity=Validity.VALID)
    follower = cut_off()
    follower.trace("controller-0", "raft", epoch=1, value={"role": "follower", "leader": ""})
    follower.ask("read", "controller-0")
    follower.expect(LAW, validity=Validity.VALID)
    again = cut_off()
    again.leads("controller-0", 3)
    again.ask("read", "controller-0")
    again.expect(LAW, validity=Validity.VALID)
    apart = cut_off(deployment="process")
    apart.ask("read", "controller-0")
    assert not apart.verdict(LAW).anomalies, "index does not order what processes do"


def test_it_keeps_the_contract_of_laws() -> None:
    known = registry()
    old, new = cut_off(), cut_off()
    old.ask("read", "controller-0")
    new.ask("read", "controller-1")
    kernels = [known.kernels[number] for number in known.of(LAW)]
    check_law(kernels, bad=[(old.table(), [A.OLD_LEADER_ANSWERED])], near_miss=[new.table()], context=new.context())
