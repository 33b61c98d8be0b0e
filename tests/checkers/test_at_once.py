"""How many requests to the object store an uploader may have under way."""

from __future__ import annotations

from typing import Any

import pytest
from names import A, L
from test_tier import Tiered

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
