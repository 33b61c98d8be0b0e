"""Tasks of a campaign as one job of Spark. Executors write the rows themselves, into a folder that all machines
share."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING

from chaos.errors import ChaosError
from stormproof.campaign.campaign import Done, Key, OnDone, Task, do

if TYPE_CHECKING:
    from chaos.judging.spark import Session

#: The folder of the rows is looked through so often.
LOOK_S = 1.0
#: Why a row that was written isn't there.
UNSEEN = "an executor wrote a row where this process does not see it: all machines must share the folder of the sweep"
#: A job that fails is tried again in parts until so many have failed: each of them takes its time.
MOST_FAILED_JOBS = 16


#: Whether the row of a task is in the folder.
HasRow = Callable[[Key], bool]


class _Enough(Exception):
    """No further run is wanted; the job is cancelled by it."""


def run(
    tasks: Sequence[Task], on_done: OnDone, *, session: Session, has_row: HasRow, budget_s: float = 0.0
) -> None:  # fmt: skip
    """Do the tasks. ``on_done`` is called for those that have a row, from time to time, and for all others when the job
    has ended. It ends when that returns True, or after ``budget_s`` (0: no limit).

    Raises :class:`ChaosError` when Spark can't be asked at all.
    """
    deadline = time.monotonic() + budget_s if budget_s else float("inf")
    looked_s = time.monotonic()
    left = dict.fromkeys(task.key for task in tasks)

    def look() -> bool:
        """Report the rows that have come; return whether they are enough."""
        came = [key for key in left if has_row(key)]
        for key in came:
            del left[key]
        enough = [on_done(Done(key=key)) for key in came]
        return any(enough)

    def follow(_: int, __: int) -> None:
        nonlocal looked_s
        if time.monotonic() - looked_s >= LOOK_S:
            looked_s = time.monotonic()
            if look() or looked_s >= deadline:
                raise _Enough

    try:
        ended = _parts(session, tasks, has_row, follow, count(1))
    except _Enough:
        ended = []
    look()
    for done in ended:
        if done.key in left:
            on_done(done if done.error else Done(key=done.key, error=UNSEEN, hopeless=True))


def _parts(
    session: Session, tasks: Sequence[Task], has_row: HasRow, follow: Callable[[int, int], None], failed: count[int]
) -> list[Done]:
    """Do the tasks. One that kills its worker each time fails the whole job: what has no row yet is tried again in two
    halves, down to this task."""
    try:
        return session.map(do, tasks, follow)
    except (ChaosError, _Enough):
        raise
    except Exception as error:
        from chaos.judging.spark_errors import JobFailed, sentence

        left = [task for task in tasks if not has_row(task.key)]
        lost = isinstance(error, JobFailed) and error.lost
        if lost or len(left) <= 1 or next(failed) >= MOST_FAILED_JOBS:
            why = f"the Spark job failed: {sentence(error)}"
            return [Done(key=task.key, error=why, hopeless=lost) for task in left]
        half = (len(left) + 1) // 2
        return [part for some in (left[:half], left[half:]) for part in _parts(session, some, has_row, follow, failed)]
