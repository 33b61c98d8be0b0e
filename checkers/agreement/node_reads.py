"""What each node answers from its own copy is what the others have there."""

from __future__ import annotations

import numpy as np

from chaos.driver import Evidence
from chaos.findings import Findings, decide
from chaos.law import Key, Law, Partial
from chaos.law import Rows as LawRows
from chaos.operations import HarnessRow, NodeRead, NodeReadEnd, QueueHolders
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts.arrays import parts
from checkers._facts.claims import Claims
from checkers.agreement.promise import PROMISE, REPLICA_DIVERGENCE
from checkers.agreement.records import describe


class NodeReads(Law):
    """Copies of a queue, each as the node that holds it answers."""

    promise = PROMISE
    key = Key.QUEUE
    reads = (QueueHolders, NodeRead, NodeReadEnd, HarnessRow)
    evidence = (Evidence.NODE_READS,)
    uses = (Use.QUEUES,)
    part = "what nodes answer one by one"

    def examine(self, given: LawRows) -> Partial:
        rows = given.columns
        found = Findings(PROMISE)
        claims = facts.claims_of(rows, rows.where(kind="final", f="node_read"))
        found.count("node_reads", len(claims.at))
        queues = rows.column("queue")[rows.where(kind="final", f="holders")]
        if len(queues) and not facts.has_recovered(rows):  # then copies may still differ
            found.gap("the system had not recovered when its nodes were read one by one")
            return found.partial()
        for first, other in facts.conflicts(claims):
            _report_copies(rows, found, int(claims.at[first]), int(claims.at[other]))
        copies, none = parts(claims.queue), np.empty(0, dtype=np.int64)
        for queue in np.unique(queues).tolist():
            self._missing(rows, found, queue, claims.only(copies.get(queue, none)))
        return found.partial()

    def judge(self, partial: Partial) -> Verdict:
        needs = [("records_compared", "no two nodes answered what the same offset holds")]
        return decide(PROMISE, partial, needs=needs)

    def _missing(self, rows: Rows, found: Findings, queue: int, copies: Claims) -> None:
        """Check that what one node answered, every other one did too whose copy begins before and ends after that."""
        ends = {rows.text("node", at): int(at) for at in rows.where(kind="final", f="node_end", queue=queue)}
        (held_by,) = (rows.value(at) for at in rows.where(kind="final", f="holders", queue=queue)[:1])
        for name in sorted({*map(str, held_by.get("nodes", ())), *ends}):
            why = rows.value(ends[name]).get("reason", "") if name in ends else "its reading did not end"
            if why:
                found.gap(f"queue {queue} was not read to its end through {name}: {why}")
        offsets, first, times = np.unique(copies.offset, return_index=True, return_counts=True)
        compared = int(np.count_nonzero(times > 1))
        found.count("records_compared", compared)
        if len(offsets) and not compared and len({*map(str, held_by.get("nodes", ()))}) > 1:
            found.gap(f"no two nodes answered what the same offset of queue {queue} holds")
        of = rows.column("node")[copies.at]
        for name, end in sorted(ends.items()):
            begin, until = int(rows.value(end).get("minimum", 0)), int(rows.column("offset")[end])
            own = copies.offset[of == rows.code("node", name)]
            lacks = (offsets >= begin) & (offsets < until) & ~np.isin(offsets, own)
            found.add_each(
                REPLICA_DIVERGENCE,
                copies.at[first[lacks]],
                lambda at, end=end: _report_missing(rows, found, at, end),  # type: ignore[misc]
                queues=copies.queue[first[lacks]],
                acted_ns=facts.since_load_ns(rows, copies.at[first[lacks]]),
            )


def _report_copies(rows: Rows, found: Findings, one: int, two: int) -> None:
    index, queue, offset = (rows.column(name) for name in ("index", "queue", "offset"))
    found.add(
        REPLICA_DIVERGENCE,
        f"Queue {int(queue[one])}, offset {int(offset[one])} holds two messages: {describe(rows, one)}, but "
        f"{describe(rows, two)}.",
        int(index[one]),
        int(index[two]),
        queue=int(queue[one]),
        offset=int(offset[one]),
        message=int(rows.column("message")[one]),
    )


def _report_missing(rows: Rows, found: Findings, at: int, end: int) -> None:
    """Report a lack. ``at``: what another node answered; ``end``: how far the one was read that did not."""
    index, queue, offset = (rows.column(name) for name in ("index", "queue", "offset"))
    found.add(
        REPLICA_DIVERGENCE,
        f"{rows.text('node', end)} was read up to offset {int(offset[end])} of queue {int(queue[at])} by itself after "
        f"recovery, but gave nothing at offset {int(offset[at])}, where {describe(rows, at)}.",
        int(index[at]),
        int(index[end]),
        queue=int(queue[at]),
        offset=int(offset[at]),
        message=int(rows.column("message")[at]),
    )
