"""One job of Spark: followed while it runs, and cancelled when nobody waits for it any more."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from chaos.judging.spark_errors import JobFailed, sentence

POLL_S = 0.2
#: A cancelled job's tasks are interrupted; a Python worker may be in the midst of a computation.
CANCEL_S = 10.0

#: Takes how many tasks are done, and how many there are.
OnProgress = Callable[[int, int], None]

_numbers = count(1)


class _Job(threading.Thread):
    """Collects an RDD, or some of its partitions, under a group of its own, by which it can be followed and
    cancelled."""

    def __init__(self, context: Any, rdd: Any, partitions: Sequence[int] | None) -> None:
        self.group = f"stormproof-{next(_numbers)}"
        super().__init__(name=self.group, daemon=True)
        self._context = context
        self._rdd = rdd
        self._partitions = partitions
        self.results: list[Any] = []
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self._context.setJobGroup(self.group, "stormproof", interruptOnCancel=True)
            if self._partitions is None:
                self.results = self._rdd.collect()
            else:
                self.results = list(self._context.runJob(self._rdd, iter, [*self._partitions]))
        except Exception as error:
            self.error = error

    def progress(self) -> tuple[int, int, int]:
        """(done, active, all) of the job's parts; zeros before it has begun."""
        tracker = self._context.statusTracker()
        done = active = whole = 0
        for number in tracker.getJobIdsForGroup(self.group):
            job = tracker.getJobInfo(number)
            for stage in map(tracker.getStageInfo, job.stageIds if job else ()):
                if stage is not None:
                    done += stage.numCompletedTasks
                    active += stage.numActiveTasks
                    whole += stage.numTasks
        return done, active, whole

    def cancel(self) -> None:
        """End it, and wait a while until it has ended."""
        self._context.cancelJobGroup(self.group)
        self.join(CANCEL_S)


def collect(
    context: Any,
    rdd: Any,
    on_progress: OnProgress | None,
    tasks: int,
    patience_s: float | None,
    partitions: Sequence[int] | None = None,
) -> list[Any]:
    """Return all elements of an RDD, or of these ``partitions`` of it, in order. ``on_progress`` is called with how
    many of the ``tasks`` that its parts hold are done.

    The job is cancelled when anything is raised here meanwhile, Ctrl-C above all. Raises :class:`JobFailed` when it
    fails, or when no executor works on any part of it for ``patience_s``.
    """
    job = _Job(context, rdd, partitions)
    job.start()
    try:
        _follow(job, on_progress, tasks, patience_s)
    except BaseException:
        with contextlib.suppress(Exception):  # there may be no JVM any more
            job.cancel()
        raise
    if job.error is not None:
        raise JobFailed(sentence(job.error), lost=_is_lost(context)) from job.error
    if on_progress is not None:
        on_progress(tasks, tasks)
    return job.results


def _follow(job: _Job, on_progress: OnProgress | None, tasks: int, patience_s: float | None) -> None:
    """Return when the job has ended, however it did."""
    idle_since, before = time.monotonic(), 0
    while job.is_alive():
        job.join(POLL_S)
        try:
            done, active, whole = job.progress()
        except Exception:  # whatever is wrong, the job will say it
            continue
        if on_progress is not None and whole:
            on_progress(tasks * done // whole, tasks)
        if active or done != before:
            idle_since, before = time.monotonic(), done
        elif patience_s is not None and time.monotonic() - idle_since > patience_s:
            raise JobFailed(
                f"Spark's master gave no executor within {patience_s:.0f} s: it has no free worker with as much memory"
                " and as many cores as we ask for (--conf spark.executor.memory=512m asks for less)",
                lost=True,
            )


def _is_lost(context: Any) -> bool:
    try:
        return bool(context._jsc is None or context._jsc.sc().isStopped())
    except Exception:  # nobody answers
        return True
