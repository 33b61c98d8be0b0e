"""When the commit of transactions was asked for."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from chaos.shard_rows import Rows
from checkers._facts.arrays import Ints
from checkers._facts.clients import calls


def asked_first(rows: Rows) -> Mapping[str, Ints]:
    """Return transactions that somebody asked to commit (``asked_to_commit``, ascending), and for each the ``index`` of
    the first such request among these rows."""
    ends = calls(rows, "end_txn")
    code, words = rows.labels("decision", ends.invoke)
    mine = ends.invoke[np.array([word == "commit" for word in words], np.bool_)[code]]
    txn, first = np.unique(rows.numbers("txn", mine), return_index=True)
    return {"asked_to_commit": txn, "first": rows.column("index")[mine[first]]}
