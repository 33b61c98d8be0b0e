"""Objects that no manifest names are deleted by the masters that come after, for good; manifests are trimmed."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.driver import Evidence
from chaos.findings import Findings
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts import garbage, reads, tier
from checkers._facts.reads import own
from checkers._facts.run import load_began_ns
from checkers.tier_continuity.promise import NEVER_COLLECTED, NEVER_TRIMMED, OBJECT_RETURNED, PROMISE

GARBAGE = Needs(
    part="what uploaders leave behind",
    key=Key.QUEUE,
    rows=(
        own("trace", "store_cas", "store_put", "store_delete", "tier_commit"),
        own("final", "orphan"),
        *(reads.RUN, reads.FAULTS),
    ),
    columns=(*reads.BASIC, *reads.LIVES, "queue", "offset", "position", "epoch", "hash", "type", "process"),
    evidence=(Evidence.TIER,),
)


@dataclass(frozen=True, slots=True)
class Garbage:
    """Objects that no manifest names are deleted by the masters that come after, for good; manifests are trimmed."""

    promise: Promise = PROMISE
    needs: Needs = GARBAGE

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        if not tier.has_tier(context):
            return Partial()
        found = Findings(PROMISE)
        found.count("objects_put", len(rows.where(kind="trace", f="store_put")))
        index, known = rows.column("index"), garbage.bound_s(context)
        for left in garbage.left_behind(rows, context):
            version = left.taken_over
            found.add(
                NEVER_COLLECTED,
                f"{version.writer} took over the manifest of queue {left.queue} in epoch {version.epoch} "
                f"({facts.at_s(rows, version.at)}), and left the object {left.key}, which no manifest names, where it "
                f"was for {left.quiet_ns / 1e9:.1f} s with no fault in its way; {known:g} s are permitted.",
                int(index[left.put]),
                int(index[version.at]),
                queue=left.queue,
            )
        for one in garbage.untrimmed(rows, context):
            first, last = one.first, one.last
            found.add(
                NEVER_TRIMMED,
                f"{first.writer} must keep {one.retain_bytes} bytes of queue {first.queue} in the tier; its manifest "
                f"named more than that, even without the oldest object, for {one.lasted_ns / 1e9:.1f} s from "
                f"{facts.in_s(one.begun_ns - rows.memo(load_began_ns))} on, with no fault in its way; {known:g} s are "
                "permitted.",
                int(index[first.at]),
                int(index[last.at]),
                queue=first.queue,
            )
        for back in garbage.returned(rows):
            found.add(
                OBJECT_RETURNED,
                f"{rows.text('node', back.seen)} deleted the object {back.key} at {facts.at_s(rows, back.deleted)}, "
                f"and {back.how} at {facts.at_s(rows, back.seen)}, though nobody had written it since.",
                int(index[back.deleted]),
                int(index[back.seen]),
                queue=int(rows.column("queue")[back.seen]),
            )
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return tier.judge(PROMISE, partial, context, [])
