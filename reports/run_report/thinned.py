"""Rows that pages draw: which of a run they are, and fewer of those of which there are more the longer it takes: polls,
and versions of manifests."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chaos.history.columns import VALUE, Kind
from chaos.history.parted.choosing import coded
from chaos.history.parted.words import among
from chaos.history.stream import SCHEMA
from chaos.history.values import to_json, value_of

#: What the pictures of any run are made of besides operations: kinds of rows, and names of traces.
DRAWN = (Kind.POLL, Kind.FAULT, Kind.HARNESS)
DRAWN_TRACES = ("role", "raft", "truncate", "store_cas", "members", "opened", "closed_slice", "sealed", "uploaded")
#: Traces that explain violations, and of which a run has few.
EXPLAINING = (*DRAWN_TRACES, "set", "applied", "start", "recovered", "bootstrap", "crash", "damaged")
#: So many rows are held of which there are many; of more, the first of each node and queue in a piece of time, which is
#: as long as needed.
HELD = 1 << 16
#: So many tables are held, each of which takes some kilobytes however few its rows are.
TOGETHER = 64
#: The shortest of these pieces, and the longest: of the latter one row of each is left.
LEAST_NS, LONGEST_NS = 1 << 27, 1 << 60

Flags = npt.NDArray[np.bool_]


def drawn(rows: pa.Table, is_broken: bool) -> Flags:
    """Return which rows the pictures show, but for those of operations except the few by which queues were read to
    their ends. The first and the latest row say how long the run took; that there is a trace shows explanations that
    nodes traced."""
    is_trace = among(rows, "kind", (str(Kind.TRACE),))
    found = among(rows, "kind", tuple(map(str, DRAWN)))
    found |= is_trace & among(rows, "f", EXPLAINING if is_broken else DRAWN_TRACES)
    found |= among(rows, "kind", (str(Kind.OP),)) & among(rows, "f", ("drain",))
    if len(found):
        found[[0, int(np.argmax(rows["time_ns"].to_numpy()))]] = True
        if is_broken:
            found[np.flatnonzero(is_trace)[:1]] = True
    return found


def of_piece(rows: pa.Table) -> tuple[pa.Table, int]:
    """Return of the rows of a piece those that any page draws, without what manifests hold; and how many versions of
    manifests were written, of which these are that have a position."""
    rows = rows.filter(pa.array(drawn(rows, True)))
    manifests = np.flatnonzero(_manifests(rows))
    outcomes = [value_of(text).get("outcome") for text in rows[VALUE].take(pa.array(manifests)).to_pylist()]
    texts = rows[VALUE].to_numpy(zero_copy_only=False).copy()
    texts[manifests] = [to_json({"outcome": outcome}) for outcome in outcomes]
    written = np.array([outcome == "applied" for outcome in outcomes], np.bool_)
    left = np.ones(rows.num_rows, np.bool_)
    left[manifests] = written & (rows["position"].to_numpy()[manifests] >= 0)
    rows = rows.set_column(rows.column_names.index(VALUE), VALUE, pa.array(texts, pa.string()))
    return rows.filter(pa.array(left)), int(written.sum())


class Thinned:
    """Takes rows of :func:`of_piece`, those of different pieces in any order; holds about ``most`` of those of which
    there are many. The latest row of each time stays."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._few: list[pa.Table] = []
        self._many: list[pa.Table] = [SCHEMA.empty_table()]
        self._piece_ns = LEAST_NS

    def add(self, rows: pa.Table) -> None:
        many = among(rows, "kind", (str(Kind.POLL),)) | _manifests(rows)
        many[np.argmax(rows["time_ns"].to_numpy()) if rows.num_rows else []] = False
        self._few.append(rows.filter(pa.array(~many)))
        self._many.append(rows.filter(pa.array(many)))
        if len(self._few) > TOGETHER:
            self._few, self._many = [in_order(self._few)], [in_order(self._many)]
        while self._held > self._most and self._piece_ns < LONGEST_NS:
            self._thin()

    @property
    def _held(self) -> int:
        return sum(table.num_rows for table in self._many)

    def _thin(self) -> None:
        """Keep, of all, the first in each piece; the next time pieces are twice as long."""
        held = in_order(self._many)
        words = [coded(held, name)[0].astype(np.int64) for name in ("f", "type", "node")]
        key = np.stack([*words, held["queue"].to_numpy(), held["time_ns"].to_numpy() // self._piece_ns])
        self._many = [held.take(pa.array(np.sort(np.unique(key, axis=1, return_index=True)[1])))]
        self._piece_ns = min(2 * self._piece_ns, LONGEST_NS)

    def table(self) -> pa.Table:
        """Return what is left, in the order of ``index``."""
        return in_order([*self._many, *self._few])


def in_order(tables: Iterable[pa.Table]) -> pa.Table:
    table = pa.concat_tables(tables).unify_dictionaries()
    return table.take(pa.array(np.argsort(table["index"].to_numpy(), kind="stable"))).combine_chunks()


def _manifests(rows: pa.Table) -> Flags:
    return among(rows, "kind", (str(Kind.TRACE),)) & among(rows, "f", ("store_cas",))
