"""Judges a large run from its first byte on, in Spark or task by task in this process: its pieces are surveyed, divided
among shards, and examined."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from chaos.errors import DamagedHistory
from chaos.history.digests import segment_digest
from chaos.history.memory import give_back, share_allocator
from chaos.history.parted.choosing import Part
from chaos.history.pieces import Held, Joined, Readable
from chaos.history.rare import Rare
from chaos.history.run_meta import RunMeta
from chaos.judging import engine, surveying
from chaos.judging.blocks import Blocks
from chaos.judging.engine import Examined
from chaos.judging.evidence import PROBE
from chaos.judging.gathering import Shared, chosen, gathered
from chaos.judging.halves import in_halves
from chaos.judging.in_process import InProcess
from chaos.judging.layout import DIGEST, RARE, Layout
from chaos.judging.packing import pack, unpack
from chaos.judging.registry import Registry
from chaos.judging.shard import Lookups, Shard, seen_by
from chaos.judging.summary import Summary
from chaos.judging.surveying import Surveyed, Task, spans, split, summed, survey
from chaos.law import RunContext

if TYPE_CHECKING:
    from chaos.judging.spark import Session
    from chaos.judging.spark_job import OnProgress


class Divided:
    """A run whose pieces are divided among tasks. ``planned``: the plan, and which rows are wanted besides; ``most``:
    rows of its own that no task should have more of; ``summary``: what else is made of the rows. Raises
    :class:`chaos.errors.DamagedHistory` where a piece is not what was recorded, and
    :class:`chaos.judging.spark_errors.JobFailed` where a job comes to nothing."""

    def __init__(
        self,
        session: Session | InProcess,
        pieces: Sequence[Readable],
        planned: Layout,
        most: int | None = None,
        summary: Summary | None = None,
    ) -> None:
        self._session, self._most = session, most or surveying.TASK_ROWS
        found, pieces, planned = self._surveyed(pieces, planned)
        self._layout, self._sizes = summed(found, planned, self._most)
        layout = self._layout
        self._summary = summary
        given, buckets = _Dividing(layout, summary), layout.count + (summary.buckets if summary else 0)
        self._shuffled = session.shuffled(divide, given, pieces, buckets)
        plain, rare, leaves, *choices = self._shuffled.collect(chosen, layout, range(layout.first_shard))
        #: The rows that say whether the run shows anything.
        self.rare = unpack(rare)
        #: Of those pieces that are of the stream.
        self.digest = hashlib.sha256(leaves).hexdigest()
        self._shared = Shared(layout, [plain, *choices])

    def _surveyed(
        self, pieces: Sequence[Readable], planned: Layout
    ) -> tuple[Sequence[Surveyed], Sequence[Readable], Layout]:
        """Return what is known of each piece. Where queues are split they are looked at once more, and pieces are
        joined that have rows of one operation, so that these stand where others of them do."""
        found = self._looked_at(pieces, planned)
        if not (names := split(found, planned, self._most)):
            return found, pieces, planned
        planned = replace(planned, split=names)
        found = self._looked_at(pieces, planned)
        left, left_found = [*pieces], [*found]
        for first, last in reversed(spans(found, [piece.first_index for piece in pieces])):
            joined = [Joined(tuple(pieces[first : last + 1]))]
            left[first : last + 1], left_found[first : last + 1] = joined, self._looked_at(joined, planned)
        return left_found, left, planned

    def _looked_at(self, pieces: Sequence[Readable], planned: Layout) -> list[Surveyed]:
        found = self._session.map(survey, [Task(piece, planned) for piece in pieces])
        if damage := next((one.damage for one in found if one.damage), ""):
            raise DamagedHistory(damage)
        return found

    @property
    def rows_of_all(self) -> pa.Table:
        """The rows that all shards may need, and those of the goals, in any order."""
        return self._shared.rows

    def summarised(self) -> Any:
        """Return what comes of the summary; None without one, and where it could not be made: no verdict depends on
        it."""
        if self._summary is None:
            return None

        def collect(work: Callable[[Any, int, Blocks], Any], given: Any, buckets: Sequence[int]) -> list[Any]:
            return self._shuffled.collect(work, given, [self._layout.count + bucket for bucket in buckets])

        try:
            return self._summary.collected(collect)
        except Exception:
            return None

    def shards(self) -> Iterator[tuple[str, pa.Table, Lookups | None]]:
        """Yield the name and the rows, in any order, of each shard, with what is known of whole queues besides."""
        for bucket in self._buckets:
            (rows,) = self._shuffled.collect(gathered, self._shared, [bucket])
            yield self._layout.name(bucket), rows, self._shared.lookups_of(bucket)

    def examine(
        self, context: RunContext, on_progress: OnProgress | None = None, known: Registry | None = None
    ) -> Examined:
        """Return what the laws find in all shards, these or all that there are. What a shard that can't be examined
        leaves undecided, no law takes for kept."""
        largest_first = [number for _, number in sorted(zip(self._sizes, self._buckets, strict=True), reverse=True)]
        given = _Given(self._shared, context, known)
        examined = dict(zip(largest_first, self._each(given, largest_first, on_progress), strict=True))
        found: Examined = []
        for bucket in self._buckets:
            found += engine.complete(self._layout.name(bucket), context, examined[bucket], known)
        return found

    @property
    def _buckets(self) -> range:
        return range(self._layout.first_shard, self._layout.count)

    def _each(self, given: _Given, buckets: Sequence[int], on_progress: OnProgress | None) -> list[Examined]:
        """In one job. If it fails, in two halves, down to the shards that fail: but not for ever."""

        def examine(part: Sequence[int]) -> list[Examined]:
            progress = on_progress if len(part) == len(buckets) else None
            return self._shuffled.collect(examine_bucket, given, part, progress)

        def gaps(part: Sequence[int], reason: str) -> list[Examined]:
            return [engine.gaps(self._layout.name(bucket), given.context, reason, given.known) for bucket in part]

        return in_halves(buckets, examine, gaps)


def parted(
    tables: Sequence[pa.Table],
    plan: Sequence[Part],
    most: int,
    *,
    offsets: int | None = None,
    meta: RunMeta | None = None,
) -> Iterator[tuple[str, pa.Table]]:
    """Yield (name, rows) of each shard of a run whose pieces are held, in their order: with ``most`` rows of its own at
    most, and ``offsets`` of a queue together."""
    for name, rows, _ in _parted(tables, plan, most, offsets, meta):
        yield name, rows


def shards(
    tables: Sequence[pa.Table],
    plan: Sequence[Part],
    most: int,
    *,
    offsets: int | None = None,
    meta: RunMeta | None = None,
) -> Iterator[tuple[str, Shard]]:
    """Yield the same as kernels are given it."""
    for name, rows, lookups in _parted(tables, plan, most, offsets, meta):
        yield name, Shard(rows, lookups)


def _parted(
    tables: Sequence[pa.Table], plan: Sequence[Part], most: int, offsets: int | None, meta: RunMeta | None
) -> Iterator[tuple[str, pa.Table, Lookups | None]]:
    planned = Layout(meta=meta or RunMeta(), plan=tuple(plan), offsets=offsets)
    with InProcess() as tasks:
        yield from Divided(tasks, [Held(table) for table in tables], planned, most).shards()


@dataclass(frozen=True, slots=True)
class _Given:
    """What the tasks that examine shards are given, besides the rows of these."""

    shared: Shared
    context: RunContext
    known: Registry | None = None


@dataclass(frozen=True, slots=True)
class _Dividing:
    """What the tasks that divide pieces are given."""

    layout: Layout
    summary: Summary | None


def divide(given: _Dividing, piece: Readable) -> list[tuple[int, tuple[int, bytes]]]:
    """Return what a piece brings to the buckets: by their numbers, with its own."""
    share_allocator()
    layout, rows = given.layout, piece.read()
    rare = Rare(PROBE)
    rare.add(rows)
    brought = [(RARE, pack(rare.table())), (DIGEST, leaves(piece, rows)), *layout.divide(rows)]
    brought += [(layout.count + bucket, block) for bucket, block in _to_summary(given.summary, rows)]
    return [(bucket, (piece.first_index, block)) for bucket, block in brought]


def _to_summary(summary: Summary | None, rows: pa.Table) -> list[tuple[int, bytes]]:
    """Return what a piece brings to a summary; where it fails, what makes that fail too, and not the verdict."""
    try:
        return [] if summary is None else [*summary.divide(rows)]
    except Exception:
        return [(0, b"")]


def leaves(piece: Readable, rows: pa.Table) -> bytes:
    """Return what the rows of a piece bring to the digest of their run."""
    if isinstance(piece, Joined):
        begins = rows["index"].to_numpy().searchsorted([one.first_index for one in piece.pieces]).tolist()
        ends = [*begins[1:], rows.num_rows]
        parts = zip(piece.pieces, begins, ends, strict=True)
        return b"".join(leaves(one, rows.slice(begin, end - begin)) for one, begin, end in parts)
    return segment_digest(rows) if piece.is_of_stream else b""


def examine_bucket(given: _Given, bucket: int, blocks: Blocks) -> Examined:
    share_allocator()
    name = given.shared.layout.name(bucket)
    try:
        seen = seen_by(given.context, gathered(given.shared, bucket, blocks))
        give_back()  # what sieves have looked through
        rows = Shard(seen, given.shared.lookups_of(bucket))
        del seen
        found = engine.examine_shard(name, rows, given.context, given.known)
        rows.forget()
        return found
    except MemoryError:
        reason = f"a worker ran out of memory when it read the shard {name}"
        return engine.gaps(name, given.context, reason, given.known)
