"""Where each replica has a tier of its own, or all share one: what its files hold of each queue after the run."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.driver import Evidence
from chaos.findings import Findings
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers._facts import reads, tier
from checkers._facts.reads import everywhere, own
from checkers.tier_continuity import objects
from checkers.tier_continuity.held import local_minimums
from checkers.tier_continuity.objects import TierContent, is_complete, with_gaps
from checkers.tier_continuity.promise import PROMISE, TIER_GAP, TIER_MISSING_OBJECT, TIER_OVERLAP

OWN = Needs(
    part="the tier that each replica has of its own",
    key=Key.QUEUE,
    joins=(objects.OF_EACH.part,),
    rows=(
        own("final", "tier_queue", "tier_damage"),
        everywhere("final", "node", "complete", "tier_unread"),
        reads.RUN,
    ),
    columns=(*reads.BASIC, *reads.LIVES, *reads.RECORDS),
    evidence=(Evidence.TIER_CONTENT,),
)


@dataclass(frozen=True, slots=True)
class OwnTiers:
    """Where each replica has a tier of its own, or all share one: what its files hold of each queue after the run."""

    promise: Promise = PROMISE
    needs: Needs = OWN

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        if not tier.has_own_tiers(context):
            return Partial()
        found = Findings(PROMISE)
        index, queues, offsets = rows.column("index"), rows.column("queue"), rows.column("offset")
        for at in rows.where(kind="final", f="tier_queue").tolist():
            found.count("tier_queues", 1)
            fields = rows.value(at)
            found.fact(
                claimed=int(queues[at]),
                node=rows.text("node", at),
                start=int(fields.get("minimum", -1)),
                end=int(fields.get("maximum", -1)),
                row=int(index[at]),
            )
            _reaches_the_log(rows, found, at)
        for at in rows.where(kind="final", f="tier_unread").tolist():
            why = rows.value(at).get("reason", "no reason was recorded")
            found.gap(f"{tier.of_node(rows.text('node', at))} was not read: {why}")
        for at in rows.where(kind="final", f="tier_damage").tolist():
            fields = rows.value(at)
            if fields.get("about") == "content":
                found.add(
                    TIER_OVERLAP if fields.get("kind") == "overlap" else TIER_MISSING_OBJECT,
                    f"In {tier.of_node(rows.text('node', at))}, {fields.get('text', 'damage')}.",
                    int(index[at]),
                    queue=int(queues[at]),
                    offset=int(offsets[at]),
                )
        return with_gaps(found.partial())

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        partial = partial.merge(_held(partial))
        needs = [("tier_queues", "no replica's tier was read after the run")] if tier.has_own_tiers(context) else []
        return tier.judge(PROMISE, partial, context, needs)


def _held(partial: Partial) -> Partial:
    """Check that each offset from the first to the last one that a replica's tier claims to hold is there, once."""
    found, tiers = Findings(PROMISE), TierContent.by_node(partial.facts)
    for claim in (fact for fact in partial.facts if "claimed" in fact):
        content = tiers.get(claim["node"], tiers[""])
        several = content.several(claim["claimed"])
        missing = several[:0]
        if is_complete(partial):
            missing = content.missing(claim["claimed"], max(claim["start"], 0), claim["end"])
        for name, offsets, what in ((TIER_GAP, missing, "lacks"), (TIER_OVERLAP, several, "holds more than once")):
            found.add_each(
                name,
                offsets,
                lambda offset, name=name, what=what, claim=claim: found.add(  # type: ignore[misc]
                    name,
                    f"Queue {claim['claimed']}: {tier.of_node(claim['node'])}, from {claim['start']} to"
                    f" {claim['end']}, {what} offset {offset}.",
                    claim["row"],
                    queue=claim["claimed"],
                    offset=offset,
                ),
            )
    return found.partial()


def _reaches_the_log(rows: Rows, found: Findings, at: int) -> None:
    """Check that the log of the same replica, or of each that shares the tier, begins at or before the tier's end."""
    node, queue = rows.text("node", at), int(rows.column("queue")[at])
    end = int(rows.value(at).get("maximum", -1))
    for row, minimum in local_minimums(rows, queue):
        replica = rows.text("node", row)
        if node in ("", replica) and minimum > end >= 0:
            found.add(
                TIER_GAP,
                f"The log of {replica} holds queue {queue} only from offset {minimum} on, but its tier ends at {end}.",
                int(rows.column("index")[at]),
                int(rows.column("index")[row]),
                queue=queue,
                offset=end,
            )
