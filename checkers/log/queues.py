"""All that is judged of each queue by itself, and what of it must be known elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, replace

from chaos.findings import Findings, decide
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import losses, reads
from checkers._facts.reads import everywhere, own
from checkers.log import asked, contents, early, elections, missing, producers, readers, stalls, unknown
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
    joins=(asked.NEEDS.part,),
    idle=True,
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
        stalls.check(rows, context, found)
        return found.partial().merge(_owed(rows, context))

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        joined = partial.merge(unknown.committed(partial.facts)).merge(early.precommitted(partial.facts))
        return decide(PROMISE, joined, needs=SHOWN, unless=no_logs(context))


def _owed(rows: Rows, context: RunContext) -> Partial:
    """Find what is wrong unless the run itself destroyed every copy that was sure: then it is unknown."""
    found = Findings(PROMISE)
    for check in (missing.check, readers.check, producers.check, elections.check, unknown.note):
        check(rows, context, found)
    partial = found.partial()
    destroyed = facts.all_destroyed(rows, context)
    if not destroyed:
        return partial
    wrong = [one.name for one in partial.anomalies if not one.lawful]
    gaps = [f"{name} was found, but {destroyed}" for name in dict.fromkeys(wrong)]
    return replace(partial, anomalies=(), facts=(), moments={}, gaps=(*partial.gaps, *gaps))
