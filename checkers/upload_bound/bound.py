"""What uploaders sent, against their confirm offset, and against what the disks had."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.driver import Evidence
from chaos.findings import Findings
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts import reads, tier
from checkers._facts.arrays import Flags, Ints
from checkers._facts.reads import own
from checkers.upload_bound.promise import PROMISE, UPLOAD_BEYOND_CONFIRM

BOUND = Needs(
    part="what uploaders had confirmed",
    on_prefix=True,
    key=Key.RUN,
    rows=(own("trace", "tier_commit"), *reads.CONFIRMED_BY_COMMIT, *reads.CONFIRMED_BY_OTHERS, reads.RUN),
    columns=(*reads.BASIC, *reads.LIVES, *reads.RECORDS),
    evidence=(Evidence.TIER, Evidence.CONFIRM),
)


@dataclass(frozen=True, slots=True)
class Bound:
    """What uploaders sent, against their confirm offset, and against what the disks had."""

    promise: Promise = PROMISE
    needs: Needs = BOUND

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        if not tier.has_tier(context):
            return Partial()
        found = Findings(PROMISE)
        commits = rows.where(kind="trace", f="tier_commit")
        found.count("tier_commits", len(commits))
        if not len(commits):
            found.gap("no uploader reported the step that committed a manifest")
        _confirmed(rows, context, found, commits)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return tier.judge(PROMISE, partial, context, [])


def _confirmed(rows: Rows, context: RunContext, found: Findings, commits: Ints) -> None:
    """Check at the step of each commit that P is at most the node's confirm offset, and that this is backed by the
    set's disks. A log that begins again at S begins with S as its confirm offset: there is no log below it."""
    position, index = rows.column("position"), rows.column("index")
    commits = facts.by_node(rows, commits)
    confirms = np.concatenate([rows.where(kind="trace", f=f) for f in ("confirm", "recovered", "bootstrap")])
    known = facts.last_before(rows, confirms, commits, by_step=True)
    recovered = rows.column("f")[known] == rows.code("f", "recovered")
    is_judged = context.profile.flush == "sync" and (context.one_clock or not context.unfinished)
    doubtful = (known < 0) | recovered | (position[commits] > position[known])
    if is_judged:
        doubtful |= ~_are_backed(rows, context, known, position[commits])
    for at, before in zip(commits[doubtful].tolist(), known[doubtful].tolist(), strict=True):
        if before < 0:
            found.gap(f"{rows.text('node', at)} committed a manifest before it reported any confirm offset")
            continue
        confirm = confirm_of(rows, before)
        if position[at] > confirm:
            found.add(
                UPLOAD_BEYOND_CONFIRM,
                f"{rows.text('node', at)} committed a manifest of queue {int(rows.column('queue')[at])} up to log "
                f"position {int(position[at])} at {facts.at_s(rows, at)}, when its confirm offset was {confirm}.",
                int(index[before]),
                int(index[at]),
                queue=int(rows.column("queue")[at]),
                offset=int(rows.column("offset")[at]),
            )
        elif is_judged and rows.text("f", before) != "recovered":
            _backed(rows, context, found, before, at)


def _are_backed(rows: Rows, context: RunContext, known: Ints, position: Ints) -> Flags:
    """Return which of these ``confirm`` rows, or what else a node went by, surely name a set whose disks all had what
    is committed: whole columns say so."""
    confirms, index = rows.where(kind="trace", f="confirm"), rows.column("index")
    least = np.full(len(rows), -1)  # what all disks of the set of a row had
    for form in rows.memo(facts.confirm_forms):
        at = confirms[form.at]
        least[at] = facts.NEVER
        for member in {*(form.value.get("set") or ()), *(form.value.get("proposed") or ())}:
            indexes, ends = rows.memo(facts.durable_ends).get(member, (index[:0], index[:0]))
            durable = np.append(ends, -1)[np.searchsorted(indexes, index[at], side="right") - 1]
            least[at] = np.minimum(least[at], durable if context.one_clock else ends.max(initial=-1))
    found: Flags = (least[known] >= position) & (least[known] >= 0)
    return found


def confirm_of(rows: Rows, at: int) -> int:
    """Return the confirm offset that a ``confirm``, ``recovered`` or ``bootstrap`` row gives."""
    if rows.text("f", at) == "recovered":
        return int(rows.value(at).get("confirm", -1))
    return int(rows.column("position")[at])


def _backed(rows: Rows, context: RunContext, found: Findings, confirm: int, commit: int) -> None:
    """Check that every member of the set that the confirm row names had P on its disk: at that row in a simulated run,
    at some time elsewhere, where no clock orders the rows of two nodes."""
    value = rows.value(confirm)
    index, position = rows.column("index"), rows.column("position")
    for member in sorted({*(value.get("set") or ()), *(value.get("proposed") or ())}):
        indexes, ends = rows.memo(facts.durable_ends).get(member, (None, None))
        if indexes is None or ends is None:
            found.gap(f"{member} reported nothing of what is durable on its disk")
            continue
        place = int(np.searchsorted(indexes, index[confirm], side="right")) - 1
        durable = int(ends[place]) if place >= 0 else -1
        if not context.one_clock:
            durable = int(ends.max())
        if durable < position[commit] and facts.may_lack_ends(rows):
            found.gap(facts.ENDS_LACKING.format(member))
        elif durable < position[commit]:
            found.add(
                UPLOAD_BEYOND_CONFIRM,
                f"{rows.text('node', commit)} committed a manifest of queue {int(rows.column('queue')[commit])} up to "
                f"log position {int(position[commit])} at {facts.at_s(rows, commit)}, but {member}, a member of the "
                f"SyncStateSet, had only {max(0, durable)} on its disk.",
                int(index[confirm]),
                int(index[commit]),
                queue=int(rows.column("queue")[commit]),
                offset=int(rows.column("offset")[commit]),
            )
