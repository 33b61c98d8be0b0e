"""A switch named a replica that was not in the SyncStateSet: a joiner, or one that had fallen behind."""

from __future__ import annotations

from chaos.driver import NoOptions
from chaos.fault import Effect
from chaos.goal import Goal
from chaos.law import Rows
from chaos.operations import FaultRow
from checkers._goals import _entries


def _reached(history: Rows) -> int:
    rows = history.columns
    changes = [(entry.time_ns, members) for entry, _, members in _entries.sets(rows)]
    times, found = rows.column("time_ns"), 0
    for at in rows.where(kind="fault", type="invoke").tolist():
        named = (rows.value(at).get("effects") or {}).get(Effect.SWITCHES_MASTER) or ()
        before = [members for when, members in changes if when <= times[at]]
        found += bool(before) and any(node not in before[-1] for node in named)
    return found


def create(options: NoOptions) -> Goal:
    return Goal(
        reads=(*_entries.READS, FaultRow),
        evidence=_entries.EVIDENCE,
        reached=_reached,
    )
