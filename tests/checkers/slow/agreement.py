"""What stands at an offset, conflict by conflict: the oracle of the kernel in ``checkers/agreement.py``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.findings import Findings, decide
from chaos.kernel import Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts.arrays import Ints
from checkers.agreement.content import CONTENT
from checkers.agreement.holes import _report_epoch, extents
from checkers.agreement.promise import OFFSET_CONFLICT, PROMISE, REPLICA_DIVERGENCE
from checkers.agreement.records import describe
from tests.checkers.slow.claims import conflicts


@dataclass(frozen=True, slots=True)
class Content:
    """Records of queues."""

    promise: Promise = PROMISE
    needs: Needs = CONTENT

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        answers = facts.join(rows.memo(facts.acknowledged), rows.memo(facts.read))
        logs = facts.join(rows.memo(facts.confirmed_appends), rows.memo(facts.final_log))
        tiered = rows.memo(facts.tiered)
        found.count("answers", len(answers.at))
        found.count("log_records", len(logs.at))
        found.count("tiered_records", len(tiered.at))
        assert context.strict  # what a weaker profile permits is compared in test_losses.py
        diverged = conflicts(logs)
        for first, other in diverged:
            self._tell(rows, found, REPLICA_DIVERGENCE, int(logs.at[first]), int(logs.at[other]))
        places = {(int(logs.queue[first]), int(logs.offset[first])) for first, _ in diverged}
        claims = facts.join(answers, logs, tiered)
        for first, other in conflicts(claims):
            if (int(claims.queue[first]), int(claims.offset[first])) not in places:
                self._tell(rows, found, OFFSET_CONFLICT, int(claims.at[first]), int(claims.at[other]))
        told = [*rows.where(kind="trace", f="append"), *rows.where(kind="final", f="log")]
        found.count("records_told", sum(1 for one in told if rows.column("queue")[one] >= 0))
        if context.uses_queues:
            _compared(rows, found, answers, facts.claims_of(rows, np.array(told, dtype=np.int64)))
        at = rows.where(kind="final", f="log")
        at = at[rows.column("queue")[at] >= 0]
        for queue in np.unique(rows.column("queue")[at]).tolist():
            _no_holes(rows, found, at[rows.column("queue")[at] == queue])
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        needs = [
            ("answers", "no answer reported what an offset holds"),
            ("records_told", "no replica reported what its log holds"),
        ]
        return decide(PROMISE, partial, needs=needs, unless=context.no_queues)

    def _tell(self, rows: Rows, found: Findings, name: str, one: int, two: int) -> None:
        index, queue, offset = (rows.column(name) for name in ("index", "queue", "offset"))
        found.add(
            name,
            f"Queue {int(queue[one])}, offset {int(offset[one])} holds two messages: "
            f"{describe(rows, one)}, but {describe(rows, two)}.",
            int(index[one]),
            int(index[two]),
            queue=int(queue[one]),
            offset=int(offset[one]),
            message=int(rows.column("message")[one]),
        )


def _compared(rows: Rows, found: Findings, answers: facts.Claims, logs: facts.Claims) -> None:
    """Of which queues an answer, a log, or both tell of one offset."""
    answered, logged = ({*zip(one.queue.tolist(), one.offset.tolist(), strict=True)} for one in (answers, logs))
    of = {"answers": answered, "logs": logged, "both": answered & logged}
    found.fact(**{name: sorted({queue for queue, _ in places}) for name, places in of.items()})


def _no_holes(rows: Rows, found: Findings, at: Ints) -> None:
    """What one replica's log holds and calls confirmed after recovery, every other's holds at the same position, and as
    the same offset, if its own log begins before and ends after that. ``at`` are the records of one queue, or those of
    the system."""
    if not facts.has_recovered(rows):
        return
    logs = {
        node: (first, end, confirm)
        for node, first, end, confirm in rows.memo(extents)
        if node in facts.complete_nodes(rows)
    }
    position, node = rows.column("position")[at], rows.column("node")[at]
    epoch, queue = rows.column("epoch")[at], rows.column("queue")[at]
    places = list(zip(rows.column("offset")[at].tolist(), position.tolist(), strict=True))
    ends = position + np.maximum(rows.numbers("size", at), 1)
    own = {name: node == rows.code("node", name) for name in logs}
    holder: dict[tuple[int, int], int] = {}
    for number, place in enumerate(places):
        if any(own[name][number] and ends[number] <= confirm for name, (_, _, confirm) in logs.items()):
            holder.setdefault(place, number)
    for name, (first, end, _) in sorted(logs.items()):
        here = np.flatnonzero(own[name]).tolist()
        had = {places[number] for number in here}
        differ = [n for n in here if places[n] in holder and epoch[n] != epoch[holder[places[n]]]]
        other = np.array(differ, dtype=np.int64)
        found.add_each(
            REPLICA_DIVERGENCE, other, lambda number: _report_epoch(rows, found, int(at[number])), queues=queue[other]
        )
        due = [n for place, n in sorted(holder.items()) if position[n] >= first and ends[n] <= end and place not in had]
        missing = np.array(due, dtype=np.int64)

        def tell(number: int, name: str = name, first: int = first, end: int = end) -> None:
            row = int(at[number])
            found.add(
                REPLICA_DIVERGENCE,
                f"The log of {name} goes from position {first} to {end} after recovery, but has no such record at "
                f"position {int(position[number])}, where {describe(rows, row)}.",
                int(rows.column("index")[row]),
                *(int(rows.column("index")[n]) for n in rows.where(kind="final", f="node", node=name)),
                queue=int(rows.column("queue")[row]),
                offset=int(rows.column("offset")[row]),
                message=int(rows.column("message")[row]),
            )

        found.add_each(REPLICA_DIVERGENCE, missing, tell, queues=queue[missing])
