"""Judges a large run from its first byte on, in Spark or task by task in this process: its pieces are surveyed, divided
among shards, and examined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from chaos.errors import DamagedHistory
from chaos.history.parted.choosing import Chosen
from chaos.history.pieces import Piece
from chaos.judging import engine, surveying
from chaos.judging.engine import Examined
from chaos.judging.gathering import Shared, chosen, gathered
from chaos.judging.layout import Layout
from chaos.judging.shard import Shard, seen_by
from chaos.judging.surveying import Survey, Task, summed, survey
from chaos.law import RunContext

if TYPE_CHECKING:
    from chaos.judging.in_process import InProcess
    from chaos.judging.spark import Session
    from chaos.judging.spark_job import OnProgress


class Divided:
    """A run whose pieces were divided among tasks. Raises :class:`chaos.errors.DamagedHistory` where a
    piece can't be read apart from the others, and :class:`chaos.judging.spark_errors.JobFailed` where a job comes to
    nothing."""

    def __init__(
        self, session: Session | InProcess, pieces: Sequence[Piece], context: RunContext, goals: Sequence[Chosen] = ()
    ) -> None:
        self._session = session
        meta, most = context.meta, surveying.TASK_ROWS
        may_split = sum(piece.rows for piece in pieces) > most
        found = session.map(survey, [Task(piece, meta, may_split) for piece in pieces])
        if damage := next((one.damage for one in found if one.damage), ""):
            raise DamagedHistory(damage)
        self.survey: Survey = summed(found, meta, goals, most)
        self._layout = layout = self.survey.layout
        self._shuffled = session.shuffled(divide, [_Divide(piece, layout) for piece in pieces], layout.count)
        shared = self._shuffled.collect(choose, layout, range(layout.first_shard))
        self._shared = Shared(layout, shared)

    @property
    def rows_of_all(self) -> pa.Table:
        """The rows that all shards may need, and those of the goals, in any order."""
        return self._shared.rows

    def examine(self, context: RunContext, on_progress: OnProgress | None = None) -> Examined:
        """Return what the laws find in all shards. What a shard that can't be examined leaves undecided, no law takes
        for kept."""
        buckets = range(self._layout.first_shard, self._layout.count)
        largest_first = [bucket for _, bucket in sorted(zip(self.survey.sizes, buckets, strict=True), reverse=True)]
        given = _Given(self._shared, context)
        examined = dict(zip(largest_first, self._each(given, largest_first, on_progress), strict=True))
        found: Examined = []
        for bucket in buckets:
            found += engine.complete(self._layout.name(bucket), context, examined[bucket])
        return found

    def _each(self, given: _Given, buckets: Sequence[int], on_progress: OnProgress | None) -> list[Examined]:
        """In one job. If it fails, in two halves, down to the shards that fail: but not for ever."""

        def examine(part: Sequence[int]) -> list[Examined]:
            progress = on_progress if len(part) == len(buckets) else None
            return self._shuffled.collect(examine_bucket, given, part, progress)

        def gaps(part: Sequence[int], reason: str) -> list[Examined]:
            return [engine.gaps(self._layout.name(bucket), given.context, reason) for bucket in part]

        return engine.in_halves(buckets, examine, gaps)


@dataclass(frozen=True, slots=True)
class _Divide:
    piece: Piece
    layout: Layout


@dataclass(frozen=True, slots=True)
class _Given:
    """What the tasks that examine shards are given, besides the rows of these."""

    shared: Shared
    context: RunContext


def divide(task: _Divide) -> list[tuple[int, tuple[int, bytes]]]:
    """Return what a piece brings to the buckets: by their numbers, with its own."""
    rows = task.piece.read()
    return [(bucket, (task.piece.first_index, block)) for bucket, block in task.layout.divide(rows)]


def choose(layout: Layout, bucket: int, blocks: Sequence[tuple[int, bytes]]) -> bytes:
    return chosen(layout, bucket, _in_order(blocks))


def examine_bucket(given: _Given, bucket: int, blocks: Sequence[tuple[int, bytes]]) -> Examined:
    name = given.shared.layout.name(bucket)
    try:
        rows = gathered(given.shared, bucket, _in_order(blocks))
        return engine.examine_shard(name, Shard(seen_by(given.context, rows)), given.context)
    except MemoryError:
        return engine.gaps(name, given.context, f"a worker ran out of memory when it read the shard {name}")


def _in_order(blocks: Sequence[tuple[int, bytes]]) -> list[bytes]:
    return [block for _, block in sorted(blocks)]
