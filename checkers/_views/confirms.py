"""Which of the confirm offsets that nodes report a queue needs: there are as many as records, and few matter."""

from __future__ import annotations

import numpy as np

from chaos.law import Rows
from checkers._views.arrays import Ints, parts
from checkers._views.logs import in_node_order


def highest(rows: Rows) -> Ints:
    """For each node and each cut of its log, and for the end: the confirm offsets before it that no later one before
    it reaches. With these alone, a record was confirmed before it was cut off, after it was appended, exactly if it was
    with all of them (:func:`checkers._views.logs.confirmed_appends`)."""
    found: list[Ints] = [np.empty(0, dtype=np.int64)]
    confirm, position = rows.code("f", "confirm"), rows.column("position")
    at = np.arange(len(rows))
    for mine in parts(rows.column("node")).values():
        lived = in_node_order(rows, at[mine])
        cuts = np.flatnonzero(rows.column("f")[lived] != confirm)
        last = np.empty(0, dtype=np.int64)
        for piece in np.split(lived, cuts):
            last = np.concatenate([last, piece[rows.column("f")[piece] == confirm]])
            later = np.maximum.accumulate(position[last][::-1])[::-1]
            last = last[position[last] > np.append(later[1:], np.iinfo(np.int64).min)]
            found.append(last)
    return np.unique(np.concatenate(found))


def before_commits(rows: Rows) -> Ints:
    """For each manifest that a node sent, the last confirm offset that it had reported by the end of that step."""
    found: list[Ints] = [np.empty(0, dtype=np.int64)]
    commit = rows.code("f", "tier_commit")
    columns = [rows.column(name) for name in ("index", "f", "step", "incarnation")]
    at = np.arange(len(rows))
    for mine in parts(rows.column("node")).values():
        index, f, step, incarnation = (column[mine] for column in columns)
        lived = at[mine][np.lexsort((index, f == commit, step, incarnation))]
        is_commit = rows.column("f")[lived] == commit
        before = np.maximum.accumulate(np.where(is_commit, -1, np.arange(len(lived))))[is_commit]
        found.append(lived[before[before >= 0]])
    return np.unique(np.concatenate(found))
