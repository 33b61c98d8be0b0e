"""A replica deletes from its log what it need not keep, within a bound; and why a log may be longer for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.checkers.histories import SIZE, History
from tests.checkers.names import A, L

LAW = L.DURABILITY
#: What is kept at least, and the most that a segment holds.
RETAIN, SEGMENT = 10 * SIZE, 4 * SIZE
NODE = "broker-0"


def log(
    records: int = 40,
    *,
    first: int = 0,
    tiered: bool = True,
    covered: int | None = None,
    epoch: int = 1,
    seconds: float = 6,
    retain: int = RETAIN,
    end: int | None = None,
    largest: int = SIZE,
    before: Callable[[History], object] | None = None,
    after: Callable[[History], object] | None = None,
) -> History:
    """A replica whose log has so many records, all of them confirmed, and begins at the record ``first``. The tier, as
    far as the replica knows, holds those below ``covered`` (all), by a manifest of this epoch."""
    history = History(meta={"tells": ["operations", "retention"]})
    history.phase("load")
    if before is not None:
        before(history)
    told = {"role": "master", "retain_bytes": retain, "segment_bytes": SEGMENT, "tiered": tiered}
    history.trace(NODE, "role", epoch=1, value=told)
    for sequence in range(records):
        at: dict[str, Any] = {"queue": 0, "offset": sequence, "position": sequence * SIZE, "epoch": 1}
        history.trace(NODE, "append", **at, value={"size": largest if sequence == 20 else SIZE})
    history.confirm(NODE, records * SIZE)
    if tiered:
        ends = records if covered is None else covered
        history.trace(NODE, "tier_view", queue=0, offset=ends, position=ends * SIZE, epoch=epoch, value={"version": 1})
    if first:
        history.trace(NODE, "retention", position=first * SIZE, value={"rule": "size", "minimums": {}})
    if after is not None:
        after(history)
    history.wait(seconds)
    history.phase("collect")
    history.row("final", f="node", node=NODE, value={"maximums": {"0": records if end is None else end}})
    return history


def late(history: History) -> list[str]:
    return [one.explanation for one in history.verdict(LAW).anomalies if one.name == A.LATE_RETENTION]


@pytest.mark.parametrize("tiered", [True, False])
def test_a_log_that_never_shrinks_is_found(tiered: bool) -> None:
    (told,) = late(log(tiered=tiered))
    assert f"must keep {RETAIN} bytes of its log" in told and "still began at 0" in told
    assert f"might delete what lies before position {30 * SIZE}" in told


@pytest.mark.parametrize(
    "how",
    [
        {"first": 26},  # the last segment may have begun there
        {"records": 14},  # one segment beyond what is kept
        {"retain": 0},  # all is to be kept
        {"covered": 4},  # the tier lacks the rest
        {"covered": 0},
        {"covered": 4, "records": 40, "end": 40},
        {"epoch": 0},  # what another master's manifest names may be other records
        {"end": 41, "covered": 4},
        {"seconds": 2.0},  # within the bound
        {"largest": 30 * SIZE},  # a record that is larger than a segment has one of its own
    ],
)
def test_a_log_that_is_as_short_as_it_may_be_is_lawful(how: dict[str, Any]) -> None:
    assert not late(log(**how))


def test_a_log_that_shrinks_by_less_than_it_might_is_found() -> None:
    (told,) = late(log(first=20))
    assert f"still began at {20 * SIZE}" in told
    assert late(log(covered=20))


def _fault(name: str, *targets: str, lasts_s: float = 2.0) -> Callable[[History], object]:
    def hinder(history: History) -> None:
        fault = history.inject(name, *targets)
        history.wait(lasts_s)
        history.undo(name, fault)

    return hinder


def test_a_fault_puts_deletions_off_until_it_is_over() -> None:
    hinder = _fault("slow_link", NODE)
    assert not late(log(after=hinder, seconds=5))
    assert late(log(after=hinder, seconds=9))


def waiting(*records: tuple[int, int]) -> Callable[[History], object]:
    """Records of deferred messages: (position, the one that it ends or is a copy of; -1 for none; -2 for one that is
    settled)."""

    def add(history: History) -> None:
        for place, settles in records:
            value: dict[str, Any] = {"size": SIZE}
            value |= {"system": "deferred"} if settles < 0 or place < 40 * SIZE else {"system": "settled"}
            value |= {"settles": settles} if settles >= 0 else {}
            history.trace(NODE, "append", position=place, epoch=1, value=value)

    return add


def test_a_message_that_waits_is_kept_with_all_behind_it() -> None:
    assert not late(log(after=waiting((4 * SIZE, -1))))
    (told,) = late(log(after=waiting((20 * SIZE, -1))))
    assert f"might delete what lies before position {20 * SIZE}" in told
    (told,) = late(log(after=waiting((4 * SIZE, -1), (41 * SIZE, 4 * SIZE))))  # it has come, or never will
    assert f"might delete what lies before position {30 * SIZE}" in told
    (told,) = late(log(after=waiting((4 * SIZE, -1), (24 * SIZE, 4 * SIZE))))  # it was copied behind others
    assert f"might delete what lies before position {24 * SIZE}" in told


def test_a_fault_of_the_tier_and_a_switch_are_no_excuse() -> None:
    """Only what the replica knows of the tier counts."""
    assert late(log(after=lambda history: history.inject("tier_outage", "tier")))
    switch = {"switches_master": ["broker-1"]}
    assert late(log(after=lambda history: history.inject("switch", "broker-1", effects=switch)))


@pytest.mark.parametrize("how", ["wiped", "begun"])
def test_a_log_is_kept_whole_for_who_begins_anew(how: str) -> None:
    def begun(history: History) -> None:
        history.trace("broker-1", "bootstrap", position=0, epoch=1, value={"queues": {}})

    hinder = begun if how == "begun" else _fault("wipe", "broker-1")
    assert not late(log(after=hinder, seconds=28))
    assert late(log(after=hinder, seconds=36))


def test_a_log_is_kept_whole_for_a_client_that_reads_all_of_it() -> None:
    def asked(history: History) -> None:
        history.row("op", type="invoke", f="question", process="limits", value={"question": "logs", "to": NODE})

    assert not late(log(after=asked, seconds=8))
    assert late(log(after=asked, seconds=12))


def test_a_fault_that_declares_nothing_makes_it_unknown() -> None:
    history = log(after=lambda history: history.inject("odd", NODE, effects=None))
    assert not late(history)
    assert "deleted nothing for long" in history.verdict(LAW).why


def test_what_a_replica_knew_of_the_tier_in_an_earlier_life_may_be_lost() -> None:
    def earlier(history: History) -> None:
        history.trace(NODE, "tier_view", queue=0, offset=40, position=40 * SIZE, epoch=1, value={"version": 1})
        history.trace(NODE, "start", value={"generation": 2})

    assert not late(log(covered=0, before=earlier))


def test_real_machines_may_take_four_times_as_long() -> None:
    for seconds, found in ((8.0, False), (14.0, True)):
        history = log(seconds=seconds)
        history.meta["deployment"] = "process"
        assert bool(late(history)) is found


def test_a_driver_that_tells_nothing_of_retention_is_not_judged() -> None:
    history = log()
    history.meta["tells"] = ["operations"]
    assert not late(history)
