"""A replica that lived and was reachable left the SyncStateSet, since it was too slow."""

from __future__ import annotations

from chaos.driver import NoOptions
from chaos.fault import Effect
from chaos.goal import Goal
from chaos.law import Rows
from chaos.operations import FaultRow
from checkers import _facts as facts
from checkers._goals import _entries

GONE = (Effect.TAKES_DOWN, Effect.MAY_CRASH, Effect.ISOLATES, Effect.CUTS, Effect.LOSES_DISK, Effect.REMOVES_REPLICA)


def _reached(history: Rows) -> int:
    rows = history.columns
    known, found = rows.memo(facts.faults), 0
    for entry, before, after in _entries.sets(rows):
        if entry.type != "alter":
            continue
        here = facts.in_force(known, entry.time_ns)
        away = {node for fault in here for node in fault.hits(*GONE)}
        slow = {node for fault in here for node in fault.hits(Effect.SLOWS)}
        found += bool((before - after - away) and slow)
    return found


def create(options: NoOptions) -> Goal:
    return Goal(
        reads=(*_entries.READS, FaultRow),
        evidence=_entries.EVIDENCE,
        reached=_reached,
    )
