"""Operations as the rows of their ends alone. An end that repeats all of its beginning stands for both: laws are given
it, and :class:`BegunBy` makes the row of the beginning again, at its place in the order of recording.

So an operation is one row wherever rows are chosen, parted and moved, and one pass over a history knows where it
belongs. What has begun and not ended, or differs from its end, keeps its row."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chaos.history.columns import REPEATED, VALUE, WORDS
from chaos.history.parted import numbers
from chaos.history.parted.words import among
from chaos.ops import OpType

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

#: What an end must bring so that its beginning can be made of it.
NEEDED = ("index", "op", *REPEATED)
#: Columns that a beginning has as an end repeats them, by the column of the end.
_REPEATED = {"index": "op", "time_ns": "began_ns", "offset": "began_offset"}
#: Columns that are the same on both rows. No beginning has any other one.
SAME = ("kind", "f", "process", "queue", "message", "hash")
#: Columns in which a beginning that is repeated has nothing.
EMPTY = ("op", "incarnation", "step", "epoch", "position", "node")


def without_beginnings(block: pa.Table) -> tuple[pa.Table, Ints]:
    """Return the rows without the beginnings that an end of the same rows repeats, and the ``index`` of those that an
    end among them repeats and that aren't here."""
    index, op, length = (_integers(block, name) for name in ("index", "op", "began_value"))
    whole = _are_whole(index, op, length)
    if not whole.any():
        return block, np.empty(0, np.int64)
    begun = numbers.distinct(op[whole])
    found = numbers.wanted(index, begun) & _begin(block)
    here = index[found]
    missing = begun if not len(here) else begun[~numbers.among(begun, here)]
    return block.filter(pa.array(~found)) if len(here) else block, missing


def without(block: pa.Table, begun: Ints) -> pa.Table:
    """Return the rows without the beginnings of these numbers, which ascend."""
    found = numbers.wanted(_integers(block, "index"), begun)
    return block.filter(pa.array(~found)) if found.any() else block


def with_beginnings(rows: pa.Table) -> tuple[pa.Table, Ints]:
    """Return rows with the beginnings that their ends repeat, which follow all others, and for each row the ``index``
    of that which stands for it."""
    begun = BegunBy.of(rows)
    index = _integers(rows, "index")
    if not len(begun.ends):
        return rows, index
    made = begun.rows(rows)
    return pa.concat_tables([rows, made]).unify_dictionaries(), np.append(index, index[begun.ends])


class BegunBy:
    """The beginnings that rows repeat, one column at a time. ``ends``: where in those rows their ends are."""

    def __init__(self, ends: Ints, needed: Mapping[str, Ints]) -> None:
        self.ends = ends
        self._needed = {name: column[ends] for name, column in needed.items()}

    @classmethod
    def of(cls, rows: pa.Table) -> BegunBy:
        """Those of these rows, which have the columns :data:`NEEDED`, that aren't here; none, where they lack some."""
        if not set(NEEDED) <= set(rows.column_names):
            return cls(np.empty(0, np.int64), {})
        needed = {name: _integers(rows, name) for name in NEEDED}
        ends = np.flatnonzero(_are_whole(needed["index"], needed["op"], needed["began_value"]))
        return cls(ends[~numbers.among(needed["op"][ends], needed["index"])], needed)

    def rows(self, rows: pa.Table) -> pa.Table:
        """Return the beginnings as rows with the same columns."""
        arrays = [self.column(name, rows[name]) for name in rows.column_names]
        return pa.Table.from_arrays(arrays, schema=rows.schema)

    def column(self, name: str, column: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        """Return a column of the beginnings, made of that of all rows."""
        if name in _REPEATED:
            return pa.array(self._needed[_REPEATED[name]])
        if name == VALUE:
            return self._values(column.take(pa.array(self.ends)))
        if name in SAME or not (name in WORDS or pa.types.is_integer(column.type)):
            return column.take(pa.array(self.ends))
        empty: str | int = (str(OpType.INVOKE) if name == "type" else "") if name in WORDS else -1
        return pa.array([empty], column.type).take(pa.array(np.zeros(len(self.ends), np.int64)))

    def _values(self, ended: pa.ChunkedArray) -> pa.Array:
        """Return what an end has at the front of its ``value``, closed again."""
        texts = ended.cast(pa.string()).combine_chunks()
        lengths = self._needed["began_value"]
        found, places = [pa.array([""], pa.string())], np.zeros(len(lengths), np.int64)
        count = 1
        for length in np.unique(lengths[lengths > 0]).tolist():
            of_length = np.flatnonzero(lengths == length)
            front = pc.utf8_slice_codeunits(texts.take(pa.array(of_length)), 0, length - 1)
            found.append(pc.binary_join_element_wise(front, "}", ""))
            places[of_length] = np.arange(count, count + len(of_length))
            count += len(of_length)
        return pa.concat_arrays(found).take(pa.array(places)).cast(ended.type)


def whole_ends(rows: pa.Table) -> Flags:
    """Return which rows, with the columns :data:`NEEDED`, are ends that repeat all of their beginning."""
    return _are_whole(*(_integers(rows, name) for name in ("index", "op", "began_value")))


def _chunks(column: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]


def _are_whole(index: Ints, op: Ints, length: Ints) -> Flags:
    """Return which rows are ends that repeat all of their beginning."""
    found: Flags = (length >= 0) & (op >= 0) & (op < index)
    return found


def _integers(rows: pa.Table, name: str) -> Ints:
    """Return a column of numbers, -1 where a stranger's has none."""
    return np.asarray(pc.fill_null(rows[name], -1).to_numpy(), np.int64)


def _begin(block: pa.Table) -> Flags:
    return among(block, "kind", ("op",)) & among(block, "type", (str(OpType.INVOKE),))
