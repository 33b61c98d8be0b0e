"""Ends of logs that were cut off or did not survive a crash, and which records went with them for good.

Everything here follows from the traces of the nodes alone: it is what links a violation with its cause.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chaos.history.history import History

#: Traces that show what a log held or lost, and the columns of them that count.
LOG_ROWS = ("append", "truncate", "recovered", "bootstrap", "role")
LOG_COLUMNS = ("index", "time_ns", "incarnation", "step", "epoch", "offset", "position", "message", "kind", "f", "node")

#: (message, offset): one copy of a message, wherever it is stored.
Copy = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LostTail:
    """One node lost the records from ``position`` on. ``cut``: it truncated its log itself; otherwise they were gone
    when it came back. ``epoch`` is the master epoch that the node knew then (-1: none), ``row`` the index of the row
    that shows it, and ``since_s`` when the node last traced something of its log before that."""

    node: str
    at_s: float
    since_s: float
    position: int
    epoch: int
    cut: bool
    row: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LostTails:
    """All lost ends of logs, by time. ``last_copy``: for each copy of a message that no replica held any more in the
    end, and that the final reading did not give out either, the place in ``tails`` of the loss that took the last one.
    ``acknowledged`` and ``read``: those of them that had been acknowledged, or given to a reader."""

    tails: Sequence[LostTail] = ()
    last_copy: Mapping[Copy, int] = field(default_factory=dict)
    acknowledged: Sequence[Copy] = ()
    read: Sequence[Copy] = ()


def lost_tails(history: History) -> LostTails:
    """Follow every log along the steps of its node. The rows have at least all :data:`LOG_ROWS` but appends; of these
    those that a log may have lost, the last one before each loss, and all that is about the messages of these."""
    traced = history.rows("trace", *LOG_ROWS, columns=LOG_COLUMNS)
    found: list[tuple[LostTail, pa.Table]] = []
    kept: list[pa.Table] = []
    for node in sorted(pc.unique(traced["node"].cast(pa.string())).to_pylist()):
        lost, left = _of_node(history, node, _in_order(traced.filter(pc.equal(traced["node"], node))))
        found += lost
        kept.append(left)
    found.sort(key=lambda pair: (pair[0].at_s, pair[0].row))
    if not found:
        return LostTails()
    tails = [tail for tail, _ in found]
    copies = [_copies(records, place) for place, (_, records) in enumerate(found)]
    # what is held in the end counts as lost after everything else, and is dropped
    reads = history.rows("op", "delivered")
    final = reads.filter(pa.array(history.seconds(reads) >= history.phase_s("drain")))
    held = [_copies(table, len(tails)) for table in [*kept, history.rows("final", "log"), final]]
    last = pa.concat_tables([*copies, *held]).group_by(["message", "offset"]).aggregate([("tail", "max")])
    gone = last.filter(pc.less(last["tail_max"], len(tails)))
    last_copy = dict(zip(_pairs(gone), gone["tail_max"].to_pylist(), strict=True))
    sends = history.rows("op", "send")
    return LostTails(
        tails=tails,
        last_copy=last_copy,
        acknowledged=_among(sends.filter(pc.equal(sends["type"], "ok")), last_copy),
        read=_among(reads, last_copy),
    )


def _in_order(rows: pa.Table) -> pa.Table:
    """Return rows of one node in the order of its steps."""
    columns = [rows[name].to_numpy() for name in ("index", "step", "incarnation")]
    return rows.take(pa.array(np.lexsort(columns)))


def _of_node(history: History, node: str, traced: pa.Table) -> tuple[list[tuple[LostTail, pa.Table]], pa.Table]:
    """Return the losses of one node, each with the lost records, and the records that its log still held in the end.
    ``traced`` is in the order of the node's steps."""
    appended, positions, times_s = _is_append(traced), traced["position"].to_numpy(), history.seconds(traced)
    held = np.zeros(traced.num_rows, dtype=bool)  # of the rows so far: records that the log holds
    lost = []
    begun, epoch, lives = 0, -1, 0
    for place in np.flatnonzero(~appended).tolist():
        held[begun:place] = appended[begun:place]
        begun = place
        row = traced.slice(place, 1).to_pylist()[0]
        if row["f"] == "role":
            epoch = row["epoch"]
        elif row["f"] == "bootstrap":
            held[:] = False  # the tier holds what is dropped, so nothing is lost with it
        else:
            lives += row["f"] == "recovered"
            gone = held & (positions >= row["position"]) & (row["position"] >= 0)
            held &= ~gone
            if gone.any() and (row["f"] == "truncate" or lives > 1):
                tail = LostTail(
                    node=node, at_s=history.second(row["time_ns"]), since_s=float(times_s[place - 1]),
                    position=row["position"], epoch=epoch, cut=row["f"] == "truncate", row=row["index"],
                    records=int(gone.sum()),
                )  # fmt: skip
                lost.append((tail, traced.filter(pa.array(gone))))
    held[begun:] = appended[begun:]
    return lost, traced.filter(pa.array(held))


def _is_append(rows: pa.Table) -> np.ndarray[Any, np.dtype[np.bool_]]:
    found: np.ndarray[Any, np.dtype[np.bool_]] = pc.equal(rows["f"], "append").to_numpy()
    return found


def _copies(records: pa.Table, tail: int) -> pa.Table:
    """Return one row for each copy of a message of ours among these records."""
    chosen = records.filter(pc.greater_equal(records["message"], 0)).select(["message", "offset"])
    return chosen.append_column("tail", pa.array(np.full(chosen.num_rows, tail, dtype=np.int64)))


def _pairs(table: pa.Table) -> list[Copy]:
    return list(zip(table["message"].to_pylist(), table["offset"].to_pylist(), strict=True))


def _among(table: pa.Table, wanted: Mapping[Copy, Any]) -> list[Copy]:
    """Return those of these copies that some row is about, each once, by message and offset."""
    chosen = table.filter(pc.is_in(table["message"], pa.array(sorted({message for message, _ in wanted}), pa.int64())))
    return sorted(set(_pairs(chosen)) & wanted.keys())
