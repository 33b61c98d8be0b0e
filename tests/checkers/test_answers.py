"""Requests at the limits of a system: whoever answers answers as documented, and after recovery everybody does."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.judging.registry import registry
from chaos.testing.laws import check_law
from chaos.verdict import Validity
from tests.checkers.histories import History
from tests.checkers.names import A, L

ANSWERS = L.ANSWERS


def run(**meta: Any) -> History:
    history = History(meta={"uses": ["queues", "limits"], **meta})
    history.phase("load")
    return history


def ask(history: History, told: str, expected: str = "code 29", *, type: str = "ok", to: str = "broker-1") -> None:
    """``told``: "" for no answer, or one that says nothing."""
    process = "limits-reader.0"
    asked = history.invoke("question", process=process, value={"question": "a topic without queues", "to": to})
    value = {"expected": expected, "told": told} if told else {"reason": "timeout"}
    history.complete(asked, type, node=to or "broker-0", value=value)


def ask_store(history: History, told: str, *, kept: bool) -> None:
    asked = history.invoke("question", process="limits-reader.0", value={"question": "an object", "to": "store-0"})
    value = {"expected": "it is there", "told": told, **({"kept": True} if kept else {})}
    history.complete(asked, "ok", node="store-0", value=value)


def send(history: History, told: str, expected: str, *, type: str) -> None:
    asked = history.invoke("send", process="limits.0", value={"question": "a batch"})
    history.complete(asked, type, node="broker-0", value={"expected": expected, "told": told} if told else {})


def recover(history: History, recovered: bool = True) -> History:
    history.phase("recover")
    if recovered:
        history.recovered()
    history.phase("drain")
    return history


@pytest.mark.parametrize("where", ["during the load", "at the end"])
def test_another_answer_than_the_documented_one_is_wrong_at_any_time(where: str) -> None:
    history = run()
    if where == "during the load":
        ask(history, "code 0")
    recover(history)
    ask(history, "code 29" if where == "during the load" else "code 0")
    (found,) = history.expect(ANSWERS, A.WRONG_ANSWER, validity=Validity.INVALID).anomalies
    assert "a topic without queues" in found.explanation and "It said: code 0" in found.explanation
    assert len(found.rows) == 2


@pytest.mark.parametrize(
    ("fault", "effects", "target", "excused"),
    [
        ("kill", {"takes_down": ["store-0"]}, "store-0", False),
        ("wipe", {"loses_disk": ["store-1"]}, "store-1", False),
        ("wipe", {"loses_disk": ["store-0"]}, "store-0", True),
        ("anything", None, "store-0", True),
    ],
)
@pytest.mark.parametrize("kept", [True, False])
def test_who_was_asked_for_what_it_had_kept_is_excused_by_what_changed_its_disk(
    fault: str, effects: dict[str, list[str]] | None, target: str, excused: bool, kept: bool
) -> None:
    history = run()
    history.inject(fault, target, effects=effects)
    history.wait(1)
    ask_store(history, "it is gone", kept=kept)
    ask_store(recover(history), "it is there", kept=kept)
    if kept and excused:
        history.expect(ANSWERS, validity=Validity.VALID)
    else:
        history.expect(ANSWERS, A.WRONG_ANSWER)


def test_in_a_run_that_lost_a_host_nobody_is_blamed_for_what_a_disk_kept() -> None:
    history = run()
    history.row("harness", f="host_lost", value={"nodes": ["store-0"]})
    ask_store(history, "it is gone", kept=True)
    ask_store(recover(history), "it is there", kept=True)
    history.expect(ANSWERS, validity=Validity.VALID)


def test_documented_answers_are_right_and_a_refusal_for_the_moment_is_none() -> None:
    history = run()
    ask(history, "", type="fail")
    ask(history, "", type="info")
    ask(history, "code 29")
    ask(recover(history), "", type="fail")
    ask(history, "code 29")
    assert history.expect(ANSWERS, validity=Validity.VALID).counts["answers"] == 2


@pytest.mark.parametrize(
    ("told", "expected", "type", "names"),
    [
        ("code 0", "code 13", "ok", [A.WRONG_ANSWER]),
        ("code 13", "code 0", "fail", [A.WRONG_ANSWER]),
        ("code 13", "code 13", "fail", []),
        ("code 0", "code 0", "ok", []),
        ("", "", "fail", []),
    ],
)
def test_messages_are_questions_too(told: str, expected: str, type: str, names: list[str]) -> None:
    history = run()
    send(history, told, expected, type=type)
    ask(recover(history), "code 29")
    history.expect(ANSWERS, *names, validity=Validity.INVALID if names else Validity.VALID)


def test_who_never_answers_after_recovery_broke_the_promise_and_who_answers_late_did_not() -> None:
    silent = run()
    ask(recover(silent), "", type="info")
    ask(silent.wait(6), "", type="info")
    (found,) = silent.expect(ANSWERS, A.UNANSWERED).anomalies
    assert "asked for a topic without queues 2 times" in found.explanation and "broker-1" in found.explanation
    assert "(timeout)" in found.explanation
    late = run()
    ask(recover(late), "", type="info")
    ask(late.wait(6), "code 29")
    late.expect(ANSWERS, validity=Validity.VALID)
    other = run()
    ask(recover(other), "code 29", to="broker-0")
    ask(other.wait(6), "", type="info")
    other.expect(ANSWERS, validity=Validity.UNKNOWN)  # once says little
    ask(other.wait(1), "", type="info")
    other.expect(ANSWERS, A.UNANSWERED)


def quiet(times: int, *, answered: bool = False, fault_s: float = 0.0) -> History:
    """Asked every 3 s from 11 s after the start of the load on, with a fault that began that much earlier."""
    history = run().wait(11 - fault_s)
    if fault_s:
        history.undo("kill", history.inject("kill", "broker-2"))
    history.wait(fault_s)
    for number in range(times):
        right = answered and number == 1
        ask(history, "code 29" if right else "", type="ok" if right else "info")
        history.wait(3)
    history.phase("heal")
    return recover(history)


def test_who_never_answers_while_no_fault_is_in_force_broke_the_promise() -> None:
    silent = quiet(3)
    ask(silent, "code 29")
    (found,) = silent.expect(ANSWERS, A.UNANSWERED, validity=Validity.INVALID).anomalies
    assert "3 times while no fault was in force" in found.explanation


@pytest.mark.parametrize(
    "history", [quiet(2), quiet(4, fault_s=5.0), quiet(3, answered=True)], ids=["too seldom", "after a fault", "once"]
)
def test_who_was_asked_too_seldom_or_after_a_fault_or_has_answered_once_owes_nothing_more(history: History) -> None:
    ask(history, "code 29")
    history.expect(ANSWERS, validity=Validity.VALID)


@pytest.mark.parametrize(("times", "names"), [(4, ()), (5, (A.UNANSWERED,))])
def test_real_machines_may_be_late_for_as_long_as_service_may_pause(times: int, names: tuple[str, ...]) -> None:
    history = quiet(times)
    history.meta["deployment"] = "process"
    ask(history, "code 29")
    history.expect(ANSWERS, *names)


@pytest.mark.parametrize(("stall_ms", "names"), [(2_000, ()), (600, (A.UNANSWERED,))])
def test_while_the_harness_stood_still_nobody_knows_who_answers(stall_ms: int, names: tuple[str, ...]) -> None:
    history = run().wait(11)
    for number in range(3):
        if number == 1:
            history.row("harness", f="stall", value={"ms": stall_ms})
        ask(history, "", type="info")
        history.wait(3)
    history.phase("heal")
    ask(recover(history), "code 29")
    history.expect(ANSWERS, *names)


@pytest.mark.parametrize(
    ("fault", "led_again", "names"),
    [("wipe", False, ()), ("wipe", True, (A.UNANSWERED,)), ("kill", False, (A.UNANSWERED,))],
)
def test_while_no_replica_can_be_master_no_answer_is_owed(fault: str, led_again: bool, names: tuple[str, ...]) -> None:
    """The run took the only sure copy itself. With an election service is owed again, and a fault that took nothing
    excuses nothing."""
    history = run()
    history.undo(fault, history.inject(fault, "broker-1"))
    entry: dict[str, Any] = {"type": "apply_id", "group": "g", "broker": "broker-1", "removed": ["broker-1"], "set": []}
    history.trace("controller-0", "applied", position=7, epoch=1, value={"entry": entry})
    if led_again:
        entry = {"type": "elect", "group": "g", "master": "broker-0", "set": ["broker-0"], "set_epoch": 9}
        history.trace("controller-0", "applied", position=8, epoch=1, value={"entry": entry})
    history.wait(11)
    for _ in range(3):
        ask(history, "", type="info")
        history.wait(3)
    history.phase("heal")
    ask(recover(history), "code 29")
    history.expect(ANSWERS, *names)


def test_who_did_not_ask_long_enough_or_at_all_knows_nothing() -> None:
    early, never, unrecovered = run(), run(), run()
    ask(early, "code 29")
    ask(recover(early).wait(4), "", type="info")
    ask(never, "code 29")
    recover(never)
    ask(unrecovered, "code 29")
    ask(recover(unrecovered, recovered=False).wait(6), "", type="info")
    for history in (early, never, unrecovered, recover(run())):
        history.expect(ANSWERS, validity=Validity.UNKNOWN)


def test_a_run_that_ended_before_its_drain_has_left_nobody_without_an_answer() -> None:
    history = run()
    ask(history, "code 29", to="broker-0")
    ask(history.wait(20), "", type="info")
    history.phase("recover")
    history.recovered()
    assert "the run ended before" in history.expect(ANSWERS, validity=Validity.UNKNOWN).why


def test_each_that_was_asked_is_asked_again_after_the_run() -> None:
    history = run()
    ask(history, "", type="info", to="broker-2")
    ask(recover(history), "code 29")
    assert "broker-2 was not asked after the run" in history.expect(ANSWERS, validity=Validity.UNKNOWN).why


def test_without_such_questions_the_law_does_not_apply() -> None:
    history = History(meta={"uses": ["queues"]})
    history.expect(ANSWERS, validity=Validity.NOT_APPLICABLE)


def test_it_keeps_the_contract_of_laws() -> None:
    good, bad = run(), run()
    for history, told in ((good, "code 29"), (bad, "code 0")):
        ask(recover(history), told)
    known = registry()
    kernels = [known.kernels[number] for number in known.of("answers")]
    check_law(kernels, bad=[(bad.table(), [A.WRONG_ANSWER])], near_miss=[good.table()], context=good.context())
