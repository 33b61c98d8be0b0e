"""A replica found at its start that its disk had lost bytes that it had been sure to hold."""

from __future__ import annotations

from chaos.driver import Evidence, NoOptions
from chaos.events import Damaged
from chaos.goal import Goal
from chaos.law import Rows


def _reached(history: Rows) -> int:
    rows = history.columns
    return len(rows.where(kind="trace", f="damaged"))


def create(options: NoOptions) -> Goal:
    return Goal(
        reads=(Damaged,),
        evidence=(Evidence.OPERATIONS, Evidence.CONFIRM),
        reached=_reached,
    )
