"""Replicas delete only what retention lets them delete, as they report it."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.findings import Findings
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers._facts import reads, retention
from checkers._facts.reads import everywhere, own
from checkers.durability.evidence import decided
from checkers.durability.promise import PROMISE

NEEDS = Needs(
    part="what replicas deleted",
    key=Key.QUEUE,
    rows=(
        own("trace", "store_cas", "tier_commit"),
        *(reads.FIRST_APPENDS, reads.SILENCE),  # of which queues there is anything
        *(everywhere("trace", "retention"), reads.RUN),
    ),
    columns=(*reads.BASIC, *reads.OPERATIONS, *reads.RECORDS),
    uses=(Use.QUEUES,),
)


@dataclass(frozen=True, slots=True)
class Deletions:
    """Each reported deletion is recomputed."""

    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        retention.examine(rows, context, found)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decided(partial, context)
