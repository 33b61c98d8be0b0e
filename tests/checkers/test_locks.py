"""While a member of a group holds the lock of a queue, no other member is given it."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.testing.laws import check_law
from chaos.verdict import Validity
from checkers.consumers.locks import Locks
from tests.checkers.histories import History
from tests.checkers.names import A, L

CONSUMERS = L.CONSUMERS


def run(**meta: Any) -> History:
    history = History(meta={"uses": ["queues", "deliveries"], **meta})
    history.master("broker-0", 1)
    history.phase("load")
    return history


def ask(
    history: History, owner: str, *queues: int, f: str = "lock", type: str = "ok", group: str = "g", ms: int = 3000
) -> None:
    value = {"group": group, "owner": owner, "asked": list(queues), **({"for_ms": ms} if f == "lock" else {})}
    asked = history.invoke(f, process=f"{owner}.0", value=value)
    given = {"queues": list(queues)} if f == "lock" and type == "ok" else {}
    history.complete(asked, type, value={**value, **given})


def unlock(history: History, owner: str, *queues: int, type: str = "ok") -> None:
    ask(history, owner, *queues, f="unlock", type=type)


def done(history: History) -> History:
    history.send(0)
    history.commit(1)
    return history.finish(0)


def judged(history: History, *names: str, validity: Validity) -> Any:
    return done(history).expect(CONSUMERS, *names, validity=validity)


def test_a_lock_that_two_members_hold_at_once() -> None:
    history = run()
    ask(history, "one", 0, 1)
    ask(history, "two", 1)
    verdict = judged(history, A.DOUBLE_OWNER, validity=Validity.INVALID)
    (wrong,) = [one for one in verdict.anomalies if one.name == A.DOUBLE_OWNER]
    assert "gave the lock of queue 1 to two at" in wrong.explanation and "though one held it" in wrong.explanation
    assert (wrong.queue, len(wrong.rows)) == (1, 2)


@pytest.mark.parametrize("type", ["ok", "info", "fail"])
def test_who_asks_to_give_a_lock_back_may_hold_it_no_longer(type: str) -> None:
    history = run()
    ask(history, "one", 0, 1)
    unlock(history, "one", 1, type=type)
    ask(history, "two", 1)
    judged(history, validity=Validity.VALID)


def test_what_another_one_gives_back_is_no_end() -> None:
    history = run()
    ask(history, "one", 0)
    unlock(history, "three", 0)
    unlock(history, "one", 1)
    ask(history, "two", 0)
    judged(history, A.DOUBLE_OWNER, validity=Validity.INVALID)


def test_a_lock_is_trusted_for_its_time_and_that_of_its_last_renewal() -> None:
    history = run()
    ask(history, "one", 0, ms=1000)
    history.wait(1.1)
    ask(history, "two", 0, ms=1000)
    history.wait(0.8)
    ask(history, "two", 0, ms=1000)
    history.wait(0.8)
    ask(history, "three", 0)
    judged(history, A.DOUBLE_OWNER, validity=Validity.INVALID)


def test_what_was_asked_and_not_given_is_nobodys() -> None:
    history = run()
    ask(history, "one", 0, type="info")
    ask(history, "two", 0)
    ask(history, "three", 0, type="fail")
    ask(history, "four", 0, group="others")
    ask(history, "two", 0)
    judged(history, validity=Validity.VALID)


def test_clocks_that_were_set_and_weaker_profiles_leave_it_open() -> None:
    history = run()
    ask(history, "one", 0)
    history.inject("clock", "broker-0", effects={"skews_clocks": ["broker-0"]})
    ask(history, "two", 0)
    assert "set clocks" in judged(history, validity=Validity.UNKNOWN).why
    lax = run(profile={"flush": "async", "acks": "master", "unclean": True, "min_in_sync": 1})
    ask(lax, "one", 0)
    lax.undo("kill", lax.inject("kill", "broker-0"))
    lax.master("broker-1", 2)
    ask(lax, "two", 0)
    assert "may let locks be forgotten" in done(lax).verdict(CONSUMERS).why


def test_the_law_keeps_the_contract() -> None:
    good, bad = run(), run()
    for history in (good, bad):
        ask(history, "one", 0)
        ask(history, "two", 0 if history is bad else 1)
    check_law(
        Locks(), bad=[(done(bad).table(), [A.DOUBLE_OWNER])], near_miss=[done(good).table()], context=good.context()
    )
