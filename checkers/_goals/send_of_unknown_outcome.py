"""A client could not know whether its message was stored."""

from __future__ import annotations

from chaos.driver import NoOptions
from chaos.goal import Goal
from chaos.law import Reads, Rows, RunContext


def _reached(rows: Rows, context: RunContext) -> int:
    return len(rows.where(kind="op", f="send", type="info"))


def create(options: NoOptions) -> Goal:
    return Goal(rows=(Reads(kind="op", f=("send",)),), columns=("type",), reached=_reached)
