"""What is read through the tier is what a local log gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.driver import Evidence
from chaos.findings import Findings
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import losses, reads, tier
from checkers._facts.arrays import only, places_in
from checkers._facts.reads import callers, own
from checkers.tier_continuity.promise import PROMISE, TIER_READ_MISMATCH

READS = Needs(
    part="what is read through the tier",
    key=Key.OFFSET,
    rows=(own("op", "delivered"), callers("pull"), *losses.TERMS),
    columns=(*reads.BASIC, *reads.OPERATIONS, *losses.COLUMNS, "message", "hash", "position"),
    evidence=(Evidence.TIER,),
)


@dataclass(frozen=True, slots=True)
class SameReads:
    """What is read through the tier is what a local log gives."""

    promise: Promise = PROMISE
    needs: Needs = READS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        if tier.has_tier(context):
            _reads_agree(rows, found, losses.keeps_read(rows, context))
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        wanted = ("tier_reads", "no message was read through the tier, though a workload tries to")
        return tier.judge(PROMISE, partial, context, [wanted] if Use.TIER_READS in context.uses else [])


def _reads_agree(rows: Rows, found: Findings, kept: bool) -> None:
    """Check that the same offset reads the same through the tier and from a local log, where no message that was read
    may be lost, for then another one may have been given its offset."""
    at, pulls = rows.where(kind="op", f="delivered"), facts.calls(rows.beside, "pull")
    slot, known = places_in(pulls.began, rows.column("op")[at])
    at, done = only(known, at, pulls.done[slot] if len(pulls.done) else slot)
    at, done = only(done >= 0, at, done)
    answers, answer = np.unique(done, return_inverse=True)
    code, sources = rows.labels("source", answers)
    source = np.array(sources, dtype=np.str_)[code[answer]]
    tier_reads, local_reads = at[source == "tier"], at[source == "local"]
    found.count("tier_reads", len(tier_reads))
    through, direct = facts.claims_of(rows, tier_reads), facts.claims_of(rows, local_reads)
    index = rows.column("index")
    claims = facts.join(direct, through)
    for first, other in facts.conflicts(claims):
        if not first < len(direct.at) <= other:
            continue
        if not kept:
            found.count("conflicts_by_policy", 1)
            continue
        one, two = int(claims.at[first]), int(claims.at[other])
        found.add(
            TIER_READ_MISMATCH,
            f"Queue {int(claims.queue[first])}, offset {int(claims.offset[first])} was read from the log of "
            f"{rows.text('node', one)} at {facts.at_s(rows, one)}, and through the tier by {rows.text('node', two)} at "
            f"{facts.at_s(rows, two)} with another content.",
            int(index[one]),
            int(index[two]),
            queue=int(claims.queue[first]),
            offset=int(claims.offset[first]),
            message=int(rows.column("message")[one]),
        )
