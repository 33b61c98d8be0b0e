"""A new master was elected while a replica that had begun its log again was not in sync yet."""

from __future__ import annotations

from chaos.driver import Evidence, NoOptions
from chaos.events import Bootstrap
from chaos.goal import Goal
from chaos.law import Rows
from checkers._goals import _entries


def _reached(history: Rows) -> int:
    rows = history.columns
    times = rows.column("time_ns")
    joined = [(entry.time_ns, members) for entry, _, members in _entries.sets(rows)]
    elected = [entry.time_ns for entry in _entries.elections(rows)]
    found = 0
    for at in rows.where(kind="trace", f="bootstrap").tolist():
        node, begun = rows.text("node", at), int(times[at])
        ended = min((when for when, members in joined if when > begun and node in members), default=begun)
        found += sum(begun < when < ended for when in elected)
    return found


def create(options: NoOptions) -> Goal:
    return Goal(
        reads=(*_entries.READS, Bootstrap),
        evidence=(*_entries.EVIDENCE, Evidence.CONFIRM),
        reached=_reached,
    )
