"""The controllers chose a new leader while the old one lived, reachable, but over links that were too slow."""

from __future__ import annotations

from chaos.driver import Evidence, NoOptions
from chaos.events import RaftRole
from chaos.fault import Effect
from chaos.goal import Goal
from chaos.law import Rows
from chaos.operations import FaultRow
from checkers import _facts as facts

GONE = (Effect.TAKES_DOWN, Effect.MAY_CRASH, Effect.ISOLATES, Effect.CUTS)


def _reached(history: Rows) -> int:
    rows = history.columns
    known, times = rows.memo(facts.faults), rows.column("time_ns")
    before, found = "", 0
    for at in rows.where(kind="trace", f="raft").tolist():
        if rows.value(at).get("role") != "leader":
            continue
        here = facts.in_force(known, int(times[at]))
        slow = any(fault.hits(Effect.SLOWS) for fault in here)
        found += slow and bool(before) and not any(before in fault.hits(*GONE) for fault in here)
        before = rows.text("node", at)
    return found


def create(options: NoOptions) -> Goal:
    return Goal(
        reads=(RaftRole, FaultRow),
        evidence=(Evidence.OPERATIONS, Evidence.ELECTIONS),
        reached=_reached,
    )
