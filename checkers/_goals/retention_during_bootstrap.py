"""A replica deleted old segments while another one, which had begun its log again, was not in sync yet."""

from __future__ import annotations

from chaos.driver import Evidence, NoOptions
from chaos.events import Bootstrap, Retention
from chaos.goal import Goal
from chaos.law import Rows
from checkers._goals import _entries


def _reached(history: Rows) -> int:
    rows = history.columns
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
        reads=(*_entries.READS, Retention, Bootstrap),
        evidence=(*_entries.EVIDENCE, Evidence.RETENTION, Evidence.CONFIRM),
        reached=_reached,
    )
