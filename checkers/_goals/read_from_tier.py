"""A client was given messages that came from the tier."""

from __future__ import annotations

from chaos.driver import Evidence, NoOptions
from chaos.goal import Goal
from chaos.law import Reads, Rows, RunContext


def _reached(rows: Rows, context: RunContext) -> int:
    return rows.words("source", rows.where(kind="op", f="pull", type="ok")).count("tier")


def create(options: NoOptions) -> Goal:
    return Goal(
        rows=(Reads(kind="op", f=("pull",)),),
        columns=("type", "value"),
        evidence=(Evidence.OPERATIONS, Evidence.TIER),
        reached=_reached,
    )
