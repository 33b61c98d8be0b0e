"""Arrays that laws compute with, and sorting rows into groups."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
#: A time or an index that nothing reaches.
NEVER = np.iinfo(np.int64).max


def groups(*columns: Ints) -> tuple[Ints, Ints]:
    """Sort by these columns, keeping the given order among equals. Returns the order, and where in it each group of
    equal values starts."""
    order = np.lexsort(columns[::-1])
    new = np.zeros(len(order), dtype=np.bool_)
    new[:1] = True
    for column in columns:
        new[1:] |= column[order][1:] != column[order][:-1]
    return order, np.flatnonzero(new)


def parts(column: Ints) -> dict[int, Ints]:
    """Where each value stands: value → its places, both ascending."""
    order, starts = groups(column)
    ends = [*starts[1:].tolist(), len(order)]
    bounds = zip(column[order[starts]].tolist(), starts.tolist(), ends[: len(starts)], strict=True)
    return {value: order[begin:end] for value, begin, end in bounds}
