"""A controller that has just heard its leader ignores candidates."""

from __future__ import annotations

from typing import Any

from chaos.judging.registry import registry
from chaos.testing.laws import check_law
from chaos.verdict import Validity
from tests.checkers.controller_runs import Run, run
from tests.checkers.names import A, L

LAW = L.CONTROLLERS


def raised(silence_ms: int | str | None, **told: Any) -> Run:
    """controller-2 follows controller-1 into term 2, so long after it has heard the leader of term 1."""
    it = run(**told.pop("meta", {}))
    heard = {} if silence_ms is None else {"silence_ms": silence_ms}
    value = {"by": "controller-1", "election_ms": 300, "transfer": 0, **heard, **told}
    it.trace("controller-2", "term_raised", epoch=2, value=value)
    return it


def test_who_has_just_heard_its_leader_ignores_candidates() -> None:
    found = raised(299).expect(LAW, A.LEADER_DESERTED).anomalies[0]
    assert "controller-2 followed controller-1 into term 2" in found.explanation
    assert "299 ms" in found.explanation and len(found.rows) == 1
    raised(300).expect(LAW, validity=Validity.VALID)


def test_a_leader_deserts_itself_and_processes_are_judged_too() -> None:
    raised(0, meta={"deployment": "process"}).expect(LAW, A.LEADER_DESERTED)


def test_a_leader_may_ask_for_another_one_and_who_has_heard_none_may_turn_to_anybody() -> None:
    raised(1, transfer=1).expect(LAW, validity=Validity.VALID)
    raised(None).expect(LAW, validity=Validity.VALID)


def test_what_nobody_can_compare_is_unknown() -> None:
    raised(1, election_ms=None).expect(LAW, validity=Validity.UNKNOWN)
    raised("1").expect(LAW, validity=Validity.UNKNOWN)


def test_it_keeps_the_contract_of_laws() -> None:
    known = registry()
    early, late = raised(120), raised(900)
    kernels = [known.kernels[number] for number in known.of(LAW)]
    check_law(kernels, bad=[(early.table(), [A.LEADER_DESERTED])], near_miss=[late.table()], context=late.context())
