"""What was there in the end although its topic's rule had let it go long before."""

from __future__ import annotations

from collections.abc import Mapping

from chaos.fault import Effect
from chaos.findings import Findings
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts.faults import disturbs
from checkers._facts.storage.catalogue import TOPIC, Entry, catalogue
from checkers._facts.storage.entries import whole_of
from checkers.retention.promise import KEPT_TOO_LONG

#: A message may stay after its topic's rule has let it go until its segment is sealed, all of it is old, and the leader
#: looks again: so many times as long as something that nothing needs may take to be removed.
COLLECT_S, LOOKS = 5.0, 6


def kept_too_long(rows: Rows, context: RunContext, found: Findings) -> None:
    """Report topics of which stores hold messages in the end that are older than permitted, by the groups' own logged
    time, which can only lag; long after the last fault."""
    if not facts.has_recovered(rows):
        return
    bound_s = LOOKS * facts.bound(context, "collect_s", COLLECT_S)
    newest = {entry.number("id"): entry for entry in catalogue(rows).of(TOPIC) if entry.value}
    reported: set[tuple[int, int]] = set()
    for at in rows.where(kind="final", f="group").tolist():
        value = rows.value(at)
        group, now_ms = whole_of(value, "group"), whole_of(value, "now_ms")
        of_topics = value.get("kept")
        for name, shown in sorted(of_topics.items()) if isinstance(of_topics, Mapping) else ():
            entry = newest.get(int(name)) if name.isdecimal() else None
            if entry is None or not entry.number("retain_ms") > 0:
                continue
            found.count("kept_topics", 1)
            over_ms = now_ms - int(shown[0]) - entry.number("retain_ms")
            if shown[0] < 0 or over_ms <= bound_s * 1000 or (group, int(name)) in reported:
                continue
            reported.add((group, int(name)))
            _report(rows, found, at, entry, group, over_ms, bound_s)


def _report(rows: Rows, found: Findings, at: int, entry: Entry, group: int, over_ms: int, bound_s: float) -> None:
    known = rows.memo(facts.faults)
    last_ns = max((one.until_ns for one in known if one.effects is None or disturbs(one)), default=-1)
    if any(one.effects is None or one.hits(Effect.SKEWS_CLOCKS) for one in known):
        found.gap(f"messages of {entry.name} were kept long, and a fault has, or may have, set clocks")
    elif facts.phase_time(rows, "collect") - last_ns < bound_s * 1e9:
        found.gap(f"messages of {entry.name} were kept long, and the last fault was less than {bound_s:g} s ago")
    else:
        found.add(
            KEPT_TOO_LONG,
            f"{rows.text('node', at)} holds messages of {entry.name} in group {group} that should have been deleted "
            f"{over_ms / 1000:.1f} s before, by the group's logged time; {bound_s:g} s are permitted.",
            *sorted(int(rows.column("index")[one]) for one in (entry.at, at)),
        )
