"""A controller replaces its log by a snapshot in time, and removes the files that it has replaced."""

from __future__ import annotations

import pytest

from chaos.verdict import Validity
from tests.checkers.controller_runs import Run, run
from tests.checkers.names import A, L

LAW = L.CONTROLLERS


@pytest.mark.parametrize(
    "first, size, names",
    [(1, 500, [A.LOG_KEPT]), (17, 500, []), (1, 70_000, [])],
    ids=["nothing was dropped", "as many as there may be", "the snapshot is large"],
)
def test_a_log_is_replaced_by_a_snapshot_in_time(first: int, size: int, names: list[str]) -> None:
    kept(first, size, 6).expect(LAW, *names)


def kept(first: int, size: int, lasted_s: float, *, slow_s: float = -1) -> Run:
    """``slow_s``: so long after its log had become too long the controller's disk was well again."""
    it = run()
    told = {"first": first, "bytes": size, "every": 3}
    slow = it.inject("slow_disk", "controller-1", effects={"slows": ["controller-1"]}) if slow_s >= 0 else ""
    for number, wait_s in ((128, slow_s if slow else 0.0), (320, 0.0)):
        it.trace("controller-1", "applied", position=number, epoch=1, value={"entry": {"type": "noop"}, "log": told})
        it.wait(wait_s)
        if number == 128:
            if slow:
                it.undo("slow_disk", slow)
            it.wait(lasted_s - wait_s)
    return it


def logs(*told: dict[str, object], slow_s: float = -1) -> Run:
    """What controller-1 tells of its log, 64 entries and three seconds apart. ``slow_s``: so long before the end its
    disk was well again."""
    it = run()
    slow = it.inject("slow_disk", "controller-1", effects={"slows": ["controller-1"]}) if slow_s >= 0 else ""
    for number, one in enumerate(told, 1):
        log = {"first": 1, "bytes": 500, "every": 60, "behind": False, "files": 1, **one}
        value = {"entry": {"type": "noop"}, "log": log}
        it.wait(3 if not slow else 3 - slow_s)
        if slow and number == len(told):
            it.undo("slow_disk", slow)
        it.wait(slow_s if slow else 0)
        it.trace("controller-1", "applied", position=320 + 64 * number, epoch=1, value=value)
    return it


@pytest.mark.parametrize(
    "told, is_kept",
    [
        ({}, True),
        ({"behind": True}, False),
        ({"first": 200}, False),
        ({"every": 300}, False),
        ({"bytes": 70_000}, False),
    ],
    ids=["nobody needs it", "a follower is far behind", "entries of one step", "not due yet", "the snapshot is large"],
)
def test_a_log_waits_for_nobody_but_a_follower_far_behind(told: dict[str, object], is_kept: bool) -> None:
    logs(told, told, told).expect(LAW, *[A.LOG_KEPT] if is_kept else [])


def test_a_log_is_due_again_where_it_was_replaced_or_somebody_was_far_behind_in_between() -> None:
    logs({}, {}, {"first": 65}, {"first": 65}).expect(LAW, validity=Validity.VALID)
    logs({}, {}, {"behind": True}, {}, {}).expect(LAW, validity=Validity.VALID)
    logs({}, {}, {}, slow_s=2).expect(LAW, validity=Validity.VALID)


def test_where_nobody_tells_whether_a_follower_is_far_behind_the_log_may_be_longer() -> None:
    logs(*3 * [{"behind": None}]).expect(LAW, validity=Validity.VALID)
    logs(*3 * [{"behind": None, "every": 3}]).expect(LAW, A.LOG_KEPT)


@pytest.mark.parametrize("files, is_kept", [([17, 17, 17], True), ([16, 17, 17], False), ([17, 2, 17, 17], False)])
def test_files_that_a_newer_one_replaced_are_removed(files: list[int], is_kept: bool) -> None:
    it = logs(*({"first": 300, "bytes": 70_000, "files": number} for number in files))
    it.expect(LAW, *[A.LOG_KEPT] if is_kept else [])


def test_files_are_removed_later_by_a_slow_disk() -> None:
    told = {"first": 300, "files": 17}
    logs(told, told, told, slow_s=2).expect(LAW, validity=Validity.VALID)


def test_a_snapshot_takes_its_time_and_longer_on_a_slow_disk() -> None:
    kept(1, 500, 4).expect(LAW, validity=Validity.VALID)  # it is being written
    kept(1, 500, 8, slow_s=4).expect(LAW, validity=Validity.VALID)
    kept(1, 500, 8, slow_s=2).expect(LAW, A.LOG_KEPT)
