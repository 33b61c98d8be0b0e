"""What several parts of the law ask of a queue: where local logs begin, and what is held more than once."""

from __future__ import annotations

import numpy as np

from chaos.law import Rows
from checkers import _views as views

#: So far beyond what the objects hold missing offsets are looked for one by one.
FAR = 1_000_000


def local_minimums(rows: Rows, queue: int) -> list[tuple[int, int]]:
    """(row, first local offset of the queue) of each replica that was read to its end."""
    complete = views.complete_nodes(rows)
    found = []
    for at in rows.where(kind="final", f="node"):
        minimum = (rows.value(at).get("minimums") or {}).get(str(queue))
        if rows.text("node", at) in complete and minimum is not None:
            found.append((int(at), int(minimum)))
    return found


def repeated(offsets: views.Ints) -> views.Ints:
    values, counts = np.unique(offsets, return_counts=True)
    return values[counts > 1]
