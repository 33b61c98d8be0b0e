"""Where the stream of a run's rows is cut: into segments, each of which can be read without the others."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

#: A segment ends with the operation that its row of this number belongs to.
SEGMENT_ROWS = 1 << 18

Ints = npt.NDArray[np.int64]


def are_one(op: int, following: int) -> bool:
    """Return whether two rows that follow each other are of one operation, by their column ``op``. Such rows stand
    together: an answer whose messages went with the process that recorded them would read as an empty answer."""
    return op == following >= 0


class Segments:
    """Says where rows are cut, some at a time, in their order. Nothing but the rows decides: those of other formats,
    which were not cut when they were recorded, have segments too."""

    def __init__(self, rows: int | None = None) -> None:
        """``rows``: in the place of :data:`SEGMENT_ROWS`."""
        self._full = SEGMENT_ROWS if rows is None else rows
        self._rows, self._last = 0, -1

    def starts(self, op: Ints) -> list[int]:
        """Return the places of the rows with which another segment begins, by the column ``op`` of the rows."""
        before = np.append(self._last, op[:-1]) if len(op) else op
        may = np.flatnonzero((before != op) | (op < 0))
        found: list[int] = []
        least = self._full - self._rows
        while (at := int(np.searchsorted(may, least))) < len(may):
            found.append(int(may[at]))
            least = found[-1] + self._full
        if len(op):
            self._rows = len(op) - found[-1] if found else self._rows + len(op)
            self._last = int(op[-1])
        return found
