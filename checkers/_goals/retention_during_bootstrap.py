"""A replica deleted old segments while another one, which had begun its log again, was not in sync yet."""

from __future__ import annotations

from chaos.driver import Evidence, NoOptions
from chaos.goal import Goal
from chaos.law import Reads, Rows, RunContext
from checkers._goals import _entries


def _reached(rows: Rows, context: RunContext) -> int:
    times = rows.column("time_ns")
    deleted = [(rows.text("node", at), int(times[at])) for at in rows.where(kind="trace", f="retention").tolist()]
    joined = [(entry.time_ns, members) for entry, _, members in _entries.sets(rows)]
    found = 0
    for at in rows.where(kind="trace", f="bootstrap").tolist():
        node, begun = rows.text("node", at), int(times[at])
        ended = min((when for when, members in joined if when > begun and node in members), default=begun)
        found += sum(begun < when < ended and other != node for other, when in deleted)
    return found


def create(options: NoOptions) -> Goal:
    return Goal(
        rows=(*_entries.ROWS, Reads(kind="trace", f=("retention", "bootstrap"))),
        columns=("node", *_entries.COLUMNS),
        evidence=(*_entries.EVIDENCE, Evidence.RETENTION, Evidence.CONFIRM),
        reached=_reached,
    )
