"""What was there in the end although its topic's rule had let it go long before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from chaos.fault import Effect
from chaos.findings import Findings
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts.faults import disturbs
from checkers._facts.storage.catalogue import TOPIC, Entry, catalogue
from checkers._facts.storage.entries import appends, whole_of
from checkers._facts.storage.segments import Replica, replicas, sealed
from checkers.retention.promise import KEPT_TOO_LONG

#: A message may stay after its topic's rule has let it go until its segment is sealed, all of it is old, and the leader
#: looks again: so many times as long as something that nothing needs may take to be removed.
COLLECT_S, LOOKS = 5.0, 6


@dataclass(frozen=True, slots=True)
class _Kept:
    """What a replica shows after the run of a topic with a limit: the store time of its oldest message (-1: it has
    none), its bytes, and the group's logged time."""

    replica: Replica
    entry: Entry
    topic: int
    oldest_ms: int
    size: int
    now_ms: int


def kept_too_long(rows: Rows, context: RunContext, found: Findings) -> None:
    """Report topics of which stores hold in the end what should have gone long before; long after the last fault."""
    if not facts.has_recovered(rows):
        return
    bound_s = LOOKS * facts.bound(context, "collect_s", COLLECT_S)
    since_ns = facts.phase_time(rows, "collect") - bound_s * 1e9
    reported: set[tuple[int, int]] = set()
    for one in _kept(rows):
        found.count("kept_topics", 1)
        place = one.replica.group, one.topic
        if place in reported or rows.column("time_ns")[one.entry.at] > since_ns:  # its rule may be a new one
            continue
        if said := _too_old(one, bound_s):
            reported.add(place)
            _report(rows, found, one, said, bound_s, by_clocks=True)
        elif said := _too_much(rows, one, since_ns):
            reported.add(place)
            if context.one_clock:
                _report(rows, found, one, said, bound_s, by_clocks=False)
            else:
                found.gap(f"much of {one.entry.name} was kept in the end, and no clock shows for how long")


def _kept(rows: Rows) -> Iterator[_Kept]:
    newest = {entry.number("id"): entry for entry in catalogue(rows).of(TOPIC) if entry.value}
    for replica in replicas(rows):
        value = rows.value(replica.at)
        of_topics = value.get("kept")
        for name, shown in sorted(of_topics.items()) if isinstance(of_topics, Mapping) else ():
            entry = newest.get(int(name)) if name.isdecimal() else None
            if entry is not None and (entry.number("retain_ms") > 0 or entry.number("retain_bytes") > 0):
                yield _Kept(replica, entry, int(name), int(shown[0]), int(shown[1]), whole_of(value, "now_ms"))


def _too_old(one: _Kept, bound_s: float) -> str:
    """Return for how long something should have been gone, by the group's own logged time, which can only lag; "" if it
    may be there."""
    limit_ms = one.entry.number("retain_ms")
    over_ms = one.now_ms - one.oldest_ms - limit_ms
    if limit_ms <= 0 or one.oldest_ms < 0 or over_ms <= bound_s * 1000:
        return ""
    return f"that should have been deleted {over_ms / 1000:.1f} s before, by the group's logged time"


def _too_much(rows: Rows, one: _Kept, since_ns: float) -> str:
    """Return how much there is without the oldest segment, which should have gone at ``since_ns`` already: it was
    sealed by then, and the limit was left without it, whatever the group has taken since; "" if it may be there."""
    times, limit = rows.column("time_ns"), one.entry.number("retain_bytes")
    mine = [held.segment for held in one.replica.segments if held.segment.topic == one.topic]
    oldest = sealed(rows).get(min(mine, key=lambda segment: segment.begin)) if mine else None
    if limit <= 0 or oldest is None or times[oldest[0].at] > since_ns:
        return ""
    taken = appends(rows)
    late = (taken.group == one.replica.group) & (times[taken.at] > since_ns)
    begin = int(taken.begin[late].min(initial=one.replica.end))
    rest = one.size - oldest[0].size
    if rest - (one.replica.end - begin) < limit:
        return ""
    return f"of which the oldest segment should have been deleted: {rest} bytes are left without it, and {limit} stay"


def _report(rows: Rows, found: Findings, one: _Kept, said: str, bound_s: float, *, by_clocks: bool) -> None:
    known = rows.memo(facts.faults)
    last_ns = max((fault.until_ns for fault in known if fault.effects is None or disturbs(fault)), default=-1)
    if by_clocks and any(fault.effects is None or fault.hits(Effect.SKEWS_CLOCKS) for fault in known):
        found.gap(f"messages of {one.entry.name} were kept long, and a fault has, or may have, set clocks")
    elif facts.phase_time(rows, "collect") - last_ns < bound_s * 1e9:
        found.gap(f"messages of {one.entry.name} were kept long, and the last fault was less than {bound_s:g} s ago")
    else:
        found.add(
            KEPT_TOO_LONG,
            f"{one.replica.node} holds messages of {one.entry.name} in group {one.replica.group} {said}; "
            f"{bound_s:g} s are permitted for that.",
            *sorted(int(rows.column("index")[at]) for at in (one.entry.at, one.replica.at)),
        )
