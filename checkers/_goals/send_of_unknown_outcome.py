"""A client could not know whether its message was stored."""

from __future__ import annotations

from chaos.driver import NoOptions
from chaos.goal import Goal
from chaos.law import Rows
from chaos.operations import Send


def _reached(history: Rows) -> int:
    rows = history.columns
    return len(rows.where(kind="op", f="send", type="info"))


def create(options: NoOptions) -> Goal:
    return Goal(
        reads=(Send,),
        reached=_reached,
    )
