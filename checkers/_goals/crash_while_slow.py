"""Nodes crashed while the same nodes were slowed down: slow disks and a power cut together."""

from __future__ import annotations

from chaos.driver import NoOptions
from chaos.fault import Effect
from chaos.goal import Goal
from chaos.law import Rows
from chaos.operations import FaultRow
from checkers import _facts as facts


def _reached(history: Rows) -> int:
    rows = history.columns
    known = rows.memo(facts.faults)
    slow = [fault for fault in known if fault.hits(Effect.SLOWS)]
    return sum(
        any(
            crash.hits(Effect.MAY_CRASH) & fault.hits(Effect.SLOWS) and fault.from_ns <= crash.from_ns < fault.until_ns
            for fault in slow
        )
        for crash in known
    )


def create(options: NoOptions) -> Goal:
    return Goal(
        reads=(FaultRow,),
        reached=_reached,
    )
