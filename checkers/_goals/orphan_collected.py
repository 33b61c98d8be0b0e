"""An object that no manifest named, or no longer named, was deleted from the tier."""

from __future__ import annotations

from chaos.driver import Evidence, NoOptions
from chaos.goal import Goal
from chaos.law import Reads, Rows, RunContext


def _reached(rows: Rows, context: RunContext) -> int:
    return rows.words("outcome", rows.where(kind="trace", f="store_delete")).count("deleted")


def create(options: NoOptions) -> Goal:
    return Goal(
        rows=(Reads(kind="trace", f=("store_delete",)),),
        columns=("value",),
        evidence=(Evidence.OPERATIONS, Evidence.TIER),
        reached=_reached,
    )
