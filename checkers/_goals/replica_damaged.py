"""A replica found at its start that its disk had lost bytes that it had been sure to hold."""

from __future__ import annotations

from chaos.driver import Evidence, NoOptions
from chaos.goal import Goal
from chaos.law import Reads, Rows, RunContext


def _reached(rows: Rows, context: RunContext) -> int:
    return len(rows.where(kind="trace", f="damaged"))


def create(options: NoOptions) -> Goal:
    return Goal(
        rows=(Reads(kind="trace", f=("damaged",)),),
        columns=(),
        evidence=(Evidence.OPERATIONS, Evidence.CONFIRM),
        reached=_reached,
    )
