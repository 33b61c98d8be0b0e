"""Segments neither overlap nor leave a gap; tier and local log together hold everything, with the same content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chaos.driver import Evidence
from chaos.judging.findings import Findings
from chaos.law import AnomalyKind, Key, Needs, Partial, Promise, Rows, RunContext
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _views as views
from checkers._views import garbage, reads, retention, tier, uploads
from checkers._views.arrays import only, places_in
from checkers._views.reads import callers, everywhere, own
from checkers._views.tier import Version

#: So far beyond what the objects hold missing offsets are looked for one by one.
FAR = 1_000_000


TIER_GAP = "tier-gap"
TIER_OVERLAP = "tier-overlap"
TIER_MISSING_OBJECT = "tier-missing-object"
TIER_READ_MISMATCH = "tier-read-mismatch"
NEVER_COLLECTED = "never-collected"
NEVER_TRIMMED = "never-trimmed"
LATE_UPLOAD = "late-upload"
HASTY_UPLOAD = "hasty-upload"
PROMISE = Promise(
    name="tier-continuity",
    place=60,
    meaning="Tier and local logs together hold everything that is retained, once, and both read the same.",
    anomalies=(
        AnomalyKind(name=TIER_GAP, meaning="offsets that neither the tier nor a local log holds"),
        AnomalyKind(name=TIER_OVERLAP, meaning="an offset that is in two objects, or an object that was written twice"),
        AnomalyKind(name=TIER_MISSING_OBJECT, meaning="a manifest, or an object or offset that it names, is not there"),
        AnomalyKind(
            name=TIER_READ_MISMATCH, meaning="an offset reads differently through the tier and from a local log"
        ),
        AnomalyKind(
            name=NEVER_COLLECTED, meaning="an object that no manifest names was still there after a whole master term"
        ),
        AnomalyKind(name=NEVER_TRIMMED, meaning="a manifest went on naming more than is to be kept"),
        AnomalyKind(name=LATE_UPLOAD, meaning="an acknowledged message came too late into the tier, without a fault"),
        AnomalyKind(
            name=HASTY_UPLOAD, meaning="segment after segment was uploaded before it was full, or its records old"
        ),
    ),
)


NEEDS = Needs(
    key=Key.QUEUE,
    rows=(
        own("trace", "store_cas", "store_put", "store_get", "store_delete", "append"),
        own("final", "tiered", "manifest"),
        everywhere("trace", "retention", "bootstrap"),
        everywhere("final", "node", "complete"),
        reads.RUN,
    ),
    columns=(*reads.BASIC, *reads.LIVES, *reads.OPERATIONS, *reads.RECORDS),
    evidence=(Evidence.TIER,),
)
READS = Needs(
    part="what is read through the tier",
    key=Key.OFFSET,
    rows=(own("op", "delivered"), callers("pull"), reads.RUN),
    columns=(*reads.BASIC, *reads.OPERATIONS, "message", "hash"),
    evidence=(Evidence.TIER,),
)
GARBAGE = Needs(
    part="what uploaders leave behind",
    key=Key.QUEUE,
    rows=(own("trace", "store_cas", "store_put", "store_delete", "tier_commit"), reads.RUN, reads.FAULTS),
    columns=(*reads.BASIC, *reads.LIVES, "queue", "offset", "position", "epoch", "hash", "type", "process"),
    evidence=(Evidence.TIER,),
)
UPLOADS = Needs(
    part="when uploaders upload",
    key=Key.QUEUE,
    rows=(own("op", "send"), own("trace", "store_cas", "tier_commit", "append"), reads.RUN, reads.FAULTS),
    columns=(*reads.BASIC, *reads.LIVES, *reads.OPERATIONS, *reads.RECORDS),
    evidence=(Evidence.TIER,),
)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


@dataclass(frozen=True, slots=True)
class TierContinuity:
    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        if not tier.has_tier(context):
            return Partial()
        found = Findings(PROMISE)
        for queue, versions in rows.memo(tier.manifests).items():
            found.count("manifest_versions", len(versions))
            for version in versions:
                _segments(rows, found, version)
            _deletes(rows, found, queue, versions)
            _stays(rows, found, queue)
            _stand_for(rows, found, queue, versions)
            _beginning(rows, found, queue, versions)
            _local_meets_tier(rows, context, found, queue, versions)
            _objects(rows, found, versions[-1])
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return tier.judge(PROMISE, partial, context, [("manifest_versions", "no manifest was committed")])


@dataclass(frozen=True, slots=True)
class SameReads:
    """What is read through the tier is what a local log gives."""

    promise: Promise = PROMISE
    needs: Needs = READS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        if tier.has_tier(context):
            _reads_agree(rows, found, context.strict)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        wanted = ("tier_reads", "no message was read through the tier, though a workload tries to")
        return tier.judge(PROMISE, partial, context, [wanted] if Use.TIER_READS in context.uses else [])


def _segments(rows: Rows, found: Findings, version: Version) -> None:
    """Within one version: segments follow one another from ``start`` to T."""
    expected = version.start
    index = int(rows.column("index")[version.at])
    where = f"Version {version.version} of the manifest of queue {version.queue}, by {version.writer}"
    for segment in version.segments:
        base, count = retention.number(segment, "base"), retention.number(segment, "count")
        if base is None or count is None:
            found.gap(f"a manifest of queue {version.queue} does not tell where each of its segments begins and ends")
            return
        if base != expected:
            name = TIER_GAP if base > expected else TIER_OVERLAP
            found.add(
                name,
                f"{where}: the segment {segment.get('key', '')} begins at offset {base}, the one before it ends at "
                f"{expected}.",
                index,
                queue=version.queue,
                offset=min(base, expected),
            )
        expected = base + count
    if expected != version.end and (version.segments or version.start >= 0):
        name = TIER_GAP if expected < version.end else TIER_OVERLAP
        found.add(
            name,
            f"{where}: it claims to hold all up to offset {version.end}, but its segments end at {expected}.",
            index,
            queue=version.queue,
            offset=expected,
        )


def _deletes(rows: Rows, found: Findings, queue: int, versions: Sequence[Version]) -> None:
    """An object is deleted only once the current version of the manifest does not name it."""
    index = rows.column("index")
    applied = np.array([index[version.at] for version in versions], dtype=np.int64)
    for at in rows.where(kind="trace", f="store_delete", queue=queue):
        key = rows.value(at).get("key")
        place = int(np.searchsorted(applied, index[at])) - 1
        if rows.value(at).get("outcome") != "deleted" or place < 0:
            continue
        current = versions[place]
        if any(segment.get("key") == key for segment in current.segments):
            found.add(
                TIER_MISSING_OBJECT,
                f"{rows.value(at).get('caller', 'Somebody')} deleted the object {key} at {views.at_s(rows, at)}, "
                f"while version {current.version} of the manifest of queue {queue} names it.",
                int(index[current.at]),
                int(index[at]),
                queue=queue,
            )


def _stays(rows: Rows, found: Findings, queue: int) -> None:
    """In one life of the store, what was written is there until it is deleted. (A deletion that a crash of the store
    left untold may show in its next life.)"""
    index, lives = rows.column("index"), rows.column("incarnation")
    told = [rows.where(kind="trace", f=f, queue=queue) for f in ("store_put", "store_cas", "store_get", "store_delete")]
    there: dict[tuple[str, str, int], int] = {}
    for at in views.in_node_order(rows, np.sort(np.concatenate(told))).tolist():
        value = rows.value(at)
        key, outcome = str(value.get("key", "")), value.get("outcome")
        place = (rows.text("node", at), key, int(lives[at]))
        if outcome in ("created", "applied"):
            there[place] = at
        elif outcome == "deleted":
            there.pop(place, None)
        elif outcome == "absent" and place in there:
            written = there.pop(place)
            found.add(
                TIER_MISSING_OBJECT,
                f"{place[0]} answered at {views.at_s(rows, at)} that there is no {key}, which it had told at "
                f"{views.at_s(rows, written)} to be written, and nobody had deleted since.",
                int(index[written]),
                int(index[at]),
                queue=queue,
            )


def _stand_for(rows: Rows, found: Findings, queue: int, versions: Sequence[Version]) -> None:
    """A segment stands for an object that was there before, once, with the very bytes that the manifest tells."""
    index, content = rows.column("index"), rows.column("hash")
    created: dict[str, int] = {}
    for at in views.in_node_order(rows, rows.where(kind="trace", f="store_put", queue=queue)).tolist():
        told = rows.value(at)
        key, request = str(told.get("key", "")), told.get("request")
        if told.get("outcome") != "created":
            continue
        first = created.setdefault(key, at)
        if content[first] != content[at] and rows.value(first).get("request") != request:
            found.add(
                TIER_OVERLAP,
                f"{told.get('caller', 'Somebody')} wrote other bytes to the object {key} at {views.at_s(rows, at)}, "
                f"which {rows.value(first).get('caller', 'somebody')} had written before.",
                int(index[first]),
                int(index[at]),
                queue=queue,
            )
    history = _history_of_objects(rows, queue)
    named: set[str] = set()
    for version in versions:
        before, named = named, {str(segment.get("key", "")) for segment in version.segments}
        for segment in version.segments:
            key, wanted, base = str(segment.get("key", "")), segment.get("hash"), retention.number(segment, "base")
            if key in before:
                continue
            at, is_there = next((one for one in reversed(history.get(key, ())) if one[0] < version.at), (-1, False))
            if (is_there and content[at] == wanted) or ((is_there or at < 0) and not isinstance(wanted, int)):
                continue
            why = "has other bytes than it says" if is_there else "was not there"
            found.add(
                TIER_MISSING_OBJECT,
                f"Version {version.version} of the manifest of queue {queue}, by {version.writer}, names the object "
                f"{key}, which {'had been deleted' if at >= 0 and not is_there else why}.",
                *([int(index[at])] if at >= 0 else []),
                int(index[version.at]),
                queue=queue,
                offset=-1 if base is None else base,
            )


def _history_of_objects(rows: Rows, queue: int) -> dict[str, list[tuple[int, bool]]]:
    """Key → the rows by which the store wrote (True) and deleted it, in the order of recording."""
    found: dict[str, list[tuple[int, bool]]] = {}
    told = [rows.where(kind="trace", f=f, queue=queue) for f in ("store_put", "store_delete")]
    for at in np.sort(np.concatenate(told)).tolist():
        value = rows.value(at)
        if value.get("outcome") in ("created", "deleted"):
            found.setdefault(str(value.get("key", "")), []).append((at, value["outcome"] == "created"))
    return found


def _beginning(rows: Rows, found: Findings, queue: int, versions: Sequence[Version]) -> None:
    """What lies below the first tiered offset is still in some replica's log."""
    first = next((version for version in versions if version.segments), None)
    appended = rows.where(kind="trace", f="append", queue=queue)
    offsets = rows.column("offset")[appended]
    if first is None or not len(appended) or first.start <= int(offsets.min()):
        return
    local = _local_minimums(rows, queue)
    if local and min(minimum for _, minimum in local) > int(offsets.min()):
        found.add(
            TIER_GAP,
            f"The tier of queue {queue} began at offset {first.start} (by {first.writer}), and no replica's log holds "
            f"the offsets from {int(offsets.min())} on any more.",
            int(rows.column("index")[appended[np.argmin(offsets)]]),
            int(rows.column("index")[first.at]),
            queue=queue,
            offset=int(offsets.min()),
        )


def _local_minimums(rows: Rows, queue: int) -> list[tuple[int, int]]:
    """(row, first local offset of the queue) of each replica that was read to its end."""
    complete = views.complete_nodes(rows)
    found = []
    for at in rows.where(kind="final", f="node"):
        minimum = (rows.value(at).get("minimums") or {}).get(str(queue))
        if rows.text("node", at) in complete and minimum is not None:
            found.append((int(at), int(minimum)))
    return found


def _local_meets_tier(
    rows: Rows, context: RunContext, found: Findings, queue: int, versions: Sequence[Version]
) -> None:
    """Every replica's local log begins at or before the tier's end: at each deletion, when an empty one was given where
    to begin, and after the run."""
    index = rows.column("index")
    ends = np.maximum.accumulate(np.array([version.end for version in versions], dtype=np.int64))
    applied = np.array([index[version.at] for version in versions], dtype=np.int64)
    claims = [
        (int(at), (rows.value(at).get("minimums") or {}).get(str(queue)))
        for at in rows.where(kind="trace", f="retention")
    ]
    begun = [
        (int(at), (rows.value(at).get("queues") or {}).get(str(queue)))
        for at in rows.where(kind="trace", f="bootstrap")
    ]
    for at, minimum in [*claims, *begun, *_local_minimums(rows, queue)]:
        if minimum is None:
            continue
        place = len(ends) - 1
        if views.one_clock(context):
            place = int(np.searchsorted(applied, index[at])) - 1
        covered = int(ends[place]) if place >= 0 else max(0, versions[0].start)
        if int(minimum) > covered:
            found.add(
                TIER_GAP,
                f"The log of {rows.text('node', at)} holds queue {queue} only from offset {int(minimum)} on "
                f"({views.at_s(rows, at)}), but the tier ends at offset {covered}.",
                int(index[versions[max(0, place)].at]),
                int(index[at]),
                queue=queue,
                offset=covered,
            )


def _objects(rows: Rows, found: Findings, last: Version) -> None:
    """Every offset that the last manifest claims to hold was found in an object, once."""
    tiered = rows.memo(views.tiered)
    mine = tiered.only(tiered.queue == last.queue)
    finals = rows.where(kind="final", f="manifest", queue=last.queue)
    if not len(finals):
        store = rows.text("node", last.at)
        if store in views.complete_nodes(rows) and views.has_recovered(rows):
            found.add(
                TIER_MISSING_OBJECT,
                f"{store} was read to its end after the run, and held no manifest of queue {last.queue}, though it had "
                f"applied version {last.version} at {views.at_s(rows, last.at)}.",
                int(rows.column("index")[last.at]),
                queue=last.queue,
            )
        else:
            found.gap(f"the tier's content of queue {last.queue} was not read after the run")
        return
    start, end = last.start, last.end
    final = rows.value(finals[-1]).get("content") or {}
    if isinstance(final, dict) and "start" in final:  # what was read may be a version of its own, cleaned up later
        start, end = int(final["start"]), int(final.get("end", end))
    found.count("tiered_records", len(mine.at))
    held = mine.offset[(mine.offset >= start) & (mine.offset < end)]
    far = min(end, int(held.max(initial=start - 1)) + 1 + FAR)  # a manifest may claim any number
    missing = np.setdiff1d(np.arange(start, far), held)
    for name, offsets, what in (
        (TIER_MISSING_OBJECT, missing, "claims to hold this offset, but no object does"),
        (TIER_OVERLAP, _repeated(held), "holds this offset more than once"),
    ):
        found.add_each(
            name,
            offsets,
            lambda offset, name=name, what=what: found.add(  # type: ignore[misc]
                name,
                f"Queue {last.queue}, offset {offset}: the manifest {what}.",
                int(rows.column("index")[last.at]),
                int(rows.column("index")[finals[-1]]),
                queue=last.queue,
                offset=offset,
            ),
        )


def _repeated(offsets: views.Ints) -> views.Ints:
    values, counts = np.unique(offsets, return_counts=True)
    return values[counts > 1]


def _reads_agree(rows: Rows, found: Findings, strict: bool) -> None:
    """The same offset reads the same through the tier and from a local log, where no message that was read may be
    lost, for then another one may have been given its offset."""
    at, pulls = rows.where(kind="op", f="delivered"), views.calls(rows.beside, "pull")
    slot, known = places_in(pulls.began, rows.column("op")[at])
    at, done = only(known, at, pulls.done[slot] if len(pulls.done) else slot)
    at, done = only(done >= 0, at, done)
    answers, answer = np.unique(done, return_inverse=True)
    code, sources = rows.labels("source", answers)
    source = np.array(sources, dtype=np.str_)[code[answer]]
    tier_reads, local_reads = at[source == "tier"], at[source == "local"]
    found.count("tier_reads", len(tier_reads))
    through, direct = views.claims_of(rows, tier_reads), views.claims_of(rows, local_reads)
    index = rows.column("index")
    claims = views.join(direct, through)
    for first, other in views.conflicts(claims):
        if not first < len(direct.at) <= other:
            continue
        if not strict:
            found.count("conflicts_by_policy", 1)
            continue
        one, two = int(claims.at[first]), int(claims.at[other])
        found.add(
            TIER_READ_MISMATCH,
            f"Queue {int(claims.queue[first])}, offset {int(claims.offset[first])} was read from the log of "
            f"{rows.text('node', one)} at {views.at_s(rows, one)}, and through the tier by {rows.text('node', two)} at "
            f"{views.at_s(rows, two)} with another content.",
            int(index[one]),
            int(index[two]),
            queue=int(claims.queue[first]),
            offset=int(claims.offset[first]),
            message=int(rows.column("message")[one]),
        )


@dataclass(frozen=True, slots=True)
class Garbage:
    """Objects that no manifest names are deleted by the masters that come after, and manifests are trimmed."""

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
                f"({views.at_s(rows, version.at)}), and left the object {left.key}, which no manifest names, where it "
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
                f"{views.at_s(rows, first.at)} on, with no fault in its way; {known:g} s are permitted.",
                int(index[first.at]),
                int(index[last.at]),
                queue=first.queue,
            )
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return tier.judge(PROMISE, partial, context, [])


@dataclass(frozen=True, slots=True)
class Uploads:
    """What is acknowledged comes into the tier in time, and not in crumbs. Where losses are allowed, an upload may have
    to stop for good."""

    promise: Promise = PROMISE
    needs: Needs = UPLOADS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        if not tier.has_tier(context) or context.unfinished or not context.strict:
            return Partial()
        found = Findings(PROMISE)
        index = rows.column("index")
        for one in uploads.late(rows, context):
            if views.may_lack_ends(rows):
                found.gap("a host was lost: the object store's trace may lack its end, with what came into the tier")
                break
            queue, offset = int(rows.column("queue")[one.at]), int(rows.column("offset")[one.at])
            found.add(
                LATE_UPLOAD,
                f"The message at offset {offset} of queue {queue} was acknowledged at {views.at_s(rows, one.at)}, and "
                f"{one.bound_s:g} s later the tier held the queue only up to offset "
                f"{one.newest.end if one.newest else 0}, with no fault in the way.",
                *(int(index[at]) for at in ([one.newest.at] if one.newest else []) + [one.at]),
                queue=queue,
                offset=offset,
            )
        for series in uploads.hasty(rows, context):
            first, last = series.versions[0], series.versions[-1]
            found.add(
                HASTY_UPLOAD,
                f"{first.writer} uploaded {len(series.versions)} segments of queue {first.queue} in a row from "
                f"{views.at_s(rows, first.at)} on that had no more than {series.bytes} bytes, and no record "
                f"was older than {series.age_ms:.0f} ms; a segment is to be uploaded when it has {series.full_bytes} "
                f"bytes, or its first record is {series.old_ms} ms old.",
                int(index[first.at]),
                int(index[last.at]),
                queue=first.queue,
            )
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return tier.judge(PROMISE, partial, context, [])


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
    for name, offsets, what in ((TIER_GAP, missing, "lacks"), (TIER_OVERLAP, _repeated(held), "holds more than once")):
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
    for row, minimum in _local_minimums(rows, queue):
        if rows.text("node", row) == node and minimum > end >= 0:
            found.add(
                TIER_GAP,
                f"The log of {node} holds queue {queue} only from offset {minimum} on, but its tier ends at {end}.",
                int(rows.column("index")[at]),
                int(rows.column("index")[row]),
                queue=queue,
                offset=end,
            )


def create(options: Options) -> Sequence[TierContinuity | SameReads | Garbage | Uploads | OwnTiers]:
    return (TierContinuity(), SameReads(), Garbage(), Uploads(), OwnTiers())
