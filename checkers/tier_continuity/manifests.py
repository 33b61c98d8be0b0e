"""What manifests claim is there, in one piece, and meets the local logs."""

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
from checkers._facts import reads, retention, tier
from checkers._facts.arrays import Ints
from checkers._facts.manifests.segments import name_of
from checkers._facts.reads import everywhere, own
from checkers._facts.tier import Version, Versions
from checkers.tier_continuity import objects
from checkers.tier_continuity.held import local_minimums
from checkers.tier_continuity.objects import TierContent, is_complete, with_gaps
from checkers.tier_continuity.promise import PROMISE, TIER_GAP, TIER_MISSING_OBJECT, TIER_OVERLAP

NEEDS = Needs(
    key=Key.QUEUE,
    joins=(objects.OF_ALL.part,),
    rows=(
        own("trace", "store_cas", "store_put", "store_get", "store_delete"),
        reads.FIRST_APPENDS,
        own("final", "manifest"),
        everywhere("trace", "retention", "bootstrap"),
        everywhere("final", "node", "complete"),
        reads.RUN,
    ),
    columns=(*reads.BASIC, *reads.LIVES, *reads.OPERATIONS, *reads.RECORDS),
    evidence=(Evidence.TIER,),
)


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
            for version in versions.out_of_order():
                _segments(rows, found, version)
            _deletes(rows, found, queue, versions)
            _stays(rows, found, queue)
            _stand_for(rows, found, queue, versions)
            _beginning(rows, found, queue, versions)
            _local_meets_tier(rows, context, found, queue, versions)
            _objects(rows, found, versions[-1])
        return with_gaps(found.partial())

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        partial = partial.merge(_held(partial))
        return tier.judge(PROMISE, partial, context, [("manifest_versions", "no manifest was committed")])


def _segments(rows: Rows, found: Findings, version: Version) -> None:
    """Check that within one version segments follow one another from ``start`` to T."""
    expected = version.start
    index = int(rows.column("index")[version.at])
    where = f"Version {version.version} of the manifest of queue {version.queue}, by {version.writer}"
    for segment in version.segments:
        base, count = retention.number(segment, "base"), retention.number(segment, "count")
        if base is None or count is None:
            found.gap(f"a manifest of queue {version.queue} does not say where each of its segments begins and ends")
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


def _deletes(rows: Rows, found: Findings, queue: int, versions: Versions) -> None:
    """Check that an object is deleted only once the current version of the manifest does not name it."""
    index = rows.column("index")
    applied = index[versions.at]
    for at in rows.where(kind="trace", f="store_delete", queue=queue):
        key = rows.value(at).get("key")
        place = int(np.searchsorted(applied, index[at])) - 1
        if rows.value(at).get("outcome") != "deleted" or place < 0:
            continue
        current = versions[place]
        if any(key == known for known in current.segments.names()):
            found.add(
                TIER_MISSING_OBJECT,
                f"{rows.value(at).get('caller', 'Somebody')} deleted the object {key} at {facts.at_s(rows, at)}, "
                f"while version {current.version} of the manifest of queue {queue} names it.",
                int(index[current.at]),
                int(index[at]),
                queue=queue,
            )


def _stays(rows: Rows, found: Findings, queue: int) -> None:
    """Check that in one life of the store, what was written is there until it is deleted. A deletion that a crash of
    the store left unreported may show in its next life."""
    index, lives = rows.column("index"), rows.column("incarnation")
    traced = [
        rows.where(kind="trace", f=f, queue=queue) for f in ("store_put", "store_cas", "store_get", "store_delete")
    ]
    traced_in_order = facts.in_node_order(rows, np.sort(np.concatenate(traced)))
    missed = {str(value.get("key", "")) for value in rows.values(traced_in_order) if value.get("outcome") == "absent"}
    there: dict[tuple[str, str, int], int] = {}
    each = zip(traced_in_order.tolist(), rows.values(traced_in_order), strict=True) if missed else ()
    for at, value in each:
        key, outcome = str(value.get("key", "")), value.get("outcome")
        if key not in missed:
            continue
        place = (rows.text("node", at), key, int(lives[at]))
        if outcome in ("created", "applied"):
            there[place] = at
        elif outcome == "deleted":
            there.pop(place, None)
        elif outcome == "absent" and place in there:
            written = there.pop(place)
            found.add(
                TIER_MISSING_OBJECT,
                f"{place[0]} answered at {facts.at_s(rows, at)} that there is no {key}, which it had reported "
                f"as written at {facts.at_s(rows, written)}, and nobody had deleted since.",
                int(index[written]),
                int(index[at]),
                queue=queue,
            )


def _stand_for(rows: Rows, found: Findings, queue: int, versions: Versions) -> None:
    """Check that a segment stands for an object that was there before, once, with the very bytes of the manifest."""
    index, content = rows.column("index"), rows.column("hash")
    created: dict[str, int] = {}
    puts = facts.in_node_order(rows, rows.where(kind="trace", f="store_put", queue=queue))
    for at, fields in zip(puts.tolist(), rows.values(puts), strict=True):
        key, request = str(fields.get("key", "")), fields.get("request")
        if fields.get("outcome") != "created":
            continue
        first = created.setdefault(key, at)
        if content[first] != content[at] and rows.value(first).get("request") != request:
            found.add(
                TIER_OVERLAP,
                f"{fields.get('caller', 'Somebody')} wrote other bytes to the object {key} at {facts.at_s(rows, at)}, "
                f"which {rows.value(first).get('caller', 'somebody')} had written before.",
                int(index[first]),
                int(index[at]),
                queue=queue,
            )
    history = _history_of_objects(rows, queue)
    for place, added in versions.added():
        now = versions.at[place]
        for segment in added:
            key, wanted, base = name_of(segment), segment.get("hash"), retention.number(segment, "base")
            at, is_there = next((one for one in reversed(history.get(key, ())) if one[0] < now), (-1, False))
            if (is_there and content[at] == wanted) or ((is_there or at < 0) and not isinstance(wanted, int)):
                continue
            version = versions[place]
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
    traced = np.sort(
        np.concatenate([rows.where(kind="trace", f=f, queue=queue) for f in ("store_put", "store_delete")])
    )
    for at, value in zip(traced.tolist(), rows.values(traced), strict=True):
        if value.get("outcome") in ("created", "deleted"):
            found.setdefault(str(value.get("key", "")), []).append((at, value["outcome"] == "created"))
    return found


def _beginning(rows: Rows, found: Findings, queue: int, versions: Versions) -> None:
    """Check that what lies below the first tiered offset is still in some replica's log."""
    first = next((version for version in versions if version.segments), None)
    appended = rows.where(kind="trace", f="append", queue=queue)
    offsets = rows.column("offset")[appended]
    if first is None or not len(appended) or first.start <= int(offsets.min()):
        return
    local = local_minimums(rows, queue)
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


def _local_meets_tier(rows: Rows, context: RunContext, found: Findings, queue: int, versions: Versions) -> None:
    """Check that every replica's local log begins at or before the tier's end: at each deletion, when an empty one was
    given where to begin, and after the run."""
    index, (at, minimum) = rows.column("index"), _beginnings(rows, queue)
    place = np.full(len(at), len(versions) - 1)
    if context.one_clock:
        place = np.searchsorted(index[versions.at], index[at]) - 1
    covered = np.where(place >= 0, np.maximum.accumulate(versions.end)[place], max(0, int(versions.start[0])))
    for n in np.flatnonzero(minimum > covered).tolist():
        found.add(
            TIER_GAP,
            f"The log of {rows.text('node', at[n])} holds queue {queue} only from offset {minimum[n]} on "
            f"({facts.at_s(rows, at[n])}), but the tier ends at offset {covered[n]}.",
            int(index[versions.at[max(0, place[n])]]),
            int(index[at[n]]),
            queue=queue,
            offset=int(covered[n]),
        )


def _beginnings(rows: Rows, queue: int) -> tuple[Ints, Ints]:
    """Return the rows that say where a replica's log of a queue begins, and where."""
    found = [np.array(local_minimums(rows, queue), dtype=np.int64).reshape(-1, 2)]
    begun = rows.where(kind="trace", f="bootstrap")
    for at, forms, name in ((begun, rows.forms(begun), "queues"), (*rows.memo(retention.deletions), "minimums")):
        of_each = [(form, (form.value.get(name) or {}).get(str(queue))) for form in forms]
        named = [np.stack([at[form.at], form.whole(first)], axis=1) for form, first in of_each if first is not None]
        pairs = np.concatenate([found[0][:0], *named])
        found.insert(0, pairs[np.argsort(pairs[:, 0])])
    every = np.concatenate(found)
    return every[:, 0], every[:, 1]


def _objects(rows: Rows, found: Findings, last: Version) -> None:
    """Note what the last manifest claims to hold: every offset of it was found in an object, once."""
    finals = rows.where(kind="final", f="manifest", queue=last.queue)
    if not len(finals):
        store = rows.text("node", last.at)
        if store in facts.complete_nodes(rows) and facts.has_recovered(rows):
            found.add(
                TIER_MISSING_OBJECT,
                f"{store} was read to its end after the run, and held no manifest of queue {last.queue}, though it had "
                f"applied version {last.version} at {facts.at_s(rows, last.at)}.",
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
    index = rows.column("index")
    found.fact(claimed=last.queue, start=start, end=end, row=int(index[last.at]), final=int(index[finals[-1]]))


def _held(partial: Partial) -> Partial:
    """Find what is wrong with the objects of each queue, of which one fact names the offsets that the last manifest
    claims to hold, and others those that were found."""
    found, content = Findings(PROMISE), TierContent.by_node(partial.facts)[""]
    for claim in (fact for fact in partial.facts if "claimed" in fact):
        queue, start, end = claim["claimed"], claim["start"], claim["end"]
        found.count("tiered_records", content.records(queue))
        several = content.several(queue)
        several = several[(several >= start) & (several < end)]
        missing = content.missing(queue, start, end) if is_complete(partial) else several[:0]
        for name, offsets, what in (
            (TIER_MISSING_OBJECT, missing, "claims to hold this offset, but no object does"),
            (TIER_OVERLAP, several, "holds this offset more than once"),
        ):
            found.add_each(
                name,
                offsets,
                lambda offset, name=name, what=what, claim=claim: found.add(  # type: ignore[misc]
                    name,
                    f"Queue {claim['claimed']}, offset {offset}: the manifest {what}.",
                    claim["row"],
                    claim["final"],
                    queue=claim["claimed"],
                    offset=offset,
                ),
            )
    return found.partial()
