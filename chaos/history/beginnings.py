"""What the row that ends an operation repeats of the row that began it, found again in histories that don't repeat it:
those of formats 1 and 2, and those of other programs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chaos.history.columns import COLUMNS, INTEGERS, REPEATED, VALUE, Kind
from chaos.history.ends import EMPTY, SAME
from chaos.history.parted.words import among
from chaos.history.values import to_json, value_of
from chaos.ops import DELIVERED, OpType

#: What is remembered of each operation that has begun and not ended.
_BEGUN = ("index", "time_ns", "offset", VALUE, *SAME, *EMPTY)

Ints = npt.NDArray[np.int64]


class Beginnings:
    """Completes the rows of a history, some at a time, in their order. An operation has one end: the first row of the
    same ``f`` that names its beginning, and comes after it."""

    def __init__(self) -> None:
        self._open: pa.Table | None = None

    def repeat(self, block: pa.Table) -> pa.Table:
        """Return these rows with all columns. Those of :data:`chaos.history.columns.REPEATED` are made here."""
        index, op = (np.asarray(pc.fill_null(block[name], -1).to_numpy(), np.int64) for name in ("index", "op"))
        is_op, begins = among(block, "kind", (str(Kind.OP),)), among(block, "type", (str(OpType.INVOKE),))
        ends = np.flatnonzero(is_op & ~begins & (op >= 0) & ~among(block, "f", (DELIVERED,)))
        begun = self._begun(block.select(_BEGUN).filter(pa.array(is_op & begins)))
        slot, ends = _paired(begun, op[ends], ends, index, _plain(block["f"]))
        made = {name: np.full(len(index), -1, np.int64) for name in REPEATED}
        mine = begun.take(pa.array(slot))
        made["began_ns"][ends], made["began_offset"][ends] = (mine[name].to_numpy() for name in ("time_ns", "offset"))
        block, lengths = _with_values(block, ends, mine[VALUE])
        made["began_value"][ends] = np.where(_is_repeated(mine, block.take(pa.array(ends))), lengths, -1)
        left = np.ones(begun.num_rows, np.bool_)
        left[slot] = False
        self._open = begun.filter(pa.array(left)).combine_chunks()
        arrays = [pa.array(made[name]) if name in made else block[name] for name in COLUMNS]
        return pa.Table.from_arrays(arrays, list(COLUMNS))

    def _begun(self, more: pa.Table) -> pa.Table:
        """Return all that have begun, in the order of their numbers."""
        more = pa.table({name: _plain(more[name]) for name in _BEGUN})
        every = more if self._open is None else pa.concat_tables([self._open, more])
        order = np.argsort(every["index"].to_numpy(), kind="stable")
        return every.take(pa.array(order)).combine_chunks()


def _paired(begun: pa.Table, op: Ints, ends: Ints, index: Ints, f: pa.ChunkedArray) -> tuple[Ints, Ints]:
    """Return for each operation that has ended its place among those that have begun, and that of its end."""
    known = begun["index"].to_numpy()
    if not len(known) or not len(ends):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    slot = np.minimum(np.searchsorted(known, op), len(known) - 1)
    found = (known[slot] == op) & (op < index[ends])
    found &= pc.equal(begun["f"].take(pa.array(slot)), f.take(pa.array(ends))).to_numpy()
    slot, ends = slot[found], ends[found]
    slot, first = np.unique(slot, return_index=True)
    return slot, ends[first]


def _is_repeated(begun: pa.Table, ended: pa.Table) -> npt.NDArray[np.bool_]:
    """Which beginnings have nothing that their end, in the same place, doesn't have too; the ``value`` left aside."""
    found = np.ones(begun.num_rows, np.bool_)
    for name in SAME:
        found &= pc.equal(begun[name], _plain(ended[name])).to_numpy()
    for name in EMPTY:
        found &= pc.equal(begun[name], -1 if name in INTEGERS else "").to_numpy()
    return found


def _with_values(block: pa.Table, ends: Ints, begun: pa.ChunkedArray) -> tuple[pa.Table, Ints]:
    """Return the rows, of which these ends have in their ``value`` what stood there when they began; and how much of
    each it is, as :func:`repeated` says."""
    lengths = np.zeros(len(ends), np.int64)
    has = np.flatnonzero(pc.not_equal(begun, "").to_numpy())
    if not len(has):
        return block, lengths
    given = begun.take(pa.array(has)).to_pylist()
    found = _plain(block[VALUE].take(pa.array(ends[has]))).to_pylist()
    joined, lengths[has] = zip(*(repeated(*both) for both in zip(given, found, strict=True)), strict=True)
    if [*joined] == found:
        return block, lengths
    order = np.argsort(ends[has])
    mask = np.zeros(block.num_rows, np.bool_)
    mask[ends[has]] = True
    texts = pa.array([joined[at] for at in order], pa.string())
    values = pc.replace_with_mask(block[VALUE].cast(pa.string()).combine_chunks(), pa.array(mask), texts)
    values = values.dictionary_encode() if pa.types.is_dictionary(block[VALUE].type) else values
    return block.set_column(block.column_names.index(VALUE), VALUE, values), lengths


def repeated(begun: str, ended: str) -> tuple[str, int]:
    """Return the ``value`` of an end with that of its beginning at the front, and how many characters that had: closed
    again after one less, it is there again. -1 where the end says something else under one of its names."""
    if ended.startswith(begun[:-1]):
        return ended, len(begun)
    first, last = value_of(begun), value_of(ended)
    try:
        joined = to_json({**first, **last}) if first else ended
        joined.encode()
    except (RecursionError, UnicodeEncodeError):  # a stranger's
        return ended, -1
    return joined, len(begun) if joined.startswith(begun[:-1]) else -1


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return texts as such, and nothing without a content: a run may be a stranger's."""
    if pa.types.is_integer(column.type):
        return pc.fill_null(column, -1)
    return pc.fill_null(column.cast(pa.string()), "")
