"""What uploaders leave in the tier: objects that no manifest names any more, or ever named, and manifests that name
more than is to be kept; and what the store does not let go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from chaos.fault import Effect
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers._facts.arrays import NEVER, groups, only
from checkers._facts.faults import Fault, disk_may_be_harmed, faults
from checkers._facts.nodes.logs import in_node_order, nodes_of
from checkers._facts.retention import number
from checkers._facts.run import bound, may_lack_ends, phase_time
from checkers._facts.tier import Version, Versions, manifests, upload_bound_s

#: So long a master term may take to delete what those before it left behind, in virtual time; and so many times as long
#: where the machine's own load counts.
COLLECT_BOUND_S, REAL_TIME = 5.0, 4.0
#: An uploader that lets this part of the bound pass between two versions has nothing to upload meanwhile.
PAUSE = 1 / 20


@dataclass(frozen=True, slots=True)
class Leftover:
    """An object that a master term left where it was, for so long with no fault in its way. ``put`` and ``taken_over``
    are rows."""

    key: str
    queue: int
    put: int
    taken_over: Version
    quiet_ns: int


@dataclass(frozen=True, slots=True)
class _Object:
    """``left_epoch``: the newest epoch of the manifest when the object had become garbage; NEVER while one names it."""

    key: str
    put: int
    left_epoch: int
    deleted_ns: int


def bound_s(context: RunContext) -> float:
    times = 1.0 if context.one_clock else REAL_TIME
    return bound(context, "collect_s", COLLECT_BOUND_S) * times


def left_behind(rows: Rows, context: RunContext) -> Iterator[Leftover]:
    """Objects that were garbage when a master term took the queue's manifest over, and that were still there when that
    term had been at work for the bound with no fault in its way: none on the uploader or the store, nor for as long
    before as an uploader may take to upload what has waited meanwhile, and none on the tier in that term so far, which
    may have shown it an old list. What a term leaves behind itself, and what arrives after it took over, waits for the
    next one."""
    times, bound_ns = rows.column("time_ns"), int(bound_s(context) * 1e9)
    stores = {*nodes_of(rows, rows.where(kind="trace", f="store_cas"))}
    for queue, versions in rows.memo(manifests).items():
        spans = [
            (first, begun_ns, end_ns)
            for first, until_ns in _terms(rows, versions)
            for begun_ns, end_ns in _quiet(rows, context, {first.writer, *stores}, int(times[first.at]), until_ns)
            if end_ns - begun_ns > bound_ns
        ]
        for known in _objects(rows, queue, versions) if spans else ():
            for first, begun_ns, until_ns in spans:
                end_ns = min(until_ns, known.deleted_ns)
                was_there = known.left_epoch < first.epoch and times[known.put] < times[first.at]
                if was_there and end_ns - begun_ns > bound_ns:
                    yield Leftover(known.key, queue, known.put, first, end_ns - begun_ns)
                    break


@dataclass(frozen=True, slots=True)
class Untrimmed:
    """A manifest that named more than is to be kept, from the version ``first`` to the version ``last`` or longer, and
    nothing was in the way of the uploader that should have trimmed it since ``begun_ns``."""

    first: Version
    last: Version
    retain_bytes: int
    begun_ns: int
    lasted_ns: int


def untrimmed(rows: Rows, context: RunContext) -> Iterator[Untrimmed]:
    """Manifests of which, in one master term, version after version names more than is to be kept, for longer than the
    bound; the last version stands until the end of the final read. To upload comes first: the uploader must have paused
    once, and nothing is judged while a fault may have been in the way, nor as long after it as an uploader may take to
    upload what has waited meanwhile."""
    bound_ns = int(bound_s(context) * 1e9)
    before_ns = int(upload_bound_s(context) * 1e9)
    stores = {*nodes_of(rows, rows.where(kind="trace", f="store_cas"))}
    for queue, versions in rows.memo(manifests).items():
        kept = _kept_bytes(rows, queue)
        if not any(kept.values()):
            continue
        since: Version | None = None
        paused, begun_ns, previous_ns = False, 0, 0
        for version, at_ns in _and_the_end(rows, versions):
            retain = kept.get(version.version, 0)
            sizes = [number(segment, "bytes") for segment in version.segments[1:]] if retain > 0 else []
            if None in sizes or sum(size or 0 for size in sizes) <= retain:
                since = None
            elif since is None or since.epoch != version.epoch:
                since, begun_ns, paused = version, at_ns, False
            else:
                nodes = {since.writer, *stores}
                hindered = [one for one in rows.memo(faults) if one.began_ns <= at_ns and _is_in_the_way(one, nodes)]
                calm_ns = max((min(one.until_ns, at_ns) + before_ns for one in hindered), default=0)
                if calm_ns > begun_ns:
                    begun_ns, paused = calm_ns, False  # the wait begins again, when a fault is long over
                paused |= at_ns - max(previous_ns, begun_ns) > PAUSE * bound_ns
                if paused and at_ns - begun_ns > bound_ns:
                    yield Untrimmed(since, version, retain, begun_ns, at_ns - begun_ns)
                    break
            previous_ns = at_ns


@dataclass(frozen=True, slots=True)
class Returned:
    """An object that the store had deleted, and that it held again. ``deleted`` and ``seen`` are rows; ``how`` says
    what shows it."""

    key: str
    deleted: int
    seen: int
    how: str


#: What an object counts as that the store holds after the run.
HELD = "held"
#: What shows that an object is there: how a request for a change of it ended, or where it stands after the run.
_SHOWN = {
    "deleted": "deleted it again",
    "exists": "refused to write it, since it was there,",
    HELD: "held it after the run",
}


def returned(rows: Rows) -> Iterator[Returned]:
    """Yield objects that the store held after it had reported that they were deleted, and before it reported that
    somebody had written them again. A deletion is reported when it is durable, and a write at the latest by the store's
    next life; so only what takes something from the store's disk excuses it, or the loss of the host with the end of
    its trace. The store may delete while it is read after the run: what it held then says nothing of deletions since
    the drain."""
    if may_lack_ends(rows):
        return
    changes = rows.where(kind="trace", f="store_cas")
    found = [rows.where(kind="trace", f=f) for f in ("store_put", "store_delete")]
    found.append(changes[rows.column("queue")[changes] < 0])  # nobody deletes manifests
    at = np.concatenate([in_node_order(rows, np.sort(np.concatenate(found))), rows.where(kind="final", f="orphan")])
    keys, names = rows.labels("key", at)
    outcome = np.array(rows.words("outcome", at), dtype=object)
    after = rows.column("kind")[at] == rows.code("kind", "final")
    outcome[after] = HELD
    outcome[outcome == "applied"] = "created"
    at, keys, outcome = only(np.isin(outcome, ("created", *_SHOWN)), at, keys, outcome)
    order, _ = groups(keys, rows.column("node")[at])
    at, keys, outcome, node = at[order], keys[order], outcome[order], rows.column("node")[at[order]]
    back = (outcome[:-1] == "deleted") & (outcome[1:] != "created")
    back &= (keys[:-1] == keys[1:]) & (node[:-1] == node[1:])
    back &= (outcome[1:] != HELD) | (rows.column("time_ns")[at[:-1]] < phase_time(rows, "drain"))
    for place in np.flatnonzero(back).tolist():
        deleted, seen = int(at[place]), int(at[place + 1])
        if not disk_may_be_harmed(rows, rows.text("node", seen), int(rows.column("time_ns")[seen])):
            yield Returned(names[keys[place]], deleted, seen, _SHOWN[outcome[place + 1]])


def _kept_bytes(rows: Rows, queue: int) -> dict[int, int]:
    """Version → how many bytes of the queue its uploader is to keep in the tier, 0 for all."""
    commits = rows.values(rows.where(kind="trace", f="tier_commit", queue=queue))
    return {int(one.get("version", -1)): int(one.get("retain_bytes") or 0) for one in commits}


def _and_the_end(rows: Rows, versions: Versions) -> Iterator[tuple[Version, int]]:
    """Each version and its time; the last one once more at the end of the final read, until which it stands."""
    times, end_ns = rows.column("time_ns"), phase_time(rows, "collect")
    for version in versions:
        yield version, int(times[version.at])
    if len(versions) and end_ns > times[versions.at[-1]]:
        yield versions[len(versions) - 1], end_ns


def _terms(rows: Rows, versions: Versions) -> Iterator[tuple[Version, int]]:
    """Yield the first version of each epoch, and the time of its last one: so long the uploader was surely at work.
    That of the newest epoch is at work until the end of the final read: a successor would have made a version."""
    times, terms, newest = rows.column("time_ns"), dict[int, list[int]](), len(versions) - 1
    for place, epoch in enumerate(versions.epoch.tolist()):
        terms.setdefault(epoch, [place, place])[1] = place
    for first, last in terms.values():
        end_ns = phase_time(rows, "collect") if last == newest else -1
        yield versions[first], max(int(times[versions.at[last]]), end_ns)


def _objects(rows: Rows, queue: int, versions: Versions) -> Iterator[_Object]:
    index, times = rows.column("index"), rows.column("time_ns")
    deletions = rows.where(kind="trace", f="store_delete", queue=queue)
    gone = {
        str(value.get("key")): at_ns
        for value, at_ns in zip(rows.values(deletions), times[deletions].tolist(), strict=True)
    }
    last, applied, newest = versions.last_named(), index[versions.at], len(versions) - 1
    puts = rows.where(kind="trace", f="store_put", queue=queue)
    for at, value in zip(puts.tolist(), rows.values(puts), strict=True):
        key = str(value.get("key"))
        if value.get("outcome") != "created":
            continue
        if key not in last:
            left = int(versions.epoch[applied < index[at]].max(initial=-1))
        elif last[key] < newest:
            left = int(versions.epoch[last[key] + 1])
        else:
            left = NEVER
        yield _Object(key, at, left, gone.get(key, NEVER))


def _quiet(rows: Rows, context: RunContext, nodes: set[str], from_ns: int, until_ns: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of this time in which no fault was in the way of these nodes, nor shortly before. A fault of the
    tier, or one whose effects are unknown, ends them: who was shown an old list has looked, and need not look again."""
    before_ns = int(upload_bound_s(context) * 1e9)
    known = [fault for fault in rows.memo(faults) if _is_in_the_way(fault, nodes) and fault.until_ns > from_ns]
    for fault in sorted(known, key=lambda one: one.began_ns):
        yield from_ns, min(fault.began_ns, until_ns)
        if fault.effects is None or fault.hits(Effect.HARMS_TIER):
            return
        from_ns = max(from_ns, fault.until_ns + before_ns if fault.until_ns < NEVER else NEVER)
    yield from_ns, until_ns


def _is_in_the_way(fault: Fault, nodes: set[str]) -> bool:
    return fault.effects is None or bool(fault.hits(Effect.HARMS_TIER)) or not nodes.isdisjoint(fault.hits(*Effect))
