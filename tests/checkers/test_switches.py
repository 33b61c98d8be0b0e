"""What an operator is told of a switch is what the controllers have done."""

from __future__ import annotations

import pytest

from chaos.verdict import Validity
from tests.checkers.histories import History
from tests.checkers.names import A, L

ROLES = L.ROLES


def look(history: History, master: str, epoch: int) -> None:
    asked = history.invoke("find_master", process="operator.0", value={"group": "broker-a"})
    history.complete(asked, "ok", node="controller-0", value={"master": master, "epoch": epoch, "in_sync": []})


def elect(history: History, target: str, type: str) -> None:
    asked = history.invoke("elect", process="operator.0", value={"group": "broker-a", "target": target})
    if type:
        history.complete(asked, type, node="controller-0")


def run() -> History:
    """The controllers' entries are not told, nor brokers' roles, as of a system that others wrote."""
    history = History(meta={"uses": ["switches"], "tells": ["operations"]})
    history.phase("load")
    return history


def switched(type: str, *after: tuple[str, int]) -> History:
    history = run()
    look(history, "broker-0", 3)
    elect(history, "broker-1", type)
    for master, epoch in after:
        look(history, master, epoch)
    return history


def test_a_switch_that_is_told_as_it_was_is_valid() -> None:
    history = switched("ok", ("broker-0", 3), ("broker-1", 4))
    elect(history, "broker-2", "fail")
    look(history, "broker-1", 4)
    verdict = history.verdict(ROLES)
    assert (verdict.validity, verdict.counts["judged_switches"]) == (Validity.VALID, 2)


def test_a_switch_that_was_refused_and_done() -> None:
    verdict = switched("fail", ("broker-1", 4)).expect(ROLES, A.REFUSED_SWITCH_DONE, validity=Validity.INVALID)
    assert "got the answer" in verdict.anomalies[0].explanation and len(verdict.anomalies[0].rows) == 4


def test_a_switch_that_was_refused_and_done_late() -> None:
    switched("fail", ("broker-0", 3), ("broker-1", 4)).expect(ROLES, A.REFUSED_SWITCH_DONE, validity=Validity.INVALID)


def test_a_switch_that_was_acknowledged_and_is_not_there() -> None:
    history = switched("ok", ("broker-0", 3), ("broker-0", 3))
    verdict = history.expect(ROLES, A.ACKNOWLEDGED_SWITCH_UNDONE, validity=Validity.INVALID)
    assert "broker-0 that of epoch 3" in verdict.anomalies[0].explanation


@pytest.mark.parametrize("after", [("broker-2", 4), ("broker-1", 5), ("broker-0", 3)])
def test_another_election_is_not_the_one_that_was_refused(after: tuple[str, int]) -> None:
    assert switched("fail", after).verdict(ROLES).validity is Validity.VALID


def test_without_an_outcome_or_an_answer_nothing_is_known() -> None:
    for history in (run(), switched("", ("broker-1", 4)), switched("info", ("broker-1", 4)), switched("fail")):
        assert history.verdict(ROLES).validity is Validity.UNKNOWN


def test_a_switch_whose_outcome_is_open_may_be_done_late() -> None:
    history = switched("info", ("broker-0", 3))
    elect(history, "broker-1", "fail")
    look(history, "broker-1", 4)
    assert history.verdict(ROLES).validity is Validity.UNKNOWN


def test_where_a_fault_was_near_the_system_may_have_elected_by_itself() -> None:
    history = run()
    history.inject("kill", "broker-0")
    look(history, "broker-0", 3)
    elect(history, "broker-1", "fail")
    look(history, "broker-1", 4)
    assert history.verdict(ROLES).validity is Validity.UNKNOWN
