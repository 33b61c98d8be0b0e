"""What stands at an offset, conflict by conflict: the oracle of the kernel in ``checkers/agreement.py``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.judging.findings import Findings, decide
from chaos.law import Needs, Partial, Promise, Rows, RunContext
from chaos.verdict import Verdict
from checkers import _views as views
from checkers.agreement import CONTENT, OFFSET_CONFLICT, PROMISE, REPLICA_DIVERGENCE, _no_holes, describe
from slow.claims import conflicts


@dataclass(frozen=True, slots=True)
class Content:
    """Records of queues."""

    promise: Promise = PROMISE
    needs: Needs = CONTENT

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        answers = views.join(rows.memo(views.acknowledged), rows.memo(views.read))
        logs = views.join(rows.memo(views.confirmed_appends), rows.memo(views.final_log))
        tiered = rows.memo(views.tiered)
        found.count("answers", len(answers.at))
        found.count("log_records", len(logs.at))
        found.count("tiered_records", len(tiered.at))
        strict = context.strict
        logs = logs if strict else rows.memo(views.final_log)
        diverged = conflicts(logs)
        for first, other in diverged:
            self._tell(rows, found, REPLICA_DIVERGENCE, int(logs.at[first]), int(logs.at[other]))
        places = {(int(logs.queue[first]), int(logs.offset[first])) for first, _ in diverged}
        claims = views.join(answers, logs, tiered) if strict else views.join(logs, tiered)
        for first, other in conflicts(claims):
            if (int(claims.queue[first]), int(claims.offset[first])) not in places:
                self._tell(rows, found, OFFSET_CONFLICT, int(claims.at[first]), int(claims.at[other]))
        if not strict:
            found.count("conflicts_by_policy", len(conflicts(views.join(answers, logs, tiered))))
        told = len(rows.where(kind="trace", f="append")) + len(rows.where(kind="final", f="log"))
        found.count("records_told", told)
        at = rows.where(kind="final", f="log")
        at = at[rows.column("queue")[at] >= 0]
        for queue in np.unique(rows.column("queue")[at]).tolist():
            _no_holes(rows, found, at[rows.column("queue")[at] == queue])
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        needs = [
            ("answers", "no answer told what an offset holds"),
            ("records_told", "no replica told what its log holds"),
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
