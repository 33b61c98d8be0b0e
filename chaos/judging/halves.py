"""Jobs of Spark that fail as a whole are tried again in parts, down to the task at which they fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import TypeVar

from chaos.errors import ChaosError
from chaos.judging.spark_errors import JobFailed, sentence

T = TypeVar("T")
R = TypeVar("R")

#: A job that fails is tried again in parts until so many jobs have failed: each of them takes its time.
MOST_FAILED_JOBS = 32


def in_halves(
    tasks: Sequence[T],
    examine: Callable[[Sequence[T]], list[R]],
    all_gaps: Callable[[Sequence[T], str], list[R]],
) -> list[R]:
    """Return what ``examine`` finds with tasks, in one job. A job that fails as a whole (a worker that is killed each
    time, say) has examined nothing: no law may look kept.

    Its tasks are tried again in two halves, down to the ones that fail, so that a shard that is too large for the
    workers leaves its own laws undecided and no others (``all_gaps``); but not for ever.
    """
    failed, lost = count(1), ""

    def tried(part: Sequence[T]) -> list[R]:
        nonlocal lost
        try:
            if not lost:
                return examine(part)
            reason, again = lost, False
        except ChaosError:
            raise
        except Exception as error:
            reason = f"the Spark job failed: {sentence(error)}"
            lost = reason if isinstance(error, JobFailed) and error.lost else ""
            again = not lost and len(part) > 1 and next(failed) < MOST_FAILED_JOBS
        if not again:
            return all_gaps(part, reason)
        half = len(part) // 2
        return [*tried(part[:half]), *tried(part[half:])]

    return tried(tasks)
