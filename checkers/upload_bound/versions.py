"""What the versions of a manifest say themselves, and in which order they came."""

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
from checkers._facts import losses, reads, retention, tier
from checkers._facts.reads import own
from checkers.upload_bound.promise import PROMISE, TIER_LOG_MISMATCH, TIER_OFFSET_REGRESSION, UPLOAD_BEYOND_CONFIRM

VERSIONS = Needs(
    part="versions of manifests",
    on_prefix=True,
    key=Key.QUEUE,
    rows=(own("trace", "tier_stop", "store_cas"), *losses.TERMS),
    columns=(*reads.BASIC, *reads.LIVES, *reads.RECORDS, "type"),
    evidence=(Evidence.TIER, Evidence.CONFIRM),
)


@dataclass(frozen=True, slots=True)
class Versions:
    """What the versions of a manifest say themselves, and in which order they came."""

    promise: Promise = PROMISE
    needs: Needs = VERSIONS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        if not tier.has_tier(context):
            return Partial()
        found = Findings(PROMISE)
        found.count("manifest_versions", sum(len(known) for known in rows.memo(tier.manifests).values()))
        _own_words(rows, found)
        _versions_grow(rows, found)
        _given_up(rows, context, found)
        if losses.keeps(rows, context, confirmed=True):
            for before, after in tier.falls(rows, "end"):
                found.add(
                    TIER_OFFSET_REGRESSION,
                    f"Version {after.version} of the manifest of queue {after.queue}, by {after.writer} (epoch "
                    f"{after.epoch}), ends at offset {after.end}, but version {before.version} ended at {before.end}.",
                    *(int(rows.column("index")[v.at]) for v in (before, after)),
                    queue=after.queue,
                    offset=after.end,
                )
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return tier.judge(PROMISE, partial, context, [("manifest_versions", "no manifest was committed")])


def _given_up(rows: Rows, context: RunContext, found: Findings) -> None:
    """Report each uploader that gave a queue up: it has found the tier and its own log in contradiction."""
    for at in rows.where(kind="trace", f="tier_stop"):
        queue, reason = int(rows.column("queue")[at]), rows.value(at).get("reason", "no reason was recorded")
        what = f"{rows.text('node', at)} stopped uploading queue {queue} at {facts.at_s(rows, at)}: {reason}"
        if losses.keeps(rows, context, confirmed=True):
            index = int(rows.column("index")[at])
            found.add(TIER_LOG_MISMATCH, f"{what}.", index, queue=queue)
        else:
            found.gap(what)


def _versions_grow(rows: Rows, found: Findings) -> None:
    """Check that each version that the store applies is a newer one than all before it: nothing of a manifest comes
    back, and no version is there twice. What a store reports again after a crash is one and the same request."""
    index, queue, content = (rows.column(name) for name in ("index", "queue", "hash"))
    newest: dict[int, tuple[int, tuple[str, int], int]] = {}
    at = facts.in_node_order(rows, retention.manifest_rows(rows))
    for row, value in zip(at.tolist(), rows.values(at), strict=True):
        if value.get("outcome") != "applied":
            continue
        version, request = int(value.get("version", -1)), (str(value.get("request", "")), int(content[row]))
        before = newest.setdefault(int(queue[row]), (version, request, row))
        if version > before[0]:
            newest[int(queue[row])] = (version, request, row)
        elif before[2] != row and (version, request) != before[:2]:
            found.add(
                TIER_OFFSET_REGRESSION,
                f"The object store applied version {version} of the manifest of queue {int(queue[row])} at "
                f"{facts.at_s(rows, row)}, after version {before[0]}.",
                int(index[before[2]]),
                int(index[row]),
                queue=int(queue[row]),
                offset=int(rows.column("offset")[row]),
            )


def _own_words(rows: Rows, found: Findings) -> None:
    """Check that each version's own P is at most its own confirm offset."""
    for known in rows.memo(tier.manifests).values():
        for place in np.flatnonzero((known.position > known.confirm) & (known.confirm >= 0)).tolist():
            version = known[place]
            found.add(
                UPLOAD_BEYOND_CONFIRM,
                f"Version {version.version} of the manifest of queue {version.queue} goes up to log position "
                f"{version.position}, and says itself that only {version.confirm} was confirmed.",
                int(rows.column("index")[version.at]),
                queue=version.queue,
                offset=version.end,
            )
