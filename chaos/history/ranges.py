"""Which rows of a queue stand together where the queue is parted: those of a range of its offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

#: So many offsets of a queue are never parted.
OFFSETS = 1 << 12
#: Operations with one offset, which their ends tell: all rows of one stand there.
PAIRED = ("send",)
#: What a place depends on.
COLUMNS = ("index", "kind", "type", "f", "op", "queue", "offset")
#: Ranges of one queue that are told apart; what lies above stands with the last one.
_MOST = (1 << 40) - 2

Ints = npt.NDArray[np.int64]


class Places:
    """Gives each row a number that the rows of one queue and one range of offsets share. Numbers ascend with the queue
    and the offset. A row without an offset has a range of its own.

    The blocks of a run are asked about once each, from the last one to the first: all rows of an operation stand where
    its last end does, which comes after the others. What is remembered are the operations that were on their way.
    """

    def __init__(self, offsets: int | None = None) -> None:
        self._offsets = offsets or OFFSETS
        self._op, self._place = np.empty(0, np.int64), np.empty(0, np.int64)

    def of(self, block: pa.Table) -> Ints:
        """The numbers of these rows, which have the columns :data:`COLUMNS`."""
        index, op, queue, offset = (
            np.asarray(block[name].to_numpy(), np.int64) for name in ("index", "op", "queue", "offset")
        )
        place = (queue + 1) * (1 << 40) + np.clip(offset // self._offsets, -1, _MOST) + 1
        paired = np.flatnonzero(_is(block, "kind", ("op",)) & _is(block, "f", PAIRED))
        begins = _is(block, "type", ("invoke",))[paired]
        first, ends = paired[begins], paired[~begins]
        ends = ends[(op[ends] >= 0) & (op[ends] < index[ends])]
        self._end(op[ends], place[ends])
        for rows, of in ((first, index[first]), (ends, op[ends])):
            slot, known = _find(self._op, of)
            place[rows[known]] = self._place[slot[known]]
        before = self._op < index.min(initial=np.iinfo(np.int64).max)
        self._op, self._place = self._op[before], self._place[before]
        return place

    def _end(self, op: Ints, place: Ints) -> None:
        """Remember where operations end: the last end counts, whether it stands in this block or in a later one."""
        every, places = np.append(self._op, op[::-1]), np.append(self._place, place[::-1])
        self._op, first = np.unique(every, return_index=True)
        self._place = places[first]


def _find(known: Ints, numbers: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """For each number its place among known ones, which ascend, and whether it is there."""
    slot = np.minimum(np.searchsorted(known, numbers), max(0, len(known) - 1))
    return slot, known[slot] == numbers if len(known) else np.zeros(len(numbers), np.bool_)


def _is(block: pa.Table, column: str, words: Sequence[str]) -> npt.NDArray[Any]:
    found: npt.NDArray[Any] = pc.is_in(block[column], pa.array(words, pa.string())).to_numpy(zero_copy_only=False)
    return found
