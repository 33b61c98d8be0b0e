"""All that is judged of each queue by itself, and what of it must be known elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.findings import Findings, decide
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers._facts import losses, reads
from checkers._facts.reads import everywhere, own
from checkers.log import contents, missing, producers, readers, stalls, unknown
from checkers.log.promise import PROMISE, SHOWN, no_logs
from checkers.log.rows import TRANSACTIONS

NEEDS = Needs(
    part="what stands in each queue",
    key=Key.QUEUE,
    rows=(
        own("op", "send", "delivered", "pull", "receive", "bounds", "drain", "seek"),
        everywhere("op", "assign", "join", "leave"),
        *TRANSACTIONS,
        *losses.TERMS,
        *(*reads.REPLICAS, *reads.CONFIRMED_APPENDS),
    ),
    columns=(*reads.BASIC, *reads.OPERATIONS, *reads.RECORDS, *reads.LIVES),
    uses=(Use.LOGS, Use.TRANSACTIONS),
)


@dataclass(frozen=True, slots=True)
class Queues:
    """Whether a transaction of unknown outcome was committed, another queue may show."""

    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        if no_logs(context) or not any(len(rows.where(kind="op", f=f)) for f in ("send", "delivered")):
            return found.partial()
        contents.check(rows, context, found)
        missing.check(rows, context, found)
        readers.check(rows, context, found)
        producers.check(rows, context, found)
        stalls.check(rows, context, found)
        unknown.note(rows, context, found)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decide(PROMISE, partial.merge(unknown.committed(partial.facts)), needs=SHOWN, unless=no_logs(context))
