"""Which rows of a run its page holds: all of a small one; of a large one those that it draws.

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
from chaos.events import Append, Commit
from chaos.history.columns import VALUE, Kind
from chaos.history.history import History
from chaos.history.row import Keep, Row
from chaos.history.stream import SCHEMA
from chaos.judging.in_process import InProcess
from chaos.judging.summary import divide
from chaos.ops import DELIVERED, SEQUENCE_BITS
from chaos.verdict import Anomaly
from reports.explanation import storage
from reports.explanation.selection import REACHED, TIER_ROWS, is_of_tier, without
from reports.explanation.subject import Subject
from reports.faults import fault_lines
from reports.operations import Operations
from reports.run_report.causes import Cause
from reports.run_report.fates import Fates, fates
from reports.run_report.log_rows import after_the_end, lost_records
from reports.run_report.run_summary import RunSummary, Summarised
from reports.run_report.thinned import drawn
from reports.timeline.from_run import NOT_LINEARIZABLE

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """``drawn``: the rows that the page draws, of the ``whole`` history. ``summarised``: what all rows came to, of a
    large run."""

    whole: History
    drawn: History
    summarised: Summarised | None = None

    @property
    def operations(self) -> Operations:
        """What clients did."""
        return self.summarised.operations if self.summarised else Operations.of(self.drawn)

    @property
    def fates(self) -> Fates:
        """What became of their messages."""
        return self.summarised.fates if self.summarised else fates(self.drawn)


def gather(
    run: Path, named: Collection[int], broken: Sequence[Anomaly] = (), summarised: Summarised | None = None
) -> Gathered:
    """Return the rows that a page draws, with those of these numbers, which it quotes. ``broken``: the violations of
    the run; ``summarised``: what it came to when it was judged. A history of which nothing can be read still gets a
    page: the one that says so."""
    whole = History.open(run)
    try:
        summarised = summarised or _summarised(whole)
        if summarised:
            return Gathered(whole=whole, drawn=_looked_up(whole, summarised, named, broken), summarised=summarised)
        _ = whole.table
        return Gathered(whole=whole, drawn=whole)
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


def _looked_up(whole: History, summarised: Summarised, named: Collection[int], broken: Sequence[Anomaly]) -> History:
    """Return the rows that the page of a large run draws; where it broke a law, with those that tell the causes."""
    notes, rows = summarised.notes, summarised.drawn
    rows = rows.filter(pa.array(drawn(rows, bool(broken))))
    quoted = whole.only(lambda rows: _numbered(rows, named), among=notes.of_numbers(named))
    found = [quoted.table]
    if broken:
        shown = whole.with_rows(rows)
        calls = {row.op if row.op >= 0 else row.index for row in quoted.each("op")}
        among = notes.of_numbers(calls) | notes.of_calls(calls)
        found.append(whole.only(lambda rows: _of_calls(rows, calls), among=among).table)
        found += [*lost_records(whole, shown, notes), *after_the_end(whole, shown, notes)]
        if any(fault.unsynced for fault in fault_lines(shown)):
            sent = {row.message for row in quoted.each("op", "send")}
            found.append(whole.only(_about(sent), among=notes.about(sent, ())).table)
        if any(anomaly.name == NOT_LINEARIZABLE for anomaly in broken):
            found.append(whole.only(_of_objects).table)
    return whole.with_rows(_joined(rows, pa.concat_tables(found)), quoted.damage)


def with_details(found: Gathered, causes: Iterable[Cause], subjects: Sequence[Subject]) -> History:
    """Return the rows that were gathered, with those that show the way of these causes' examples and what led to these
    subjects."""
    if found.summarised is None:
        return found.drawn
    notes = found.summarised.notes
    examples = [cause.example for cause in causes if cause.example is not None]
    places = {(message >> SEQUENCE_BITS, offset) for message, offset in examples}
    places = places.union(*(subject.places for subject in subjects))
    messages = {message for message, _ in examples}.union(*(subject.messages for subject in subjects))
    tier = any(is_of_tier(row) for subject in subjects for row in subject.witnesses)
    queues = {queue for subject in subjects for queue, _ in subject.groups}
    among = None if tier or queues else notes.about(messages, places)
    near = found.whole.only(
        lambda rows: pc.or_(_near(rows, places, messages, tier), _commits(rows, queues)), among=among
    )
    followed = {message for subject in subjects for message in subject.messages}
    followed_at = {place for subject in subjects for place in subject.places}
    appends = near.each(Append)
    records = [row for row in appends if row.message in followed or (row.queue, row.offset) in followed_at]
    among = {piece for record in records for piece in notes.past(record)}
    groups = storage.places(messages, near) if storage.is_storage_cluster(found.drawn) else set()
    in_groups = [found.whole.only(storage.near(groups)).table] if groups else []
    reached = found.whole.only(_reaching(records), among=among)
    sought = without(records, found.drawn)
    among = {piece for node, epoch in sought for piece in notes.appended(node, epoch)}
    went_on = found.whole.only(_first_appends(sought), among=among)
    rows = _joined(found.drawn.table, pa.concat_tables([near.table, reached.table, went_on.table, *in_groups]))
    return found.whole.with_rows(rows, found.drawn.damage)


def _of_calls(rows: pa.Table, calls: Collection[int]) -> Any:
    """Return which rows begin or end these operations."""
    ends = pc.and_(pc.is_in(rows["op"], _set(calls)), pc.not_equal(rows["f"], DELIVERED))
    return pc.or_(_numbered(rows, calls), pc.and_(pc.equal(rows["kind"], str(Kind.OP)), ends))


def _about(messages: Collection[int]) -> Keep:
    return lambda rows: pc.is_in(rows["message"], _set(messages))


def _of_objects(rows: pa.Table) -> Any:
    return pc.and_(pc.equal(rows["kind"], str(Kind.OP)), pc.match_substring(rows[VALUE], '"object"'))


def _near(rows: pa.Table, places: Collection[tuple[int, int]], messages: Collection[int], tier: bool) -> Any:
    """Return the rows about these messages, or near these (queue, offset); and what the tier did."""
    queues, offsets = (_set({place[part] for place in places}) for part in (0, 1))
    placed = pc.and_(pc.is_in(rows["queue"], queues), pc.is_in(rows["offset"], offsets))
    found = pc.or_(placed, pc.is_in(rows["message"], _set(messages)))
    if tier:
        traced = pc.and_(pc.equal(rows["kind"], str(Kind.TRACE)), pc.is_in(rows["f"], pa.array(TIER_ROWS)))
        found = pc.or_(found, traced)
    return found


def _commits(rows: pa.Table, queues: Collection[int]) -> Any:
    """Return where offsets of consumer groups took effect in these queues."""
    return pc.and_(pc.equal(rows["f"], Commit.f), pc.is_in(rows["queue"], _set(queues)))


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


def _first_appends(sought: Collection[tuple[str, int]]) -> Keep:
    """Return what keeps, of some rows, what each of these nodes stored first in that epoch."""

    def keep(rows: pa.Table) -> Any:
        stored = rows.filter(pc.equal(rows["f"], Append.f)).select(["index", "node", "epoch"])
        node, epoch = stored["node"].cast(pa.string()).to_numpy(), stored["epoch"].to_numpy()
        firsts = [np.flatnonzero((node == one) & (epoch == number))[:1] for one, number in sought]
        places = np.concatenate([np.zeros(0, np.int64), *firsts])
        return _numbered(rows, stored["index"].to_numpy()[places].tolist())

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
