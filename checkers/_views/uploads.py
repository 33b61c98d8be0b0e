"""When uploaders upload: once a segment is full, or its first record old enough, and then without delay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from chaos.law import Rows, RunContext
from checkers._views.arrays import Flags, Ints, distinct
from checkers._views.clients import sends
from checkers._views.faults import faults
from checkers._views.garbage import REAL_TIME
from checkers._views.retention import number
from checkers._views.run import one_clock, phase_time
from checkers._views.tier import Version, has_store, manifests, upload_bound_s

#: So many segments in a row tell a habit: one alone may be small because its size was guessed wrong.
IN_A_ROW = 5
#: A segment below this part of its size is not full, and a record below this part of its age not old.
PART = 0.5


@dataclass(frozen=True, slots=True)
class Late:
    """An acknowledged message (its row ``at``) that was not in the tier when ``bound_s`` had passed. ``newest``: the
    version of the manifest by then, None before the first."""

    at: int
    bound_s: float
    newest: Version | None


@dataclass(frozen=True, slots=True)
class Hasty:
    """Versions in a row that each added a segment which was neither full nor old. ``bytes`` are the largest one's,
    ``age_ms`` is that of the oldest first record; ``full_bytes`` and ``old_ms`` are what the uploader was set up to."""

    versions: Sequence[Version]
    bytes: int
    age_ms: float
    full_bytes: int
    old_ms: int


def late(rows: Rows, context: RunContext) -> Iterator[Late]:
    """For each queue the first acknowledged message that came too late into the tier, though no fault was in force
    then, nor within the same bound before. What may wait to be old enough, may do so besides. Without an object store
    nobody knows whether a queue that has no manifest is to have one."""
    times, made, known = rows.column("time_ns"), rows.memo(sends), rows.memo(manifests)
    within_s = upload_bound_s(context) * (1.0 if one_clock(context) else REAL_TIME)
    end_ns = phase_time(rows, "collect")
    end_ns = end_ns if end_ns >= 0 else int(times[-1])
    done = made.done[made.ok]
    queues = {*known, *distinct(rows.column("queue")[done]).tolist()} if has_store(context) else {*known}
    for queue in sorted(queues):
        oldest_ms = max((one.old_ms for one in _settings(rows, queue).values()), default=0)
        bound_s = within_s + oldest_ms / 1e3
        bound_ns = int(bound_s * 1e9)
        acked = done[rows.column("queue")[done] == queue]
        acked = acked[times[acked] + bound_ns < end_ns]
        newest = _newest(rows, known.get(queue, ()), times[acked] + bound_ns)
        ends = np.array([*(version.end for version in newest.versions), 0], dtype=np.int64)
        is_late = ends[newest.place] <= rows.column("offset")[acked]
        is_late[is_late] &= _are_quiet(rows, times[acked[is_late]] - bound_ns, times[acked[is_late]] + bound_ns)
        for n in np.flatnonzero(is_late)[:1].tolist():
            yield Late(int(acked[n]), bound_s, [*newest.versions, None][newest.place[n]])


@dataclass(frozen=True, slots=True)
class _Newest:
    """For each of some moments the place of the manifest version that reached furthest by then; -1: there was none."""

    versions: Sequence[Version]
    place: Ints


def _newest(rows: Rows, versions: Sequence[Version], moments_ns: Ints) -> _Newest:
    times, furthest = rows.column("time_ns"), list[Version]()
    for version in sorted(versions, key=lambda one: int(times[one.at])):
        furthest.append(version if not furthest or version.end >= furthest[-1].end else furthest[-1])
    applied_ns = np.sort(np.array([times[version.at] for version in versions], dtype=np.int64))
    return _Newest(furthest, np.searchsorted(applied_ns, moments_ns, side="right") - 1)


def hasty(rows: Rows, context: RunContext) -> Iterator[Hasty]:
    """For each queue the first such series of one master term in which no fault was in force, nor within
    ``bounds.upload_s`` before."""
    before_ns, times = int(upload_bound_s(context) * 1e9), rows.column("time_ns")
    for queue, versions in rows.memo(manifests).items():
        settings = _settings(rows, queue)
        appended = {node: _appended(rows, queue, node) for node in {version.writer for version in versions}}
        series: list[tuple[Version, int, float]] = []
        for before, version in pairwise(versions):
            if version.end <= before.end or not version.segments:
                continue  # it adds nothing
            segment = version.segments[-1]
            known = settings.get((version.writer, version.version), _Settings())
            base, bytes, count = (number(segment, name) for name in ("base", "bytes", "count"))
            began_ns = appended[version.writer].get(base, -1) if base is not None else -1
            age_ms = (known.sent_ns - began_ns) / 1e6
            size = known.full_bytes if bytes is None else bytes
            is_full = size >= PART * known.full_bytes or (count or 0) >= PART * known.full_records > 0
            is_hasty = not is_full and began_ns >= 0 and age_ms < PART * known.old_ms
            if not is_hasty or (series and series[-1][0].epoch != version.epoch):
                series = []
            if is_hasty:
                series.append((version, size, age_ms))
            if len(series) < IN_A_ROW:
                continue
            from_ns, until_ns = int(times[series[0][0].at]) - before_ns, int(times[version.at])
            if _are_quiet(rows, np.array([from_ns]), np.array([until_ns]))[0]:
                largest, oldest = max(size for _, size, _ in series), max(age for _, _, age in series)
                yield Hasty([one for one, _, _ in series], largest, oldest, known.full_bytes, known.old_ms)
                break
            series = []


def _appended(rows: Rows, queue: int, node: str) -> dict[int, int]:
    """Offset → when this replica first appended a message there. Its own clock tells, as that of its uploads."""
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


def _settings(rows: Rows, queue: int) -> dict[tuple[str, int], _Settings]:
    """Uploader and version → its settings."""
    times, found = rows.column("time_ns"), dict[tuple[str, int], _Settings]()
    for at in rows.where(kind="trace", f="tier_commit", queue=queue).tolist():
        told = rows.value(at)
        full_bytes, full_records, old_ms = (
            int(told.get(name) or 0) for name in ("segment_bytes", "segment_records", "max_age_ms")
        )
        key = (rows.text("node", at), int(told.get("version", -1)))
        found[key] = _Settings(int(times[at]), full_bytes, full_records, old_ms)
    return found


def _are_quiet(rows: Rows, from_ns: Ints, until_ns: Ints) -> Flags:
    """In which of these spans of time no fault was in force."""
    quiet = np.ones(len(from_ns), dtype=np.bool_)
    for one in rows.memo(faults):
        quiet &= (one.began_ns > until_ns) | (one.until_ns < from_ns)
    return quiet
