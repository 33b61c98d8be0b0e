"""A replica that lives, and that nothing hinders, comes into the SyncStateSet within a bound; and what excuses it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chaos.verdict import Validity
from tests.checkers.histories import BROKERS, SIZE, History
from tests.checkers.names import A, L
from tests.checkers.test_in_sync import begun, counts, entry

LAW = L.IN_SYNC
Hinders = Callable[[History], object]


def out(*, seconds: float = 20, joins: bool = False, hinders: Hinders | None = None, phase: str = "collect") -> History:
    """broker-1 comes into the set and leaves it; broker-2 is in it all the time. After so long the run ends, or
    broker-1 joins again."""
    history = begun()
    counts(history, "confirm", ("broker-0",), position=2 * SIZE)
    counts(history, "set", ("broker-0",), BROKERS[1:])
    entry(history, 2, "alter", BROKERS, 2)
    counts(history, "set", BROKERS)
    entry(history, 3, "alter", ("broker-0", "broker-2"), 3)
    counts(history, "set", ("broker-0", "broker-2"))
    if hinders is not None:
        hinders(history.wait(5))
    history.wait(seconds)
    if joins:
        counts(history, "set", ("broker-0", "broker-2"), ("broker-1",))
        entry(history, 4, "alter", BROKERS, 4)
        counts(history, "set", BROKERS)
        history.wait(30)
    history.phase(phase)
    return history


@pytest.mark.parametrize("joins", [True, False])
def test_a_replica_that_joins_late_or_never_is_found(joins: bool) -> None:
    (told,) = out(joins=joins).expect(LAW, A.LATE_JOIN).anomalies
    assert "broker-1 lived and was in no SyncStateSet of g from " in told.explanation


@pytest.mark.parametrize("joins", [True, False])
def test_a_replica_may_take_as_long_as_the_bound(joins: bool) -> None:
    out(seconds=9, joins=joins).expect(LAW, validity=Validity.VALID)


def _fault(name: str, *targets: str, lasts_s: float = 1.0) -> Hinders:
    def hinder(history: History) -> None:
        fault = history.inject(name, *targets)
        history.wait(lasts_s)
        history.undo(name, fault)

    return hinder


def _started(history: History) -> None:
    history.trace("broker-1", "start", value={"generation": 2, "disk": "broker-1"})


def _elected(history: History) -> None:
    entry(history, 4, "elect", ("broker-0", "broker-2"), 4, epoch=2)


HINDERS: dict[str, Hinders] = {
    "a fault": _fault("slow_link", "broker-0"),
    "a long fault": _fault("kill", "broker-1", lasts_s=60),
    "a start": _started,
    "an election": _elected,
}


@pytest.mark.parametrize("why", [*HINDERS])
def test_what_hinders_a_replica_gives_it_the_whole_bound_again(why: str) -> None:
    out(seconds=9, hinders=HINDERS[why]).expect(LAW, validity=Validity.VALID)
    out(seconds=11, hinders=HINDERS[why]).expect(LAW, A.LATE_JOIN)


def test_a_fault_that_never_ends_excuses_it_to_the_end() -> None:
    out(hinders=lambda history: history.inject("kill", "broker-1")).expect(LAW, validity=Validity.VALID)
    crashed = out(hinders=lambda history: history.trace("broker-1", "crash", value={}))
    crashed.expect(LAW, validity=Validity.VALID)


@pytest.mark.parametrize(
    "name, target, effects",
    [("tier_outage", "tier", "usual"), ("removal", "broker-2", {"removes_replica": ["broker-2"]})],
)
def test_what_does_not_concern_it_is_no_excuse(name: str, target: str, effects: str | dict[str, list[str]]) -> None:
    out(hinders=lambda history: history.inject(name, target, effects=effects)).expect(LAW, A.LATE_JOIN)


def test_a_fault_that_declares_nothing_makes_it_unknown() -> None:
    history = out(hinders=lambda history: history.inject("odd", "broker-1", effects=None))
    assert "did not join for long" in history.expect(LAW, validity=Validity.UNKNOWN).why


def test_nobody_joins_a_group_without_a_master() -> None:
    def leaderless(history: History) -> None:
        told = {"type": "masterless", "group": "g", "set": ["broker-0", "broker-2"], "set_epoch": 3}
        history.trace("controller-0", "applied", position=4, epoch=1, value={"entry": {**told, "master_epoch": 2}})

    out(hinders=leaderless).expect(LAW, validity=Validity.VALID)


def test_a_run_that_did_not_come_to_its_end_proves_nothing() -> None:
    out(phase="drain").expect(LAW, validity=Validity.VALID)


def test_real_machines_may_take_four_times_as_long() -> None:
    for seconds, found in ((35.0, False), (45.0, True)):
        history = out(seconds=seconds)
        history.meta["deployment"] = "process"
        history.expect(LAW, *[A.LATE_JOIN] if found else [])
