"""What the page of a large run is made of, from its rows to the page: a piece brings some to buckets, of each bucket is
made what is small, and that is put together. No process has all rows of the run, or all of its messages.

Operations stand in the buckets by time, so that each is about few seconds; what is about one message stands in one
bucket. Moments are absolute until all pieces have been divided: only then it is known when the load began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from chaos.history.columns import INTEGERS, Kind
from chaos.history.ends import NEEDED
from chaos.history.history import History
from chaos.history.parted.words import among
from chaos.history.pieces import Readable, rows_of
from chaos.history.stream import SCHEMA
from chaos.judging.blocks import Blocks
from chaos.judging.packing import pack, unpack
from chaos.judging.summary import Collect
from reports.drawn import drawn_of
from reports.messages import GIVEN_COLUMNS, SEND_COLUMNS, Bounds, Messages, given_of, sends_of
from reports.operations import END_COLUMNS, Operations, ends_of
from reports.parts import Parts
from reports.run_report.fates import Counted, Fates
from reports.run_report.notes import Notes, noted
from reports.run_report.thinned import HELD, TOGETHER, Thinned, of_piece
from reports.send_summary import Sends, SendSummary

#: There are as many buckets of a kind as make each of them about so many rows of the run, up to so many.
BUCKET_ROWS, MOST_BUCKETS = 1 << 23, 64
#: The bucket of notes, and the kinds of the others: of rows that are drawn, of ends of operations, of messages.
NOTES = 0
DRAWN, ENDS, MESSAGES = range(KINDS := 3)
#: Of rows of which there are many a bucket brings so many times its share of those that are held.
SHARES = 4
#: In so many bytes a piece says how many versions of manifests it has.
_WIDTH = 8
#: Messages whose numbers follow one another stand in one bucket, so many of them.
PAGE = 1 << 12
#: The columns that are needed of operations.
_COLUMNS = tuple(dict.fromkeys([*NEEDED, *END_COLUMNS, *SEND_COLUMNS, *GIVEN_COLUMNS]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarised:
    """``drawn``: the rows that any page draws, but for those of operations; what clients did, and what became of
    messages; ``notes``: in which pieces others are looked up."""

    drawn: pa.Table
    operations: Operations
    fates: Fates
    notes: Notes


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A :class:`chaos.judging.summary.Summary` of a run of so many ``rows``."""

    rows: int

    @classmethod
    def of(cls, pieces: Sequence[Readable]) -> RunSummary:
        """Return the one for a run that has these pieces."""
        return cls(rows_of(pieces))

    @property
    def _of_each(self) -> int:
        return min(MOST_BUCKETS, 1 + self.rows // BUCKET_ROWS)

    def _all_of(self, kind: int) -> range:
        first = 1 + kind * self._of_each
        return range(first, first + self._of_each)

    @property
    def buckets(self) -> int:
        """How many buckets there are."""
        return 1 + KINDS * self._of_each

    def divide(self, rows: pa.Table) -> Iterator[tuple[int, bytes]]:
        """Yield what the rows of a piece bring to the buckets."""
        if not rows.num_rows:
            return
        yield NOTES, pack(noted(rows))
        count = self._of_each
        at = min(count * int(rows["index"][0].as_py()) // self.rows, count - 1)
        few, manifests = of_piece(rows)
        yield self._all_of(DRAWN)[at], manifests.to_bytes(_WIDTH) + pack(few)
        of_clients = np.flatnonzero(among(rows, "kind", (str(Kind.OP),)))
        if not len(of_clients):
            return
        rows = rows.select(_COLUMNS).take(pa.array(of_clients))
        yield self._all_of(ENDS)[at], pack(_stepped(ends_of(rows)))
        for about in (sends_of(rows), given_of(rows)):
            bucket = about["message"].to_numpy() // PAGE % count
            for one in np.unique(bucket).tolist():
                mine = about.filter(pa.array(bucket == one)) if count > 1 else about
                yield self._all_of(MESSAGES)[one], pack(_stepped(mine))

    def collected(self, collect: Collect) -> Summarised:
        """Return what comes of it."""
        (notes,) = collect(_concatenated, None, [NOTES])
        thinned, manifests = Thinned(HELD), 0
        for few, written in collect(_thinned, SHARES * HELD // self._of_each, self._all_of(DRAWN)):
            thinned.add(unpack(few))
            manifests += written
        rows = thinned.table()
        clock = _clock(rows)
        operations = _merged(collect(_operations, clock, self._all_of(ENDS)))
        counted = _merged(collect(_counted, _Asked(clock), self._all_of(MESSAGES)))
        if counted.are_missing:  # of which part of their queue only all others tell
            counted = _merged(collect(_counted, _Asked(clock, counted.bounds), self._all_of(MESSAGES)))
        operations.delivered, operations.manifests = counted.given, manifests
        fates = counted.fates(Parts(*drawn_of(clock)))
        return Summarised(drawn=rows, operations=operations, fates=fates, notes=Notes(unpack(notes)))


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is known when messages are counted; ``bounds``: see :meth:`reports.run_report.fates.Counted.of`."""

    clock: History
    bounds: Bounds = field(default_factory=dict)


def _clock(rows: pa.Table) -> History:
    """Return those of the rows that are drawn that show moments."""
    found = among(rows, "kind", (str(Kind.HARNESS), str(Kind.OP), str(Kind.FAULT)))
    if len(found):
        found[[0, int(np.argmax(rows["time_ns"].to_numpy()))]] = True
    return History.of(rows.filter(pa.array(found)))


def _thinned(most: int, bucket: int, blocks: Blocks) -> tuple[bytes, int]:
    found, manifests, left = Thinned(most), 0, iter(blocks)
    while some := [*islice(left, TOGETHER)]:  # each brings few
        manifests += sum(int.from_bytes(block[:_WIDTH]) for block in some)
        found.add(pa.concat_tables([unpack(block[_WIDTH:]) for block in some]).unify_dictionaries())
    return pack(found.table()), manifests


def _concatenated(_: None, bucket: int, blocks: Blocks) -> bytes:
    return pack(pa.concat_tables([*map(unpack, blocks)]).unify_dictionaries())


def _operations(clock: History, bucket: int, blocks: Blocks) -> Operations:
    ends = _joined([_summed(unpack(block)) for block in blocks], END_COLUMNS)
    found = Operations.of_ends(ends, clock)
    assert isinstance(found.sends, Sends)
    found.sends = SendSummary(found.sends, clock)
    return found


def _counted(asked: _Asked, bucket: int, blocks: Blocks) -> Counted:
    about = [_summed(unpack(block)) for block in blocks]
    sends = _joined([rows for rows in about if "type" in rows.column_names], SEND_COLUMNS)
    given = _joined([rows for rows in about if "type" not in rows.column_names], GIVEN_COLUMNS)
    messages = Messages.of(sends, given, asked.clock)
    return Counted.of(messages, Parts(*drawn_of(asked.clock)), asked.bounds)


class _Mergeable(Protocol):
    def merge(self, other: Any) -> None: ...


T = TypeVar("T", bound=_Mergeable)


def _merged(found: Sequence[T]) -> T:
    """Return the first of what buckets came to, which has taken the others."""
    first, *others = found
    for one in others:
        first.merge(one)
    return first


def _joined(tables: Sequence[pa.Table], columns: Sequence[str]) -> pa.Table:
    empty = SCHEMA.empty_table().select(columns)
    return pa.concat_tables([empty, *(table.select(columns) for table in tables)]).unify_dictionaries().combine_chunks()


def _stepped(rows: pa.Table) -> pa.Table:
    """Return the rows with each number as the step from the one before: rows that follow one another are much alike, so
    that these take few bytes."""
    return _each_number(rows, lambda column: np.diff(column, prepend=0))


def _summed(rows: pa.Table) -> pa.Table:
    """Return the rows as they were before :func:`_stepped`."""
    return _each_number(rows, np.cumsum)


def _each_number(rows: pa.Table, made: Callable[[Any], Any]) -> pa.Table:
    for place, name in enumerate(rows.column_names):
        if name in INTEGERS:
            rows = rows.set_column(place, name, pa.array(made(rows[name].to_numpy())))
    return rows
