"""What is acknowledged comes into the tier in time, and not in crumbs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from chaos.driver import Evidence
from chaos.findings import Findings
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts import losses, reads, tier
from checkers._facts.reads import own
from checkers._facts.run import load_began_ns
from checkers.tier_continuity import uploads
from checkers.tier_continuity.promise import HASTY_UPLOAD, LATE_UPLOAD, PROMISE
from checkers.tier_continuity.uploaded import UPLOADED

UPLOADS = Needs(
    part="when uploaders upload",
    key=Key.OFFSET,
    rows=(
        own("op", "send"),
        own("trace", "append"),
        *losses.TERMS,
    ),
    columns=(*reads.BASIC, *reads.LIVES, *reads.OPERATIONS, *reads.RECORDS),
    evidence=(Evidence.TIER,),
    lookups=(UPLOADED,),
)
#: What is said where a host was lost.
_LACKING = "a host was lost: the object store's trace may lack its end, with what came into the tier"


@dataclass(frozen=True, slots=True)
class Uploads:
    """What is acknowledged comes into the tier in time, and not in crumbs. Where losses are allowed, an upload may have
    to stop for good.

    Every shard knows what was uploaded. Of each queue it reports the first message of its own that came too late, and
    the hasty versions whose segments begin with a record of its own; the judgement finds which message was the first of
    the queue, and which versions follow one another. What it finds holds whatever else a shard would have reported.
    """

    promise: Promise = PROMISE
    needs: Needs = UPLOADS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        kept = context.profile.acks == "all" and losses.keeps(rows, context, confirmed=True)
        if not tier.has_tier(context) or context.unfinished or not kept:
            return Partial()
        found = Findings(PROMISE)
        for one in uploads.late(rows, context):
            if facts.may_lack_ends(rows):
                found.gap(_LACKING)
                break
            found.fact(**_as_fact(rows, one))
        for crumb in uploads.crumbs(rows, context):
            found.fact(crumb=asdict(crumb))
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return tier.judge(PROMISE, partial.merge(_together(partial.facts)), context, [])


def _as_fact(rows: Rows, one: uploads.Late) -> dict[str, Any]:
    """Return a late message as a fact: ``late`` is its queue, ``rows`` is the story; the ``end`` of the tier by the
    bound."""
    index = rows.column("index")
    return {
        "late": int(rows.column("queue")[one.at]),
        "began": one.began,
        "offset": int(rows.column("offset")[one.at]),
        "when": facts.at_s(rows, one.at),
        "since": _since(rows, one),
        "bound_s": one.bound_s,
        "end": one.end,
        "rows": [*([one.newest] if one.newest >= 0 else []), int(index[one.at])],
    }


def _since(rows: Rows, one: uploads.Late) -> str:
    """Say from when on the bound counts, in words."""
    if one.calm_ns <= rows.column("time_ns")[one.at]:
        return "later"
    return f"after {facts.in_s(one.calm_ns - rows.memo(load_began_ns))}, when all faults had been over for as long,"


def _together(reported: Sequence[Mapping[str, Any]]) -> Partial:
    """Find late messages and hasty uploads in the facts of all shards."""
    found = Findings(PROMISE)
    first: dict[int, Mapping[str, Any]] = {}
    for fact in sorted((fact for fact in reported if "late" in fact), key=lambda fact: int(fact["began"])):
        first.setdefault(fact["late"], fact)
    for queue, fact in sorted(first.items()):
        found.add(
            LATE_UPLOAD,
            f"The message at offset {fact['offset']} of queue {queue} was acknowledged at {fact['when']}, and "
            f"{fact['bound_s']:g} s {fact['since']} the tier held the queue only up to offset {fact['end']}, with no "
            "fault in the way.",
            *fact["rows"],
            queue=queue,
            offset=fact["offset"],
        )
    for series in uploads.hasty(uploads.Crumb(**fact["crumb"]) for fact in reported if "crumb" in fact):
        start, last = series[0], series[-1]
        largest, oldest = max(one.bytes for one in series), max(one.age_ms for one in series)
        found.add(
            HASTY_UPLOAD,
            f"{start.writer} uploaded {len(series)} segments of queue {start.queue} in a row from "
            f"{facts.in_s(start.since_load_ns)} on that had no more than {largest} bytes, and no record "
            f"was older than {oldest:.0f} ms; a segment is to be uploaded when it has {last.full_bytes} "
            f"bytes, or its first record is {last.old_ms} ms old.",
            start.index,
            last.index,
            queue=start.queue,
        )
    return found.partial()
