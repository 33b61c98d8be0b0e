"""Objects that no manifest names are deleted by the masters that come after, for good; manifests are trimmed."""

from __future__ import annotations

from chaos.driver import Evidence
from chaos.events import StoreCas, StoreDelete, StorePut, TierCommit
from chaos.findings import Findings, decide
from chaos.law import Key, Law, Partial, Rows
from chaos.operations import FaultRow, HarnessRow, OrphanObject
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts import garbage, tier
from checkers._facts.run import load_began_ns
from checkers.tier_continuity.promise import NEVER_COLLECTED, NEVER_TRIMMED, OBJECT_RETURNED, PROMISE


class Garbage(Law):
    """Objects that no manifest names are deleted by the masters that come after, for good; manifests are trimmed."""

    promise = PROMISE
    key = Key.QUEUE
    reads = (StoreCas, StorePut, StoreDelete, TierCommit, OrphanObject, HarnessRow, FaultRow)
    evidence = (Evidence.TIER,)
    part = "what uploaders leave behind"

    def examine(self, given: Rows) -> Partial:
        rows, context = given.columns, given.run
        if not tier.has_tier(context):
            return tier.NO_TIER
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

    def judge(self, partial: Partial) -> Verdict:
        return decide(PROMISE, partial)
