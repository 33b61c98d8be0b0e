"""Rows of which a run has more the longer it takes, and pictures draw few: polls, and versions of manifests."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chaos.history.columns import Kind
from chaos.history.parted.choosing import coded
from chaos.history.stream import SCHEMA
from chaos.history.values import value_of

#: So many such rows are held; of more, the first of each node and queue in a piece of time, which is as long as needed.
HELD = 1 << 16
#: So many tables are held, each of which takes some kilobytes however few its rows are.
TOGETHER = 64
#: The shortest of these pieces.
LEAST_NS = 1 << 27

Ints = npt.NDArray[np.int64]


class Thinned:
    """Takes some rows at a time, of different ones in any order. Those with the numbers ``named`` all stay, and so does
    the latest one of each time."""

    def __init__(self, named: Collection[int]) -> None:
        self._named = pa.array(sorted(named), pa.int64())
        self._few: list[pa.Table] = []
        self._many: list[pa.Table] = [SCHEMA.empty_table()]
        self._piece_ns = LEAST_NS
        #: How many versions of manifests were written.
        self.manifests = 0

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in [*self._few, *self._many])

    def add(self, rows: pa.Table) -> None:
        kind, f = (rows[name].cast(pa.string()) for name in ("kind", "f"))
        polls = pc.equal(kind, str(Kind.POLL))
        manifests = pc.and_(pc.equal(kind, str(Kind.TRACE)), pc.equal(f, "store_cas"))
        stays = pc.is_in(rows["index"], self._named).to_numpy().copy()
        stays[np.flatnonzero(rows["time_ns"].to_numpy() == pc.max(rows["time_ns"]).as_py())[:1]] = True
        named = pa.array(stays)
        applied = np.zeros(rows.num_rows, np.bool_)
        at = np.flatnonzero(manifests.to_numpy())
        applied[at] = [_is_applied(text) for text in rows["value"].take(pa.array(at)).to_pylist()]
        self.manifests += int(np.count_nonzero(applied))
        applied &= rows["position"].to_numpy() >= 0  # only these are drawn
        many = pc.and_(pc.or_(polls, pa.array(applied)), pc.invert(named))
        few = pc.and_(pc.invert(pc.or_(polls, manifests)), pc.invert(many))
        self._few.append(rows.filter(pc.or_(few, named)))
        self._many.append(rows.filter(many))
        if len(self._few) > TOGETHER:
            self._few, self._many = [in_order(self._few)], [in_order(self._many)]
        while sum(table.num_rows for table in self._many) > HELD:
            self._thin()

    def _thin(self) -> None:
        """Keep, of all, the first in each piece; the next time pieces are twice as long."""
        held = in_order(self._many)
        words = [coded(held, name)[0].astype(np.int64) for name in ("f", "type", "node")]
        key = np.stack([*words, held["queue"].to_numpy(), held["time_ns"].to_numpy() // self._piece_ns])
        self._many = [held.take(pa.array(np.sort(np.unique(key, axis=1, return_index=True)[1])))]
        self._piece_ns *= 2

    def table(self) -> pa.Table:
        """Return what is left, in the order of ``index``."""
        return in_order([*self._many, *self._few])


def in_order(tables: Iterable[pa.Table]) -> pa.Table:
    table = pa.concat_tables(tables).unify_dictionaries()
    return table.take(pa.array(np.argsort(table["index"].to_numpy(), kind="stable"))).combine_chunks()


def _is_applied(text: str) -> bool:
    return bool(value_of(text).get("outcome") == "applied")
