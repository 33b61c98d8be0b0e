"""Rows of a large run that tell what became of logs, and of masters that had ended: few, in few of its pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chaos.history.columns import Kind
from chaos.history.history import History
from chaos.history.parted.words import among
from chaos.history.row import Row
from chaos.ops import OpType
from reports.faults import FaultLine, fault_lines
from reports.run_report.master_terms import MasterTerm, master_terms
from reports.run_report.notes import Notes


def lost_records(whole: History, shown: History, notes: Notes) -> list[pa.Table]:
    """Return the records that logs may have lost, for each loss the last one before it, and all that is about their
    messages. ``shown``: the rows that any page draws."""
    cuts = [row for row in shown.each("trace", "truncate", "recovered") if row.position >= 0]
    pieces = {piece for cut in cuts for piece in notes.beyond(cut.node, cut.position, (cut.incarnation, cut.step))}
    taken = whole.only(lambda rows: _taken(rows, cuts), among=pieces).table
    messages = pc.unique(taken.filter(pc.greater_equal(taken["message"], 0))["message"])
    others = whole.only(lambda rows: pc.is_in(rows["message"], messages), among=notes.about(messages.to_pylist(), ()))
    return [taken, others.table]


def _taken(rows: pa.Table, cuts: Sequence[Row]) -> npt.NDArray[np.bool_]:
    """Return which rows are records that one of these took from its log, if they were in it; and the last one before
    each."""
    at = np.flatnonzero(among(rows, "kind", (str(Kind.TRACE),)) & among(rows, "f", ("append",)))
    few = rows.select(["node", "incarnation", "step", "index", "position"]).take(pa.array(at))
    node = few["node"].cast(pa.string()).to_numpy()
    incarnation, step, index, position = (few[name].to_numpy() for name in few.column_names[1:])
    found = np.zeros(rows.num_rows, np.bool_)
    for cut in cuts:
        same_step = (step < cut.step) | ((step == cut.step) & (index < cut.index))
        before = (node == cut.node) & ((incarnation < cut.incarnation) | ((incarnation == cut.incarnation) & same_step))
        found[at[before & (position >= cut.position)]] = True
        mine = np.flatnonzero(before)
        found[at[mine[np.lexsort((index[mine], step[mine], incarnation[mine]))[-1:]]]] = True
    return found


def after_the_end(whole: History, shown: History, notes: Notes) -> list[pa.Table]:
    """Return by which operations a master answered in its epoch after a fault that had ended its life."""
    found = []
    faults = fault_lines(shown)
    for master in master_terms(shown, faults):
        ended = [fault.end_s for fault in faults if master.node in fault.ended and _ends(fault, master)]
        if ended and (pieces := notes.answered(master.node, master.epoch)):
            answers = _Answers(node=master.node, epoch=master.epoch, since_ns=shown.zero_ns + int(min(ended) * 1e9))
            found.append(whole.only(answers, among=pieces).table)
    return found


def _ends(fault: FaultLine, master: MasterTerm) -> bool:
    return abs(fault.start_s - master.end_s) < 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answers:
    """Finds what a node answered to clients in an epoch, from a moment on."""

    node: str
    epoch: int
    since_ns: int

    def __call__(self, rows: pa.Table) -> Any:
        ok = pc.and_(pc.equal(rows["kind"], str(Kind.OP)), pc.equal(rows["type"], str(OpType.OK)))
        mine = pc.and_(pc.equal(rows["node"], self.node), pc.equal(rows["epoch"], self.epoch))
        return pc.and_(pc.and_(ok, mine), pc.greater_equal(rows["time_ns"], self.since_ns))
