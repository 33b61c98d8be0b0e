"""When what is acknowledged has to be in the tier, and in how large segments."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from chaos.history.run_meta import RunMeta
from chaos.judging.shard import Shard
from chaos.law import RunContext
from chaos.verdict import Validity
from checkers.tier_continuity import uploads
from tests.checkers.histories import REPORTED
from tests.checkers.names import A, L
from tests.checkers.test_kernels import check_as_many, steps
from tests.checkers.test_tier import Tiered

LAW = L.TIER_CONTINUITY


def found(history: Tiered, name: str) -> list[str]:
    return [one.explanation for one in history.verdict(LAW).anomalies if one.name == name]


def acknowledged(*, tiered_after_s: float = 20.0, end: int = 4, quiet: bool = True, wait_s: float = 40.0) -> Tiered:
    """The message at offset 3 is acknowledged in a run that has been quiet for long, and comes into the tier later."""
    history = Tiered().begin()
    history.upload(3)
    if not quiet:
        history.undo("pause", history.inject("pause", "broker-2"))
    history.wait(20 if quiet else 1)
    history.send(3)
    history.wait(tiered_after_s)
    history.upload(end, segments=[(0, 3), (3, 1)] if end == 4 else [(0, 3)])
    history.wait(wait_s - tiered_after_s)
    return history.finals(0, 1, 2, 3)


def test_a_message_that_is_long_acknowledged_and_not_in_the_tier_is_late() -> None:
    (told,) = found(acknowledged(), A.LATE_UPLOAD)
    assert "offset 3 of queue 0" in told and "15 s later the tier held the queue only up to offset 3" in told
    acknowledged().expect(LAW, A.LATE_UPLOAD)


@pytest.mark.parametrize(
    "how",
    [
        {"tiered_after_s": 14.0},  # in time
        {"quiet": False},  # a fault had just ended
        {"end": 3, "wait_s": 14.0, "tiered_after_s": 1.0},  # the run ended before the bound had passed
    ],
)
def test_what_comes_in_time_or_after_a_fault_or_may_still_come_is_not_late(how: dict[str, Any]) -> None:
    assert not found(acknowledged(**how), A.LATE_UPLOAD)


def test_where_losses_are_allowed_and_on_real_machines_uploads_may_be_later() -> None:
    history = acknowledged()
    history.meta["profile"] = {"acks": "master"}
    assert not found(history, A.LATE_UPLOAD)
    history = acknowledged()
    history.meta["deployment"] = "process"
    assert not found(history, A.LATE_UPLOAD)
    history = acknowledged(tiered_after_s=70, wait_s=90)
    history.meta["deployment"] = "process"
    assert found(history, A.LATE_UPLOAD)


def crumbs(
    count: int,
    *,
    size: int = 100,
    age_s: float = 0.1,
    fault: bool = False,
    last_epoch: int = 1,
    segment_records: int = 0,
) -> Tiered:
    """Segments of one record each, one after the other, where 1000 bytes fill one and a record is old after 1 s."""
    history = Tiered().begin(0)
    if fault:
        history.inject("slow_link", "broker-0")
    for version in range(1, count + 2):
        history.append("broker-0", version - 1)
        history.wait(age_s)
        epoch = last_epoch if version > count // 2 else 1
        told = {"version": version, "segment_bytes": 1000, "max_age_ms": 1000}
        told |= {"segment_records": segment_records} if segment_records else {}
        history.trace("broker-0", "tier_commit", queue=0, offset=version, epoch=epoch, value=told)
        segments = [{"key": f"k{base}", "base": base, "count": 1, "bytes": size} for base in range(version)]
        content = {"start": 0, "end": version, "writer": "broker-0", "segments": segments}
        value = {"version": version, "outcome": "applied", "content": content}
        history.trace("store-0", "store_cas", queue=0, offset=version, epoch=epoch, hash=version, value=value)
    return history


def test_segments_that_go_up_before_they_are_full_or_old_are_found() -> None:
    (told,) = found(crumbs(5), A.HASTY_UPLOAD)
    assert "5 segments of queue 0 in a row" in told and "no more than 100 bytes" in told
    assert "1000 bytes" in told and "1000 ms old" in told


@pytest.mark.parametrize(
    "how",
    [
        {"count": 4},  # a few may be small
        {"count": 9, "size": 500},
        {"count": 9, "age_s": 0.5},
        {"count": 9, "fault": True},
        {"count": 6, "last_epoch": 2},  # no master term has enough of them
    ],
)
def test_segments_that_are_full_or_old_or_few_or_made_under_a_fault_are_lawful(how: dict[str, Any]) -> None:
    assert not found(crumbs(**how), A.HASTY_UPLOAD)


def test_a_good_run_is_valid() -> None:
    acknowledged(tiered_after_s=5.0).expect(LAW, validity=Validity.VALID)


def test_what_may_wait_longer_than_the_bound_is_late_only_after_that() -> None:
    for max_age_ms, expected in ((8000, 0), (3000, 1)):
        history = acknowledged()
        told = {"version": 1, "segment_bytes": 1000, "max_age_ms": max_age_ms}
        history.trace("broker-0", "tier_commit", queue=0, offset=3, epoch=1, value=told)
        assert len(found(history, A.LATE_UPLOAD)) == expected


def test_where_the_end_of_a_trace_may_be_lost_with_a_host_nobody_knows_what_is_late() -> None:
    history = acknowledged()
    history.row("harness", f="host_lost", value={"what": "host-1"})
    assert not found(history, A.LATE_UPLOAD)
    assert "a host was lost" in history.verdict(LAW).why


@pytest.mark.parametrize("stores", [True, False])
def test_a_queue_of_which_the_tier_never_holds_anything_is_late_where_there_is_a_store(stores: bool) -> None:
    history = Tiered().begin()
    history.meta["nodes"] = [{"name": "store-0", "role": "objectstore" if stores else "broker"}]
    history.meta["tells"] = list(REPORTED)
    history.upload(4)
    history.send(0, queue=1)
    history.wait(40)
    told = found(history.finals(0, 1, 2, 3), A.LATE_UPLOAD)
    assert len(told) == stores and all("queue 1" in one and "only up to offset 0" in one for one in told)


def test_many_late_messages_beside_a_fault_take_no_more_steps() -> None:
    def outage(count: int) -> Counter[str]:
        history = Tiered().begin()
        history.upload(3)
        history.inject("tier_outage", "store-0")
        for sequence in range(3, 3 + count):
            history.send(sequence)
        history.wait(40).phase("collect")
        rows = Shard(history.table())
        context = RunContext(run="r", seed=0, meta=RunMeta.of({"deployment": "sim"}))
        assert not [*uploads.late(rows, context)]  # what is imported, and made once
        rows = Shard(history.table())
        return steps(lambda: [*uploads.late(rows, context)])

    check_as_many(outage(100), outage(1000))


def test_clocks_of_two_machines_are_not_compared_to_tell_how_old_a_segment_is() -> None:
    """The store's clock is far behind the uploader's."""
    history = crumbs(9, age_s=1.0)
    for number, row in enumerate(history.rows):
        if row["f"] == "store_cas":
            row["time_ns"] = history.rows[number - 2]["time_ns"]
    assert not found(history, A.HASTY_UPLOAD)


def test_segments_that_are_full_by_their_count_of_records_are_lawful() -> None:
    assert found(crumbs(9, segment_records=3), A.HASTY_UPLOAD)
    assert not found(crumbs(9, segment_records=2), A.HASTY_UPLOAD)


def after_outage(*, tiered_after_s: float = 80.0, wait_s: float = 90.0, again_at_s: float = -1.0) -> Tiered:
    """The message at offset 3 is acknowledged while the store is away, and comes into the tier so long after that has
    ended; ``again_at_s``: another outage of a second."""
    history = Tiered().begin()
    history.upload(3)
    outage = history.inject("tier_outage", "store-0")
    history.send(3)
    history.wait(5)
    history.undo("tier_outage", outage)
    waits = sorted({tiered_after_s, wait_s, *([again_at_s] if again_at_s >= 0 else [])})
    passed = 0.0
    for until_s in waits:
        history.wait(until_s - passed)
        passed = until_s
        if until_s == again_at_s:
            again = history.inject("tier_outage", "store-0")
            history.wait(1)
            history.undo("tier_outage", again)
        if until_s == tiered_after_s:
            history.upload(4, segments=[(0, 3), (3, 1)])
    return history.finals(0, 1, 2, 3)


def test_an_outage_that_is_long_over_excuses_no_upload() -> None:
    (told,) = found(after_outage(), A.LATE_UPLOAD)
    assert "offset 3 of queue 0" in told and "when all faults had been over for as long" in told
    after_outage().expect(LAW, A.LATE_UPLOAD)
    assert found(after_outage(tiered_after_s=31), A.LATE_UPLOAD)


@pytest.mark.parametrize(
    "how",
    [
        {"tiered_after_s": 29},  # nothing hindered it for the bound, and then it had the bound
        {"tiered_after_s": 35, "again_at_s": 10},
        {"tiered_after_s": 29, "wait_s": 29.5},  # the run ended before
    ],
)
def test_after_an_outage_an_upload_has_time(how: dict[str, Any]) -> None:
    assert not found(after_outage(**how), A.LATE_UPLOAD)
