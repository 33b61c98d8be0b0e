"""Replicas delete only what retention lets them delete, as they report it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.findings import Findings
from chaos.kernel import Key, Needs, Reads, Sieve
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers._facts import reads, retention
from checkers._facts.arrays import Ints, distinct
from checkers._facts.reads import everywhere, own
from checkers.durability.evidence import decided
from checkers.durability.promise import PROMISE


def _first_of_each(rows: Rows) -> Ints:
    """Return the first row of each queue. A sieve."""
    return np.unique(rows.column("queue"), return_index=True)[1]


#: Rows that show that there is a queue.
_SHOWING = {"op": ("send", "pull", "bounds", "delivered"), "trace": ("append",), "final": ("log", "tiered")}
_FIRST = Sieve(
    rows=tuple(own(kind, *f) for kind, f in _SHOWING.items()), columns=("queue",), keep=_first_of_each, streamed=True
)
NEEDS = Needs(
    part="what replicas deleted",
    key=Key.QUEUE,
    rows=(
        own("trace", "store_cas", "tier_commit"),
        *(Reads(kind=kind, f=f, sieve=_FIRST) for kind, f in _SHOWING.items()),
        *(everywhere("trace", "retention"), reads.RUN, reads.FAULTS),
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
        retention.examine(rows, context, found, _queues(rows))
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decided(partial, context)


def _queues(rows: Rows) -> Ints:
    """Return the queues that there are, ascending: of these all manifests are there."""
    shown = [rows.where(kind=kind, f=name) for kind, f in _SHOWING.items() for name in f]
    return distinct(rows.column("queue")[np.concatenate([retention.manifest_rows(rows), *shown])])
