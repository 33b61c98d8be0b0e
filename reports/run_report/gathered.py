"""Which rows of a run its page holds: all of a small one that broke a law; of any other those that it draws.

A large run is summarised (:mod:`reports.run_report.run_summary`), while it is judged if that was just done. What the
page says of a message, and what led to it, needs a few rows of many; only afterwards is it known which.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chaos.errors import DamagedHistory
from chaos.events import Append
from chaos.history.columns import VALUE, Kind
from chaos.history.history import History
from chaos.history.row import Keep, Row
from chaos.history.stream import SCHEMA
from chaos.judging.in_process import InProcess
from chaos.judging.summary import divide
from chaos.ops import SEQUENCE_BITS
from reports.explanation.selection import REACHED, TIER_ROWS, is_of_tier
from reports.explanation.subject import Subject
from reports.operations import Operations
from reports.run_report.causes import Cause
from reports.run_report.fates import Fates, fates
from reports.run_report.lost_tails import LOG_COLUMNS, of_logs
from reports.run_report.run_summary import RunSummary, Summarised
from reports.run_report.thinned import drawn, with_outcomes

#: Operations of which a run has many, and whose values nobody draws.
MANY = ("send", "pull", "delivered", "commit", "committed", "bounds")

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """``drawn``: the rows that the page draws, of the ``whole`` history. ``logs``: those that show what each log held,
    where ``drawn`` doesn't have them all; ``summarised``: what all rows came to, of a large run."""

    whole: History
    drawn: History
    logs: History | None = None
    summarised: Summarised | None = None

    @property
    def operations(self) -> Operations:
        """What clients did."""
        return self.summarised.operations if self.summarised else Operations.of(self.drawn)

    @property
    def fates(self) -> Fates:
        """What became of their messages."""
        return self.summarised.fates if self.summarised else fates(self.drawn)


def gather(run: Path, named: Collection[int], *, is_broken: bool, summarised: Summarised | None = None) -> Gathered:
    """Return the rows that a page draws, and those of these numbers, which it quotes. ``summarised``: what the run came
    to when it was judged. A history of which nothing can be read still gets a page: the one that says so."""
    whole = History.open(run)
    try:
        if is_broken and not whole.is_large:
            _ = whole.table
            return Gathered(whole=whole, drawn=whole)
        summarised = summarised or _summarised(whole)
        if summarised and not is_broken:
            rows = summarised.drawn.filter(pa.array(drawn(summarised.drawn, False, ("drain",))))
            quoted = whole.only(lambda rows: _numbered(rows, named)).table if named else SCHEMA.empty_table()
            return Gathered(whole=whole, drawn=whole.with_rows(_joined(rows, quoted)), summarised=summarised)
        found = whole.only(
            lambda rows: drawn(rows, is_broken) | _numbered(rows, named).to_numpy(),
            shape=lambda rows: _without_details(rows, named),
        )
        logs = whole.only(of_logs, LOG_COLUMNS) if is_broken else None
        return Gathered(whole=whole, drawn=found, logs=logs, summarised=summarised)
    except DamagedHistory as error:
        return Gathered(whole=whole, drawn=whole.with_rows(SCHEMA.empty_table(), [str(error)]))


def _summarised(whole: History) -> Summarised | None:
    """Return what a large run comes to; None of a small one, and where a piece is not what was recorded."""
    summary = RunSummary.of(whole.pieces)
    if not summary.rows:
        return None
    try:
        with InProcess() as tasks:
            return summary.collected(tasks.shuffled(divide, summary, whole.pieces, summary.buckets).collect)
    except DamagedHistory:  # who reads all rows in their order says it better
        return None


def with_details(found: Gathered, causes: Iterable[Cause], subjects: Sequence[Subject]) -> History:
    """Return the rows that were gathered, with those that show the way of these causes' examples and what led to these
    subjects."""
    if found.logs is None:
        return found.drawn
    examples = [cause.example for cause in causes if cause.example is not None]
    places = {(message >> SEQUENCE_BITS, offset) for message, offset in examples}
    places = places.union(*(subject.places for subject in subjects))
    messages = {message for message, _ in examples}.union(*(subject.messages for subject in subjects))
    witnesses = {row.index for subject in subjects for row in subject.witnesses}
    tier = any(is_of_tier(row) for subject in subjects for row in subject.witnesses)
    near = found.whole.only(lambda rows: _near(rows, places, messages, witnesses, tier))
    followed = {message for subject in subjects for message in subject.messages}
    followed_at = {place for subject in subjects for place in subject.places}
    appends = near.each(Append)
    records = [row for row in appends if row.message in followed or (row.queue, row.offset) in followed_at]
    reached = found.whole.only(_reaching(records))
    return found.whole.with_rows(_joined(found.drawn.table, pa.concat_tables([near.table, reached.table])))


def _without_details(rows: pa.Table, named: Collection[int]) -> pa.Table:
    """Return the rows without values that nobody draws: of most operations, and all of a manifest but what became of
    it."""
    kind, f = (rows[name].cast(pa.string()) for name in ("kind", "f"))
    other = pc.invert(_numbered(rows, named))
    many = pc.and_(pc.equal(kind, str(Kind.OP)), pc.is_in(f, pa.array(MANY)))
    values = pc.if_else(pc.and_(other, many), "", rows[VALUE])
    rows = rows.set_column(rows.column_names.index(VALUE), VALUE, values)
    return with_outcomes(rows, other.to_numpy())


def _near(
    rows: pa.Table, places: Collection[tuple[int, int]], messages: Collection[int], numbers: Collection[int], tier: bool
) -> Any:
    """Return the rows about these messages, or near these (queue, offset); those of these numbers; and what the tier
    did."""
    queues, offsets = (_set({place[part] for place in places}) for part in (0, 1))
    placed = pc.and_(pc.is_in(rows["queue"], queues), pc.is_in(rows["offset"], offsets))
    found = pc.or_(placed, pc.or_(pc.is_in(rows["message"], _set(messages)), _numbered(rows, numbers)))
    if tier:
        traced = pc.and_(pc.equal(rows["kind"], str(Kind.TRACE)), pc.is_in(rows["f"], pa.array(TIER_ROWS)))
        found = pc.or_(found, traced)
    return found


def _reaching(records: Iterable[Row]) -> Keep:
    """Return what keeps, of some rows, the first recorded of each name by which a node had gone past one of these
    records in that incarnation."""
    by_incarnation: dict[tuple[str, int], set[tuple[int, int, int, int]]] = {}
    for record in records:
        place = (record.step, record.index, record.end, record.epoch)
        by_incarnation.setdefault((record.node, record.incarnation), set()).add(place)

    def keep(rows: pa.Table) -> Flags:
        found = np.zeros(rows.num_rows, np.bool_)
        named = pc.and_(pc.equal(rows["kind"], str(Kind.TRACE)), pc.is_in(rows["f"], pa.array(REACHED)))
        chosen = np.flatnonzero(named.to_numpy())
        few = rows.select(["f", "node", "incarnation", "step", "index", "position", "epoch"]).take(pa.array(chosen))
        f, node = (few[name].cast(pa.string()).to_numpy() for name in ("f", "node"))
        life = few["incarnation"].to_numpy()
        for (where, number), places in by_incarnation.items():
            mine = np.flatnonzero((node == where) & (life == number))
            for name in REACHED:
                at = mine[f[mine] == name]
                step, index, position, epoch = (few[column].to_numpy()[at] for column in few.column_names[3:])
                for one in places:
                    past = ((step > one[0]) | ((step == one[0]) & (index > one[1]))) & (position >= one[2])
                    if name != REACHED[0]:
                        past &= epoch == one[3]
                    found[chosen[at[np.flatnonzero(past)[:1]]]] = True
        return found

    return keep


def _joined(held: pa.Table, whole: pa.Table) -> pa.Table:
    """Return both in the order of ``index``, each row once; those of the second are the whole ones."""
    held = held.filter(pc.invert(pc.is_in(held["index"], whole["index"].combine_chunks())))
    table = pa.concat_tables([held, whole]).unify_dictionaries()
    first = np.unique(table["index"].to_numpy(), return_index=True)[1]
    return table.take(pa.array(first)).combine_chunks()


def _numbered(rows: pa.Table, numbers: Collection[int]) -> Any:
    return pc.is_in(rows["index"], _set(numbers))


def _set(numbers: Iterable[int]) -> pa.Array:
    return pa.array(sorted(numbers), pa.int64())
