"""Where two histories differ: the same row, column by column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from chaos.history.columns import COLUMNS, INTEGERS


def first_difference(a: pa.Table, b: pa.Table) -> int | None:
    """Return the number of the first row in which two histories differ, counted from 0; None when they are the same.
    Where one is the beginning of the other, that is the first row that only the longer one has. Both tables are in
    ``index`` order, as :func:`chaos.history.recorder.read_rows` gives them."""
    common = min(a.num_rows, b.num_rows)
    first = common
    for name in COLUMNS:  # each column only has to be looked at before the first difference so far
        differ = np.flatnonzero(_plain(a, name, first) != _plain(b, name, first))
        first = int(differ[0]) if len(differ) else first
    return None if first == a.num_rows == b.num_rows else first


def _plain(table: pa.Table, name: str, rows: int) -> np.ndarray[Any, Any]:
    column = table[name].slice(0, rows)
    if name in INTEGERS:
        return column.to_numpy()
    return column.cast(pa.large_string()).to_numpy(zero_copy_only=False)
