"""What was deleted was lawfully deleted: each deletion is recomputed from what it says of itself, and from the tier."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.judging.findings import Findings
from chaos.law import Key, Needs, Partial, Promise, Rows, RunContext
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers._views import reads, retention
from checkers._views.reads import everywhere, own
from checkers.durability.evidence import decided
from checkers.durability.promise import PROMISE

NEEDS = Needs(
    part="what was deleted",
    key=Key.QUEUE,
    rows=(own("trace", "store_cas"), everywhere("trace", "retention"), reads.RUN),
    columns=(*reads.BASIC, "queue", "offset", "position"),
    uses=(Use.QUEUES,),
)


@dataclass(frozen=True, slots=True)
class Removed:
    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        retention.examine(rows, context, found)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decided(partial, context)
