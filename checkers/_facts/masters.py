"""Who was master of which epoch, and which answers came from masters."""

from __future__ import annotations

import numpy as np

from chaos.driver import Evidence
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers._facts.arrays import Flags, Ints


def masters(rows: Rows) -> frozenset[tuple[str, int]]:
    """(node, epoch) of every master term that a broker traced."""
    at = rows.where(kind="trace", f="role")
    epoch = rows.column("epoch")
    return frozenset((rows.text("node", n), int(epoch[n])) for n in at if rows.value(n).get("role") == "master")


def are_confirmed(context: RunContext) -> bool:
    """Return whether masters say that there is nothing more, and what was committed, only once it is confirmed, behind
    the question, that nobody has replaced them. What any client was answered before then binds them, whatever their
    epochs are. So it is in storage clusters; elsewhere a deposed master may go on with what it knows."""
    return Evidence.GROUPS in context.evidence


def ask_replica(rows: Rows, at: Ints) -> Flags:
    """Return which of these questions were put to a certain replica, whatever its role was."""
    codes, replicas = rows.labels("from", at)
    return np.array([bool(replica) for replica in replicas], dtype=np.bool_)[codes]


def from_masters(rows: Rows, at: Ints) -> Flags:
    """Return which answers came from the master of the epoch that they carry. Without traces: those whose client did
    not ask a certain replica."""
    known = rows.memo(masters)
    if not known:
        return ~ask_replica(rows, at)
    node, epoch = rows.column("node")[at], rows.column("epoch")[at]
    accepted = np.zeros(len(at), dtype=np.bool_)
    for name, term in known:
        accepted |= (node == rows.code("node", name)) & (epoch == term)
    return accepted
