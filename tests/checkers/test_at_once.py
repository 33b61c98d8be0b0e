"""How many requests to the object store an uploader may have under way."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checkers.names import A, L
from tests.checkers.test_tier import Tiered

LAW = L.TIER_CONTINUITY


def sent(history: Tiered, *names: str, epoch: int = 1) -> None:
    for name in names:
        told = {"verb": "put", "key": name, "request": name}
        history.trace("broker-0", "tier_request", queue=0, epoch=epoch, value=told)


def done(history: Tiered, *names: str, **besides: Any) -> None:
    for name in names:
        told = {"key": name, "caller": "broker-0", "outcome": "exists", "request": name, **besides}
        history.trace("store-0", "store_put", queue=0, hash=1, value=told)


def told(history: Tiered, parallel: int | None = 2, timeout_ms: int = 1000) -> Tiered:
    """An uploader that may have so many requests under way."""
    value: dict[str, Any] = {"version": 1, "confirm": 400}
    if parallel is not None:
        value |= {"parallel": parallel, "timeout_ms": timeout_ms}
    history.trace("broker-0", "tier_commit", queue=0, offset=4, position=400, epoch=1, value=value)
    return history


def found(history: Tiered) -> list[str]:
    return [one.explanation for one in history.verdict(LAW).anomalies if one.name == A.TOO_MANY_REQUESTS]


def three(*, parallel: int | None = 2, timeout_ms: int = 1000, wait_s: float = 0.0, recovered: bool = False) -> Tiered:
    history = told(Tiered().begin(), parallel, timeout_ms)
    sent(history, "a", "b", "c")
    history.wait(wait_s)
    done(history, "a", "b", "c", **({"recovered": True} if recovered else {}))
    return history


def test_an_uploader_with_more_requests_under_way_than_it_may_is_found() -> None:
    (text,) = found(three())
    assert "broker-0 had 3 requests of its uploads" in text and "where it may have 2" in text


def test_as_many_as_it_may_and_one_after_the_other_are_lawful() -> None:
    assert not found(three(parallel=3))
    history = told(Tiered().begin())
    sent(history, "a", "b")
    done(history, "a")
    sent(history, "c")
    done(history, "b", "c")
    assert not found(history)


def test_requests_of_reads_and_of_another_master_term_count_for_themselves() -> None:
    history = told(Tiered().begin())
    sent(history, "a", "b")
    sent(history, "r", epoch=-1)
    sent(history, "c", epoch=3)
    done(history, "a", "b", "r", "c")
    assert not found(history)


@pytest.mark.parametrize(
    "how",
    [
        {"timeout_ms": 300, "wait_s": 0.5},  # the uploader has given them up
        {"parallel": None},  # nobody tells how many it may have
        {"recovered": True},  # the store tells of them a life later
    ],
)
def test_what_may_be_over_for_the_uploader_does_not_count(how: dict[str, Any]) -> None:
    assert not found(three(**how))


@pytest.mark.parametrize(("target", "lawful"), [("broker-0", True), ("store-0", True), ("broker-2", False)])
def test_a_fault_that_hit_the_uploader_or_the_store_may_have_ended_them(target: str, lawful: bool) -> None:
    history = told(Tiered().begin())
    sent(history, "a", "b")
    history.undo("slow_link", history.inject("slow_link", target))
    sent(history, "c")
    done(history, "a", "b", "c")
    assert bool(found(history)) is not lawful


def test_a_request_that_was_never_done_does_not_count_nor_does_anything_outside_of_the_simulator() -> None:
    history = told(Tiered().begin())
    sent(history, "a", "b", "c")
    done(history, "a", "b")
    assert not found(history)
    history = three()
    history.meta["deployment"] = "process"
    assert not found(history)


def pressed(
    *,
    count: int = 16,
    gap_s: float = 0.1,
    epochs: int = 1,
    between: str = "",
    skewed: str = "",
    declared: bool = True,
    queues: int = 1,
) -> Tiered:
    """An uploader asks for a manifest again and again, and in the middle for something ``between``, if anything."""
    history = told(Tiered().begin())
    if skewed:
        history.inject("clock", skewed, effects={"skews_clocks": [skewed]} if declared else None)
    for number in range(count):
        history.wait(gap_s)
        epoch, queue = 1 + number * epochs // count, number % queues
        value = {"verb": "get", "key": f"manifest-{queue}", "request": f"r{number}"}
        history.trace("broker-0", "tier_request", queue=queue, epoch=epoch, value=value)
        if between and number == count // 2:
            value = {"verb": between, "key": "manifest-0", "request": "between"}
            history.trace("broker-0", "tier_request", queue=0, epoch=-1 if between == "get" else 1, value=value)
    return history


def restless(history: Tiered) -> list[str]:
    return [one.explanation for one in history.verdict(LAW).anomalies if one.name == A.NO_BACK_OFF]


def test_an_uploader_that_asks_again_without_a_pause_is_found_once_for_each_queue() -> None:
    (text,) = restless(pressed(count=40))
    assert "broker-0 asked for manifest-0 16 times in a row within 1.6 s" in text
    assert len(restless(pressed(count=64, queues=2))) == 2
    assert restless(pressed(between="get")), "reads of clients are none of an uploader's requests"
    assert restless(pressed(skewed="broker-2")), "a clock of somebody else"


@pytest.mark.parametrize(
    "how",
    [
        {"count": 15},
        {"gap_s": 0.7},  # sixteen take more than ten seconds
        {"count": 28, "between": "cas"},  # it got an answer, and went on
        {"count": 30, "epochs": 2},
        {"count": 30, "queues": 2},
        {"skewed": "broker-0"},
        {"skewed": "broker-0", "declared": False},
    ],
)
def test_who_waits_or_gets_on_or_has_a_strange_clock_is_patient(how: dict[str, Any]) -> None:
    assert not restless(pressed(**how))


def test_how_often_one_asks_is_judged_in_the_simulator_alone() -> None:
    history = pressed()
    history.meta["deployment"] = "process"
    assert not restless(history)
