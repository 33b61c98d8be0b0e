"""Tiered records against the logs of the replicas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from chaos.driver import Evidence
from chaos.findings import Findings
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts import losses, reads, tier
from checkers._facts.arrays import distinct, pairs_occur
from checkers._facts.reads import own
from checkers.upload_bound.promise import PROMISE, TIER_LOG_MISMATCH, UPLOAD_BEYOND_CONFIRM

CONTENT = Needs(
    part="tiered records against logs",
    key=Key.OFFSET,
    rows=(own("final", "tiered"), *losses.TERMS, *reads.FINAL_LOGS, *reads.CONFIRMED_APPENDS),
    columns=(*reads.BASIC, *reads.LIVES, *reads.RECORDS, "type"),
    evidence=(Evidence.TIER_CONTENT, Evidence.FINAL_LOGS),
)


@dataclass(frozen=True, slots=True)
class Content:
    """Tiered records against the logs of the replicas."""

    promise: Promise = PROMISE
    needs: Needs = CONTENT

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        if not tier.has_tier(context):
            return Partial()
        found = Findings(PROMISE)
        tiered = rows.memo(facts.tiered)
        found.count("tiered_records", len(tiered.at))
        logs = rows.memo(facts.final_log)
        keeps = losses.keeps(rows, context, confirmed=True)
        if keeps:
            logs = facts.join(logs, rows.memo(facts.confirmed_appends))
        compared = pairs_occur((tiered.queue, tiered.offset), (logs.queue, logs.offset))
        found.count("tiered_records_compared", int(np.count_nonzero(compared)))
        index, queues, offsets = rows.column("index"), rows.column("queue"), rows.column("offset")
        several = tier.has_own_tiers(context)
        for one, two in _mismatches(tiered, logs, several=several):
            queue, offset = int(queues[one]), int(offsets[one])
            whose = tier.of_node(rows.text("node", one)) if several else "the tier"
            found.add(
                TIER_LOG_MISMATCH,
                f"Queue {queue}, offset {offset}: {whose} holds another record "
                f"(position {int(rows.column('position')[one])}, epoch {int(rows.column('epoch')[one])}) than the "
                f"confirmed log of {rows.text('node', two)} (position {int(rows.column('position')[two])}, epoch "
                f"{int(rows.column('epoch')[two])}).",
                int(index[two]),
                int(index[one]),
                queue=queue,
                offset=offset,
                message=int(rows.column("message")[one]),
            )
        if several:
            _beyond_all_logs(rows, context, found, tiered, keeps=keeps)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        needs = [
            ("tiered_records", "no record of the tier was read after the run"),
            ("tiered_records_compared", "no log reported an offset that a record of the tier has"),
        ]
        return tier.judge(PROMISE, partial, context, needs)


def _mismatches(tiered: facts.Claims, logs: facts.Claims, *, several: bool) -> Iterator[tuple[int, int]]:
    """Yield (row of the tier, row of a log) of what differs. Where there are ``several`` tiers, one of them may be
    right while another one isn't, so each is held against the logs."""
    count = len(logs.at if several else tiered.at)
    for first, other in facts.conflicts(facts.join(logs, tiered) if several else facts.join(tiered, logs)):
        if not first < count <= other:
            continue
        if several:
            yield int(tiered.at[other - count]), int(logs.at[first])
        else:
            yield int(tiered.at[first]), int(logs.at[other - count])


def _beyond_all_logs(rows: Rows, context: RunContext, found: Findings, tiered: facts.Claims, *, keeps: bool) -> None:
    """Check that no tier holds more than any log. After recovery everything is confirmed that any replica holds. What a
    tier holds beyond that was uploaded before it was confirmed, and cut off; or, where logs may lose what is confirmed
    (not ``keeps``), it is unknown whether it was."""
    names = facts.brokers(rows, context)
    if not names or not set(names) <= facts.complete_nodes(rows) or not facts.has_recovered(rows):
        found.gap("not every replica was read to its end, so that it is unknown what was confirmed")
        return
    ends: dict[int, tuple[int, int]] = {}
    for at in rows.where(kind="final", f="node").tolist():
        maximums = rows.value(at).get("maximums")
        if maximums is None:
            found.gap(f"{rows.text('node', at)} did not report where its queues end")
            return
        for queue, end in maximums.items():
            ends[int(queue)] = max(ends.get(int(queue), (-1, -1)), (int(end), at))
    index = rows.column("index")
    last = int(rows.where(kind="final", f="node")[-1])
    for queue in distinct(tiered.queue).tolist():
        end, witness = ends.get(queue, (0, last))  # a queue that no replica names has no record in any log
        mine = tiered.only((tiered.queue == queue) & (tiered.offset >= end))
        if len(mine.at) and not keeps:
            found.gap(
                f"queue {queue}: the tier goes on at offset {end}, where all logs end; it is unknown whether that was"
                " uploaded too early, or all logs have lost it, as the profile permits"
            )
            continue
        for at, offset in zip(mine.at.tolist(), mine.offset.tolist(), strict=True):
            found.add(
                UPLOAD_BEYOND_CONFIRM,
                f"Queue {queue}: {tier.of_node(rows.text('node', at))} holds offset {offset}, but no replica's log "
                f"goes further than {end}.",
                int(index[witness]),
                int(index[at]),
                queue=queue,
                offset=offset,
                message=int(rows.column("message")[at]),
            )
