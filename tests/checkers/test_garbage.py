"""Objects of the tier that nobody names: who should have deleted them, by when, and what excuses a delay."""

from __future__ import annotations

import pytest
from names import A, L
from test_tier import Tiered

from chaos.verdict import Validity

LAW = L.TIER_CONTINUITY
KEY = "k9-of-epoch-1"


def put(history: Tiered, key: str = KEY) -> None:
    told = {"key": key, "caller": "broker-0", "outcome": "created", "request": key}
    history.trace("store-0", "store_put", queue=0, hash=1, value=told)


def delete(history: Tiered) -> None:
    told = {"key": KEY, "caller": "broker-1", "outcome": "deleted"}
    history.trace("store-0", "store_delete", queue=0, value=told)


def left(*, late: bool = False) -> Tiered:
    """An upload that was given up; then broker-1 takes the manifest over."""
    history = Tiered().begin()
    put(history, "k0")
    history.upload(4)
    if not late:
        put(history)
    history.upload(4, node="broker-1", epoch=2)
    return history


def at_work(history: Tiered) -> Tiered:
    history.upload(4, node="broker-1", epoch=2)
    return history.finals(0, 1, 2, 3)


def test_an_object_that_outlives_a_whole_mastership_is_found() -> None:
    verdict = at_work(left().wait(6)).expect(LAW, A.NEVER_COLLECTED)
    assert KEY in verdict.anomalies[0].explanation


@pytest.mark.parametrize("after_s", [1, 4])
def test_an_object_that_goes_within_the_bound_is_lawful(after_s: float) -> None:
    history = left().wait(after_s)
    delete(history)
    at_work(history.wait(9)).expect(LAW, validity=Validity.VALID)


def test_a_mastership_that_was_at_work_for_less_than_the_bound_proves_nothing() -> None:
    history = at_work(left().wait(4))
    history.wait(20)
    history.expect(LAW, validity=Validity.VALID)


def test_what_arrives_after_the_take_over_waits_for_the_next_mastership() -> None:
    history = left(late=True)
    put(history)
    at_work(history.wait(9)).expect(LAW, validity=Validity.VALID)
    history.upload(4, node="broker-2", epoch=3)
    history.wait(6)
    history.upload(4, node="broker-2", epoch=3)
    history.expect(LAW, A.NEVER_COLLECTED)


@pytest.mark.parametrize(
    ("name", "target", "lawful"),
    [("slow_link", "broker-1", True), ("kill", "store-0", True), ("tier_outage", "tier", True), ("kill", "b-7", False)],
)
def test_only_a_fault_in_the_way_excuses_a_delay(name: str, target: str, lawful: bool) -> None:
    history = left()
    history.wait(3)
    history.inject(name, target)
    at_work(history.wait(6)).expect(LAW, *(() if lawful else (A.NEVER_COLLECTED,)))


def test_on_real_machines_the_bound_is_wider() -> None:
    history = left()
    history.meta["deployment"] = "process"
    at_work(history.wait(15)).expect(LAW, validity=Validity.VALID)
    history.wait(6)
    history.upload(4, node="broker-1", epoch=2)
    history.expect(LAW, A.NEVER_COLLECTED)
