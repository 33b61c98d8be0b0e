"""When uploaders upload: once a segment is full, or its first record old enough, and then without delay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers._facts.arrays import NEVER, Flags, Ints, distinct, places_in
from checkers._facts.clients import sends
from checkers._facts.faults import faults, service_ended
from checkers._facts.garbage import REAL_TIME
from checkers._facts.nodes.due import first_calm, spans
from checkers._facts.run import last_reported_ns, load_began_ns, phase_time
from checkers._facts.tier import has_store, upload_bound_s
from checkers.tier_continuity.uploaded import IN_A_ROW, NOTHING, PART, Uploaded, uploaded


@dataclass(frozen=True, slots=True)
class Late:
    """An acknowledged message (``began``: the ``index`` of its send; ``at``: the row that acknowledged it) that was not
    in the tier when ``bound_s`` had passed, from its acknowledgement on or, where a fault was near then, from
    ``calm_ns`` on. ``newest``: the ``index`` of the version of the manifest by then, -1 before the first; ``end``: to
    where that reached."""

    began: int
    at: int
    calm_ns: int
    bound_s: float
    newest: int
    end: int


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
    times, made, known = rows.column("time_ns"), rows.memo(sends), rows.lookup(uploaded)
    within_s = upload_bound_s(context) * (1.0 if context.one_clock else REAL_TIME)
    end_ns = phase_time(rows, "collect")
    end_ns = end_ns if end_ns >= 0 else last_reported_ns(rows)
    ended_ns, led_again_ns, _ = service_ended(rows, context)
    hindrances = [*spans(rows.memo(faults)), *([(ended_ns, led_again_ns)] if ended_ns < NEVER else [])]
    began, done = made.began[made.ok], made.done[made.ok]
    queues = {*distinct(rows.column("queue")[done]).tolist()}
    in_tier = {queue for queue, one in known.items() if len(one.index)}
    for queue in sorted(queues if has_store(context) else queues & in_tier):
        tier = known.get(queue, NOTHING)
        bound_s = within_s + tier.oldest_ms / 1e3
        bound_ns = int(bound_s * 1e9)
        mine = np.flatnonzero(rows.column("queue")[done] == queue)
        calm_ns = first_calm(times[done[mine]], hindrances, before_ns=bound_ns, after_ns=bound_ns)
        judged = calm_ns < end_ns - bound_ns
        mine, calm_ns = mine[judged], calm_ns[judged]
        acked = done[mine]
        newest = np.searchsorted(tier.since_ns, calm_ns + bound_ns, side="right") - 1
        end, index = np.append(tier.end, 0)[newest], np.append(tier.index, -1)[newest]
        for n in np.flatnonzero(end <= rows.column("offset")[acked])[:1].tolist():
            yield Late(int(began[mine[n]]), int(acked[n]), int(calm_ns[n]), bound_s, int(index[n]), int(end[n]))


def crumbs(rows: Rows, context: RunContext) -> Iterator[Crumb]:
    """All such versions whose segment's first record was appended in these rows, by queue and place."""
    before_ns = int(upload_bound_s(context) * 1e9)
    for queue, tier in rows.lookup(uploaded).items():
        small = tier.small
        appended_ns = _appended_ns(rows, queue, tier)
        age_ms = (small.sent_ns - appended_ns) / 1e6
        is_young = (appended_ns >= 0) & (age_ms < PART * small.old_ms)
        quiet = _are_quiet(rows, small.since_ns - before_ns, small.time_ns)
        for one in np.flatnonzero(is_young).tolist():
            yield Crumb(
                queue=queue,
                place=int(small.place[one]),
                index=int(small.index[one]),
                since_load_ns=int(small.time_ns[one]) - rows.memo(load_began_ns),
                writer=tier.writers[small.writer[one]],
                epoch=int(small.epoch[one]),
                bytes=int(small.bytes[one]),
                age_ms=float(age_ms[one]),
                full_bytes=int(small.full_bytes[one]),
                old_ms=int(small.old_ms[one]),
                quiet=bool(quiet[one]),
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


def _appended_ns(rows: Rows, queue: int, tier: Uploaded) -> Ints:
    """For each small segment the time at which its uploader first appended a message where it begins, of those that
    were appended in these rows; -1 for others. Its own clock counts, as for its uploads."""
    found = np.full(len(tier.small.base), -1, dtype=np.int64)
    for number, writer in enumerate(tier.writers):
        at = rows.where(kind="trace", f="append", queue=queue, node=writer)
        offsets, times = rows.column("offset")[at], rows.column("time_ns")[at]
        order = np.argsort(times, kind="stable")
        known, first = np.unique(offsets[order], return_index=True)
        mine = np.flatnonzero((tier.small.writer == number) & (tier.small.base >= 0))
        place, there = places_in(known, tier.small.base[mine])
        found[mine[there]] = times[order][first][place[there]]
    return found


def _are_quiet(rows: Rows, from_ns: Ints, until_ns: Ints) -> Flags:
    """In which of these spans of time no fault was in force."""
    quiet = np.ones(len(from_ns), dtype=np.bool_)
    for one in rows.memo(faults):
        quiet &= (one.began_ns > until_ns) | (one.until_ns < from_ns)
    return quiet
