"""When uploaders upload: once a segment is full, or its first record old enough, and then without delay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from chaos.law import Rows, RunContext
from checkers._views.clients import sends
from checkers._views.faults import faults
from checkers._views.garbage import REAL_TIME
from checkers._views.retention import number
from checkers._views.run import one_clock, phase_time
from checkers._views.tier import Version, manifests, upload_bound_s

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
    """For each queue that has a manifest the first acknowledged message that came too late into the tier, though no
    fault was in force then, nor within the same bound before."""
    bound_s = upload_bound_s(context) * (1.0 if one_clock(context) else REAL_TIME)
    bound_ns, times, made = int(bound_s * 1e9), rows.column("time_ns"), rows.memo(sends)
    end_ns = phase_time(rows, "collect")
    end_ns = end_ns if end_ns >= 0 else int(times[-1])
    done = made.done[made.ok]
    for queue, versions in rows.memo(manifests).items():
        acked = done[rows.column("queue")[done] == queue]
        acked = acked[times[acked] + bound_ns < end_ns]
        version_ns = np.array([times[version.at] for version in versions], dtype=np.int64)
        order = np.argsort(version_ns, kind="stable")
        ends = np.maximum.accumulate(np.array([versions[place].end for place in order.tolist()], dtype=np.int64))
        place = np.searchsorted(version_ns[order], times[acked] + bound_ns, side="right") - 1
        tiered = np.where(place >= 0, ends[np.maximum(place, 0)], 0)
        is_late = tiered <= rows.column("offset")[acked]
        for n in np.flatnonzero(is_late).tolist():
            now_ns = int(times[acked[n]])
            if _is_quiet(rows, now_ns - bound_ns, now_ns + bound_ns):
                newest = versions[int(order[place[n]])] if place[n] >= 0 else None
                yield Late(int(acked[n]), bound_s, newest)
                break


def hasty(rows: Rows, context: RunContext) -> Iterator[Hasty]:
    """For each queue the first such series of one master term in which no fault was in force, nor within
    ``bounds.upload_s`` before."""
    before_ns, times = int(upload_bound_s(context) * 1e9), rows.column("time_ns")
    for queue, versions in rows.memo(manifests).items():
        appended = _appended(rows, queue)
        settings = _settings(rows, queue)
        series: list[tuple[Version, int, float]] = []
        for before, version in pairwise(versions):
            if version.end <= before.end or not version.segments:
                continue  # it adds nothing
            segment = version.segments[-1]
            full_bytes, old_ms = settings.get(version.version, (0, 0))
            base, bytes = number(segment, "base"), number(segment, "bytes")
            began_ns = appended.get(base, -1) if base is not None else -1
            age_ms = (int(times[version.at]) - began_ns) / 1e6
            size = full_bytes if bytes is None else bytes
            is_hasty = size < PART * full_bytes and began_ns >= 0 and age_ms < PART * old_ms
            if not is_hasty or (series and series[-1][0].epoch != version.epoch):
                series = []
            if is_hasty:
                series.append((version, size, age_ms))
            if len(series) < IN_A_ROW:
                continue
            if _is_quiet(rows, int(times[series[0][0].at]) - before_ns, int(times[version.at])):
                largest, oldest = max(size for _, size, _ in series), max(age for _, _, age in series)
                yield Hasty([one for one, _, _ in series], largest, oldest, full_bytes, old_ms)
                break
            series = []


def _appended(rows: Rows, queue: int) -> dict[int, int]:
    """Offset → when any replica first appended a message there."""
    at = rows.where(kind="trace", f="append", queue=queue)
    offsets, times = rows.column("offset")[at], rows.column("time_ns")[at]
    order = np.argsort(times, kind="stable")
    known, first = np.unique(offsets[order], return_index=True)
    return dict(zip(known.tolist(), times[order][first].tolist(), strict=True))


def _settings(rows: Rows, queue: int) -> dict[int, tuple[int, int]]:
    """Version → when its uploader counts a segment as full, in bytes, and a record as old, in ms; 0 for never."""
    told = (rows.value(at) for at in rows.where(kind="trace", f="tier_commit", queue=queue).tolist())
    return {
        int(one.get("version", -1)): (int(one.get("segment_bytes") or 0), int(one.get("max_age_ms") or 0))
        for one in told
    }


def _is_quiet(rows: Rows, from_ns: int, until_ns: int) -> bool:
    return not any(one.began_ns <= until_ns and one.until_ns >= from_ns for one in rows.memo(faults))
