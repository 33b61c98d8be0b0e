"""When commits of transactions were asked for: what was read, or counts, before that proves a transaction open."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.findings import Facts, Findings, decide
from chaos.kernel import Key, Needs, Reads
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers._facts.arrays import Ints, places_in
from checkers._facts.packed import packed, unpacked
from checkers._facts.transactions import asked_first
from checkers.log.promise import PROMISE, no_logs

NEEDS = Needs(
    part="when commits were asked for",
    key=Key.CALL,
    rows=(Reads(kind="op", f=("end_txn",), queueless=True),),
    columns=("op", "type", "value"),
    uses=(Use.TRANSACTIONS,),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """Transactions, ascending, and the ``index`` of the first request to commit each."""

    txn: Ints
    first: Ints

    @classmethod
    def of_facts(cls, reported: Facts) -> Asked:
        """Join what shards report."""
        txn, first = unpacked(reported, "asked_to_commit", "first")
        order = np.lexsort((first, txn))
        known, begin = np.unique(txn[order], return_index=True)
        return cls(known, first[order][begin])

    def since(self, txn: Ints) -> Ints:
        """Return for each transaction from which ``index`` on somebody had asked to commit it, -1 where nobody did."""
        place, there = places_in(self.txn, txn)
        found = np.full(len(txn), -1, dtype=np.int64)
        found[there] = self.first[place[there]]
        return found


@dataclass(frozen=True, slots=True)
class Requests:
    """Reports them, for others to judge by."""

    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        if not no_logs(context):
            found.fact(**packed(**asked_first(rows)))
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        """Find nothing by itself."""
        needs = [("commits_asked", "")] if no_logs(context) else []
        return decide(PROMISE, Partial(gaps=partial.gaps), needs=needs, unless=no_logs(context))
