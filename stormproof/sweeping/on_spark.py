"""Tasks of a sweep as one job of Spark. Executors write the rows themselves, into a folder that all machines share."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING

from chaos.errors import ChaosError
from stormproof.sweeping.task import Done, Task, do

if TYPE_CHECKING:
    from chaos.judging.spark import Session

#: The folder of the rows is looked through so often.
LOOK_S = 1.0
#: A job that fails is tried again in parts until so many have failed: each of them takes its time.
MOST_FAILED_JOBS = 16


class _Enough(Exception):
    """No further run is wanted; the job is cancelled by it."""


def run(session: Session, tasks: Sequence[Task], on_rows: Callable[[], bool], *, budget_s: float = 0.0) -> list[Done]:
    """Do the tasks. ``on_rows`` is called from time to time while rows may have come; the job ends when it says True,
    or after ``budget_s``, and then nothing is returned. Otherwise what became of each task.

    Raises :class:`ChaosError` when Spark can't be asked at all.
    """
    deadline = time.monotonic() + budget_s if budget_s else float("inf")
    looked_s = time.monotonic()

    def follow(_: int, __: int) -> None:
        nonlocal looked_s
        if time.monotonic() - looked_s >= LOOK_S:
            looked_s = time.monotonic()
            if on_rows() or looked_s >= deadline:
                raise _Enough

    try:
        by_key = {task.key: task for task in tasks}
        return [_checked(done, by_key[done.key]) for done in _parts(session, tasks, follow, count(1))]
    except _Enough:
        return []


def _parts(
    session: Session, tasks: Sequence[Task], follow: Callable[[int, int], None], failed: count[int]
) -> list[Done]:
    """Do the tasks. One that kills its worker each time fails the whole job: what has no row yet is tried again in two
    halves, down to this task."""
    try:
        return session.map(do, tasks, follow)
    except (ChaosError, _Enough):
        raise
    except Exception as error:
        from chaos.judging.spark_errors import JobFailed, sentence

        left = [task for task in tasks if not task.row.exists()]
        lost = isinstance(error, JobFailed) and error.lost
        if lost or len(left) <= 1 or next(failed) >= MOST_FAILED_JOBS:
            why = f"the Spark job failed: {sentence(error)}"
            return [Done(key=task.key, error=why, hopeless=lost) for task in left]
        half = (len(left) + 1) // 2
        return [part for some in (left[:half], left[half:]) for part in _parts(session, some, follow, failed)]


def _checked(done: Done, task: Task) -> Done:
    if done.error or task.row.exists():
        return done
    why = f"an executor wrote {task.row} where this process does not see it: all machines must share that folder"
    return Done(key=done.key, error=why, hopeless=True)
