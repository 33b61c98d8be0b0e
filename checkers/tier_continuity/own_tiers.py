"""Where each replica has a tier of its own: what its files hold of each queue after the run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.driver import Evidence
from chaos.judging.findings import Findings
from chaos.law import Key, Needs, Partial, Promise, Rows, RunContext
from chaos.verdict import Verdict
from checkers import _views as views
from checkers._views import reads, tier
from checkers._views.reads import everywhere, own
from checkers.tier_continuity.held import FAR, local_minimums, repeated
from checkers.tier_continuity.promise import PROMISE, TIER_GAP, TIER_MISSING_OBJECT, TIER_OVERLAP

OWN = Needs(
    part="the tier that each replica has of its own",
    key=Key.QUEUE,
    rows=(
        own("final", "tiered", "tier_queue", "tier_damage"),
        everywhere("final", "node", "complete", "tier_unread"),
        reads.RUN,
    ),
    columns=(*reads.BASIC, *reads.LIVES, *reads.RECORDS),
    evidence=(Evidence.TIER_CONTENT,),
)


@dataclass(frozen=True, slots=True)
class OwnTiers:
    """Where each replica has a tier of its own: what its files hold of each queue after the run."""

    promise: Promise = PROMISE
    needs: Needs = OWN

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        if not tier.has_own_tiers(context):
            return Partial()
        found = Findings(PROMISE)
        index, queues, offsets = rows.column("index"), rows.column("queue"), rows.column("offset")
        records = rows.where(kind="final", f="tiered")
        nodes = np.array([rows.text("node", at) for at in records.tolist()], dtype=np.str_)
        for at in rows.where(kind="final", f="tier_queue").tolist():
            found.count("tier_queues", 1)
            node, queue = rows.text("node", at), int(queues[at])
            held = offsets[records[(nodes == node) & (queues[records] == queue)]]
            _holds_all(rows, found, at, held)
            _reaches_the_log(rows, found, at)
        for at in rows.where(kind="final", f="tier_unread").tolist():
            why = rows.value(at).get("reason", "no reason was recorded")
            found.gap(f"the tier of {rows.text('node', at)} was not read: {why}")
        for at in rows.where(kind="final", f="tier_damage").tolist():
            told = rows.value(at)
            if told.get("about") == "content":
                found.add(
                    TIER_OVERLAP if told.get("kind") == "overlap" else TIER_MISSING_OBJECT,
                    f"In the tier of {rows.text('node', at)}, {told.get('text', 'damage')}.",
                    int(index[at]),
                    queue=int(queues[at]),
                    offset=int(offsets[at]),
                )
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        needs = [("tier_queues", "no replica's tier was read after the run")] if tier.has_own_tiers(context) else []
        return tier.judge(PROMISE, partial, context, needs)


def _holds_all(rows: Rows, found: Findings, at: int, held: views.Ints) -> None:
    """Every offset between the first and the last one that this tier claims to hold of a queue is there, once."""
    told, queue = rows.value(at), int(rows.column("queue")[at])
    start, end = int(told.get("minimum", -1)), int(told.get("maximum", -1))
    far = min(end, int(held.max(initial=start - 1)) + 1 + FAR)
    missing = np.setdiff1d(np.arange(max(start, 0), far), held)
    for name, offsets, what in ((TIER_GAP, missing, "lacks"), (TIER_OVERLAP, repeated(held), "holds more than once")):
        found.add_each(
            name,
            offsets,
            lambda offset, name=name, what=what: found.add(  # type: ignore[misc]
                name,
                f"The tier of {rows.text('node', at)}, from {start} to {end} of queue {queue}, {what} offset {offset}.",
                int(rows.column("index")[at]),
                queue=queue,
                offset=offset,
            ),
        )


def _reaches_the_log(rows: Rows, found: Findings, at: int) -> None:
    """The log of the same replica begins at or before its tier's end."""
    node, queue = rows.text("node", at), int(rows.column("queue")[at])
    end = int(rows.value(at).get("maximum", -1))
    for row, minimum in local_minimums(rows, queue):
        if rows.text("node", row) == node and minimum > end >= 0:
            found.add(
                TIER_GAP,
                f"The log of {node} holds queue {queue} only from offset {minimum} on, but its tier ends at {end}.",
                int(rows.column("index")[at]),
                int(rows.column("index")[row]),
                queue=queue,
                offset=end,
            )
