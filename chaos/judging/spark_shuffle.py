"""Blocks of a large run on their way through Spark: what tasks bring to buckets, and what others make of these."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.judging import spark_job
from chaos.judging.blocks import Blocks, spooled
from chaos.judging.executors import Unlike
from chaos.judging.spark_job import OnProgress

#: What workers call for a function of a module of ours.
Called = Callable[[Callable[..., Any]], Callable[..., Any]]


class Shuffled:
    """Buckets of a job, which may be asked about one after the other: what brings blocks to them is done once."""

    def __init__(self, context: Any, rdd: Any, called: Called, patience_s: float | None) -> None:
        self._context = context
        self._rdd = rdd
        self._called = called
        self._patience_s = patience_s

    def collect(
        self,
        work: Callable[[Any, int, Blocks], Any],
        given: Any,
        buckets: Sequence[int],
        on_progress: OnProgress | None = None,
    ) -> list[Any]:
        """Return ``work(given, bucket, blocks)`` of each of these buckets, in this order. Raises
        :class:`chaos.judging.spark_errors.JobFailed` when the job comes to nothing."""
        sent = self._context.broadcast(given)
        try:
            rdd = self._rdd.mapPartitionsWithIndex(_Bucket(self._called(work), sent), preservesPartitioning=True)
            return spark_job.collect(
                self._context, rdd, on_progress, len(buckets), self._patience_s, partitions=list(buckets)
            )
        finally:
            sent.unpersist()


@dataclass(frozen=True, slots=True)
class Bring:
    """Gives the blocks of a task to their buckets. What each of them is given is ``sent`` once to a worker."""

    called: Callable[..., Any]
    sent: Any

    def __call__(self, task: Any) -> Iterable[tuple[int, Any]]:
        found = self.called(self.sent.value, task)
        if isinstance(found, Unlike):
            raise RuntimeError(found.sentence)
        brought: Iterable[tuple[int, Any]] = found
        return brought


@dataclass(frozen=True, slots=True)
class _Bucket:
    called: Callable[..., Any]
    sent: Any

    def __call__(self, bucket: int, blocks: Iterator[tuple[int, Any]]) -> Iterator[Any]:
        with spooled((block for _, block in blocks), _folder()) as held:
            found = self.called(self.sent.value, bucket, held)
        if isinstance(found, Unlike):
            raise RuntimeError(found.sentence)
        yield found


def _folder() -> str | None:
    """Return where Spark has its workers put what is too much for their memory."""
    return os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
