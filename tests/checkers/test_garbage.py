"""Objects of the tier that nobody names: who should have deleted them, by when, what excuses a delay, and whether they
stay deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from chaos.verdict import Validity
from tests.checkers.names import A, L
from tests.checkers.test_tier import Tiered

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


def test_an_object_that_outlives_a_whole_master_term_is_found() -> None:
    verdict = at_work(left().wait(6)).expect(LAW, A.NEVER_COLLECTED)
    assert KEY in verdict.anomalies[0].explanation


@pytest.mark.parametrize("after_s", [1, 4])
def test_an_object_that_goes_within_the_bound_is_lawful(after_s: float) -> None:
    history = left().wait(after_s)
    delete(history)
    at_work(history.wait(9)).expect(LAW, validity=Validity.VALID)


def test_a_master_term_that_was_at_work_for_less_than_the_bound_proves_nothing() -> None:
    history = at_work(left().wait(4))
    history.wait(20)
    history.expect(LAW, validity=Validity.VALID)


def test_what_arrives_after_the_take_over_waits_for_the_next_master_term() -> None:
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


def deleted_once() -> Tiered:
    """An object was put and deleted."""
    history = Tiered().begin()
    put(history)
    history.wait(1)
    delete(history)
    return history.wait(1)


def held_in_the_end(history: Tiered) -> Tiered:
    history.row("harness", f="phase", value={"phase": "drain"})
    history.row("final", f="orphan", node="store-0", queue=0, value={"key": KEY})
    return history


def again(history: Tiered) -> Tiered:
    delete(history)
    return history


def refused(history: Tiered) -> Tiered:
    told = {"key": KEY, "caller": "broker-1", "outcome": "exists", "request": "again"}
    history.trace("store-0", "store_put", queue=0, hash=1, value=told)
    return history


@pytest.mark.parametrize("shown", [held_in_the_end, again, refused])
def test_an_object_that_is_there_after_its_deletion_is_found(shown: Callable[[Tiered], Tiered]) -> None:
    verdict = shown(deleted_once()).verdict(LAW)
    (told,) = (anomaly for anomaly in verdict.anomalies if anomaly.name == A.OBJECT_RETURNED)
    assert KEY in told.explanation and len(told.rows) == 2


def test_a_deletion_while_the_store_is_read_after_the_run_is_lawful() -> None:
    history = Tiered().begin()
    put(history)
    history.row("harness", f="phase", value={"phase": "drain"})
    delete(history)
    history.row("final", f="orphan", node="store-0", queue=0, value={"key": KEY})
    assert A.OBJECT_RETURNED not in {anomaly.name for anomaly in history.verdict(LAW).anomalies}


@pytest.mark.parametrize("shown", [held_in_the_end, again, refused])
@pytest.mark.parametrize("why", ["it was written again", "the disk was taken back", "the host was lost", "in another"])
def test_an_object_may_be_there_after_its_deletion(shown: Callable[[Tiered], Tiered], why: str) -> None:
    history = deleted_once()
    if why == "it was written again":
        put(history)
    elif why == "the disk was taken back":
        history.inject("restore_snapshot", "store-0", effects={"loses_disk": ["store-0"]})
    elif why == "the host was lost":
        history.row("harness", f="host_lost", value={"nodes": ["store-0"]})
    else:
        (row,) = (row for row in history.rows if row["f"] == "store_delete")
        row["node"] = "store-1"
    assert A.OBJECT_RETURNED not in {anomaly.name for anomaly in shown(history).verdict(LAW).anomalies}


def test_an_object_may_be_made_by_a_compare_and_set_which_is_no_manifest_where_it_names_no_queue() -> None:
    history = deleted_once()
    for version in (1, 2, 1):
        told = {"key": KEY, "caller": "limits", "outcome": "applied", "version": version, "content": {}}
        history.trace("store-0", "store_cas", queue=-1, hash=version, value=told)
    delete(history)
    history.upload(4)
    history.finals(0, 1, 2, 3)
    for law in (LAW, L.UPLOAD_BOUND, L.SINGLE_UPLOADER, L.TIER_METADATA):
        history.expect(law)
    again(history).expect(LAW, A.OBJECT_RETURNED)


def untrimmed(
    retain_bytes: int, *, waits: Sequence[float] = (1, 3, 3), last_epoch: int = 1, trims_at: int = -1
) -> Tiered:
    """Versions at these distances in s, each with an object of 100 bytes more; the tier is to keep ``retain_bytes``.
    The version ``trims_at`` names its newest object alone."""
    history = Tiered().begin(0)
    for version, wait_s in enumerate((0, *waits), 1):
        history.wait(wait_s)
        epoch = last_epoch if version == len(waits) + 1 else 1
        names = range(version + 1 if version == trims_at else 0, version + 2)
        segments = [{"key": f"k{base}", "base": base, "count": 1, "bytes": 100} for base in names]
        told = {"version": version, "retain_bytes": retain_bytes}
        history.trace("broker-0", "tier_commit", queue=0, offset=version + 2, epoch=epoch, value=told)
        content = {"start": names[0], "end": version + 2, "writer": "broker-0", "segments": segments}
        value = {"version": version, "outcome": "applied", "content": content}
        history.trace("store-0", "store_cas", queue=0, offset=version + 2, epoch=epoch, hash=version, value=value)
    return history


def trim_anomalies(history: Tiered) -> list[str]:
    found = history.verdict(LAW).anomalies
    return [anomaly.explanation for anomaly in found if anomaly.name == A.NEVER_TRIMMED]


def test_a_manifest_that_is_never_trimmed_is_found() -> None:
    (told,) = trim_anomalies(untrimmed(250))
    assert "must keep 250 bytes" in told and "for 6.0 s" in told
    assert trim_anomalies(untrimmed(250, waits=(0.2,) * 15 + (0.3,) + (0.2,) * 15))


@pytest.mark.parametrize(
    "how",
    [
        {"retain_bytes": 0},  # it is to keep everything
        {"retain_bytes": 500},  # the oldest object alone is too much
        {"retain_bytes": 250, "waits": (1, 2, 2)},  # within the bound
        {"retain_bytes": 250, "trims_at": 3},
        {"retain_bytes": 250, "last_epoch": 2},  # another master term
        {"retain_bytes": 250, "waits": (0.2,) * 30},  # there is always something to upload
    ],
)
def test_a_manifest_that_is_trimmed_in_time_is_lawful(how: dict[str, Any]) -> None:
    assert not trim_anomalies(untrimmed(**how))


@pytest.mark.parametrize(
    ("name", "target", "until_s", "lawful"),
    [
        ("kill", "broker-0", 1, True),
        ("tier_outage", "tier", 1, True),
        ("tier_outage", "tier", 16, False),  # what waited is uploaded by then
        ("kill", "b-7", 1, False),
    ],
)
def test_an_uploader_that_catches_up_may_trim_later(name: str, target: str, until_s: int, lawful: bool) -> None:
    history = Tiered()
    history.undo(name, history.inject(name, target))
    history.wait(until_s)
    later = untrimmed(250)
    history.rows += [
        {**row, "index": row["index"] + len(history.rows), "time_ns": row["time_ns"] + history.now_ns}
        for row in later.rows
    ]
    assert bool(trim_anomalies(history)) is not lawful


def between(history: Tiered, at_s: float, name: str, target: str) -> Tiered:
    """The same history, and a fault that was in force for a moment at this time."""
    fault = Tiered()
    fault.undo(name, fault.inject(name, target))
    rows = [{**row, "time_ns": row["time_ns"] + round(at_s * 1e9)} for row in fault.rows]
    history.rows = sorted([*history.rows, *rows], key=lambda row: row["time_ns"])
    for index, row in enumerate(history.rows):
        row["index"] = index
    return history


@pytest.mark.parametrize(
    ("name", "target", "after_s", "lawful"),
    [
        ("kill", "store-0", 19, True),
        ("kill", "store-0", 21, False),
        ("slow_link", "broker-1", 21, False),
        ("tier_outage", "tier", 60, True),  # it may have shown an old list
    ],
)
def test_a_fault_that_is_long_over_excuses_no_garbage(name: str, target: str, after_s: float, lawful: bool) -> None:
    """15 s after it an uploader has put up what waited, and 5 s more it may take to collect."""
    history = at_work(left().wait(after_s))
    between(history, 0.4, name, target).expect(LAW, *(() if lawful else (A.NEVER_COLLECTED,)))


@pytest.mark.parametrize(("waits", "lawful"), [((1, 2, 14, 3), True), ((1, 2, 14, 3, 3, 3), False)])
def test_a_fault_that_is_long_over_excuses_no_manifest_that_is_never_trimmed(
    waits: Sequence[float], lawful: bool
) -> None:
    history = between(untrimmed(250, waits=waits), 2, "tier_outage", "tier")
    assert bool(trim_anomalies(history)) is not lawful


@pytest.mark.parametrize("outcome", ["", "refused"])
def test_a_request_of_which_nobody_tells_what_came_of_it_shows_no_object(outcome: str) -> None:
    def shown(outcome: str) -> set[str]:
        history = left()
        put(history)
        delete(history)
        told = {"key": KEY, "caller": "broker-1", "request": "again"} | ({"outcome": outcome} if outcome else {})
        history.trace("store-0", "store_put", queue=0, hash=1, value=told)
        return {anomaly.name for anomaly in history.verdict(LAW).anomalies}

    assert A.OBJECT_RETURNED in shown("exists") and A.OBJECT_RETURNED not in shown(outcome)


def ended(history: Tiered, seconds: float) -> Tiered:
    """Nobody writes any more; so much later the final read is over."""
    history.wait(seconds)
    history.phase("collect")
    return history


@pytest.mark.parametrize("seconds, lawful", [(3, True), (6, False)])
def test_a_manifest_stands_until_the_end_of_the_final_read(seconds: float, lawful: bool) -> None:
    """Its last version names too much: an idle tier is trimmed, too."""
    assert bool(trim_anomalies(ended(untrimmed(250, waits=(1, 1)), seconds))) is not lawful
    assert not trim_anomalies(ended(untrimmed(250, waits=(1, 1), trims_at=3), seconds))


@pytest.mark.parametrize("seconds, lawful", [(18, True), (22, False)])
def test_a_fault_is_over_for_an_idle_tier_too(seconds: float, lawful: bool) -> None:
    history = ended(untrimmed(250, waits=(1, 1)), seconds)
    assert bool(trim_anomalies(between(history, 1.5, "tier_outage", "tier"))) is not lawful


@pytest.mark.parametrize("seconds, lawful", [(4, True), (6, False)])
def test_the_last_master_term_is_at_work_until_the_end_of_the_final_read(seconds: float, lawful: bool) -> None:
    history = left().wait(seconds).finals(0, 1, 2, 3)
    history.expect(LAW, *(() if lawful else (A.NEVER_COLLECTED,)))
