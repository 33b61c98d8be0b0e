"""When uploaders upload: once a segment is full, or its first record old enough, and then without delay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers._facts.arrays import NEVER, Flags, Ints, distinct
from checkers._facts.clients import sends
from checkers._facts.faults import faults, service_ended
from checkers._facts.garbage import REAL_TIME
from checkers._facts.nodes.due import first_calm, spans
from checkers._facts.retention import number
from checkers._facts.run import last_reported_ns, phase_time, since_load_ns
from checkers._facts.tier import Version, Versions, has_store, manifests, upload_bound_s

#: So many segments in a row show a habit: one alone may be small because its size was guessed wrong.
IN_A_ROW = 5
#: A segment below this part of its size is not full, and a record below this part of its age not old.
PART = 0.5


@dataclass(frozen=True, slots=True)
class Late:
    """An acknowledged message (``began``: the ``index`` of its send; ``at``: the row that acknowledged it) that was not
    in the tier when ``bound_s`` had passed, from its acknowledgement on or, where a fault was near then, from
    ``calm_ns`` on. ``newest``: the version of the manifest by then, None before the first."""

    began: int
    at: int
    calm_ns: int
    bound_s: float
    newest: Version | None


@dataclass(frozen=True, slots=True)
class Crumb:
    """A version that added a segment which was neither full nor old: the ``place`` among the versions of its queue that
    added any, its row's ``index``, and when that was recorded. ``quiet``: no fault was in force from
    ``bounds.upload_s`` before the version ``IN_A_ROW - 1`` places earlier until this one."""

    queue: int
    place: int
    index: int
    since_load_ns: int
    writer: str
    epoch: int
    bytes: int
    age_ms: float
    full_bytes: int
    old_ms: int
    quiet: bool


def late(rows: Rows, context: RunContext) -> Iterator[Late]:
    """Yield for each queue the first acknowledged message that came too late into the tier, though no fault was in
    force then, nor within the same bound before. A fault that was puts it off, to the first time at which none is any
    more; so does a time in which nobody can be master, since the run itself destroyed the only sure copy. What may wait
    to be old enough, may do so besides. Without an object store it is unknown whether a queue that has no manifest is
    to have one. Of a parted queue: the first one of this part."""
    times, made, known = rows.column("time_ns"), rows.memo(sends), rows.beside.memo(manifests)
    within_s = upload_bound_s(context) * (1.0 if context.one_clock else REAL_TIME)
    end_ns = phase_time(rows, "collect")
    end_ns = end_ns if end_ns >= 0 else last_reported_ns(rows)
    ended_ns, led_again_ns, _ = service_ended(rows, context)
    hindrances = [*spans(rows.memo(faults)), *([(ended_ns, led_again_ns)] if ended_ns < NEVER else [])]
    began, done = made.began[made.ok], made.done[made.ok]
    queues = {*distinct(rows.column("queue")[done]).tolist()}
    for queue in sorted(queues if has_store(context) else queues & known.keys()):
        oldest_ms = max((one.old_ms for one in rows.beside.memo(_settings).get(queue, {}).values()), default=0)
        bound_s = within_s + oldest_ms / 1e3
        bound_ns = int(bound_s * 1e9)
        mine = np.flatnonzero(rows.column("queue")[done] == queue)
        calm_ns = first_calm(times[done[mine]], hindrances, before_ns=bound_ns, after_ns=bound_ns)
        judged = calm_ns < end_ns - bound_ns
        mine, calm_ns = mine[judged], calm_ns[judged]
        acked = done[mine]
        versions = known.get(queue)
        newest, ends = np.full(len(acked), -1), np.zeros(1, dtype=np.int64)
        if versions is not None:
            newest, ends = _newest(times, versions, calm_ns + bound_ns), np.append(versions.end, 0)
        for n in np.flatnonzero(ends[newest] <= rows.column("offset")[acked])[:1].tolist():
            last = versions[newest[n]] if versions is not None and newest[n] >= 0 else None
            yield Late(int(began[mine[n]]), int(acked[n]), int(calm_ns[n]), bound_s, last)


def _newest(times: Ints, versions: Versions, moments_ns: Ints) -> Ints:
    """For each of some moments the place of the manifest version that reached furthest by then; -1: there was none."""
    order = np.argsort(times[versions.at], kind="stable")
    ends = versions.end[order]
    reached = np.maximum.accumulate(np.where(ends == np.maximum.accumulate(ends), np.arange(len(ends)), -1))
    before = np.searchsorted(times[versions.at[order]], moments_ns, side="right") - 1
    return np.where(before >= 0, order[reached[before]], -1)


def crumbs(rows: Rows, context: RunContext) -> Iterator[Crumb]:
    """All such versions whose segment's first record was appended in these rows, by queue and place."""
    before_ns, times, every = int(upload_bound_s(context) * 1e9), rows.column("time_ns"), rows.beside
    for queue, versions in every.memo(manifests).items():
        if not len(rows.where(kind="trace", f="append", queue=queue)):
            continue
        settings, segments, spans = every.memo(_settings).get(queue, {}), versions.segments, versions.spans
        appended: dict[str, dict[int, int]] = {}
        longer = (np.flatnonzero(np.diff(versions.end) > 0) + 1).tolist()
        adding = [number for number in longer if spans[number]]
        for place, which in enumerate(adding):
            segment, writer = segments.one(spans[which][-1] - 1), versions.writers[versions.writer[which]]
            known = settings.get((writer, int(versions.number[which])), _Settings())
            base, named_bytes, count = (number(segment, name) for name in ("base", "bytes", "count"))
            size = known.full_bytes if named_bytes is None else named_bytes
            if size >= PART * known.full_bytes or (count or 0) >= PART * known.full_records > 0:
                continue
            if writer not in appended:
                appended[writer] = _appended(rows, queue, writer)
            began_ns = appended[writer].get(base, -1) if base is not None else -1
            age_ms = (known.sent_ns - began_ns) / 1e6
            if began_ns < 0 or age_ms >= PART * known.old_ms:
                continue
            version = versions[which]
            first = versions[adding[max(0, place - IN_A_ROW + 1)]]
            span_ns = times[first.at] - before_ns, times[version.at]
            yield Crumb(
                queue=queue,
                place=place,
                index=int(rows.column("index")[version.at]),
                since_load_ns=int(since_load_ns(rows, np.array([version.at]))[0]),
                writer=version.writer,
                epoch=version.epoch,
                bytes=size,
                age_ms=age_ms,
                full_bytes=known.full_bytes,
                old_ms=known.old_ms,
                quiet=bool(_are_quiet(rows, *(np.array([ns]) for ns in span_ns))[0]),
            )


def hasty(found: Iterable[Crumb]) -> Iterator[Sequence[Crumb]]:
    """For each queue, of all its crumbs, the first series of one master term in which no fault was in force, nor within
    ``bounds.upload_s`` before."""
    by_queue: dict[int, list[Crumb]] = {}
    for one in sorted(found, key=lambda one: (one.queue, one.place)):
        by_queue.setdefault(one.queue, []).append(one)
    for mine in by_queue.values():
        series: list[Crumb] = []
        for one in mine:
            if series and (one.place, one.epoch) != (series[-1].place + 1, series[-1].epoch):
                series = []
            series.append(one)
            if len(series) < IN_A_ROW:
                continue
            if one.quiet:
                yield series
                break
            series = []


def _appended(rows: Rows, queue: int, node: str) -> dict[int, int]:
    """Return offset → when this replica first appended a message there. Its own clock counts, as for its uploads."""
    at = rows.where(kind="trace", f="append", queue=queue, node=node)
    offsets, times = rows.column("offset")[at], rows.column("time_ns")[at]
    order = np.argsort(times, kind="stable")
    known, first = np.unique(offsets[order], return_index=True)
    return dict(zip(known.tolist(), times[order][first].tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class _Settings:
    """When a version was sent, and when its uploader counts a segment as full, in bytes and in records, and a record as
    old; 0 for never."""

    sent_ns: int = 0
    full_bytes: int = 0
    full_records: int = 0
    old_ms: int = 0


def _settings(rows: Rows) -> dict[int, dict[tuple[str, int], _Settings]]:
    """Queue → uploader and version → its settings."""
    times, queues = rows.column("time_ns"), rows.column("queue")
    found: dict[int, dict[tuple[str, int], _Settings]] = {}
    commits = rows.where(kind="trace", f="tier_commit")
    for at, value in zip(commits.tolist(), rows.values(commits), strict=True):
        full_bytes, full_records, old_ms = (
            int(value.get(name) or 0) for name in ("segment_bytes", "segment_records", "max_age_ms")
        )
        key = (rows.text("node", at), int(value.get("version", -1)))
        found.setdefault(int(queues[at]), {})[key] = _Settings(int(times[at]), full_bytes, full_records, old_ms)
    return found


def _are_quiet(rows: Rows, from_ns: Ints, until_ns: Ints) -> Flags:
    """In which of these spans of time no fault was in force."""
    quiet = np.ones(len(from_ns), dtype=np.bool_)
    for one in rows.memo(faults):
        quiet &= (one.began_ns > until_ns) | (one.until_ns < from_ns)
    return quiet
