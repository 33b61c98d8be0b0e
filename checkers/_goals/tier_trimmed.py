"""The tier removed its oldest records, as its retention allows: a manifest began later than the one before it."""

from __future__ import annotations

from chaos.driver import Evidence, NoOptions
from chaos.goal import Goal
from chaos.law import Reads, Rows, RunContext
from checkers._facts import tier


def _reached(rows: Rows, context: RunContext) -> int:
    return sum(later.start > earlier.start >= 0 for earlier, later in tier.pairs(rows))


def create(options: NoOptions) -> Goal:
    return Goal(
        rows=(Reads(kind="trace", f=("store_cas",)),),
        columns=("queue", "offset", "position", "epoch", "hash", "value"),
        evidence=(Evidence.OPERATIONS, Evidence.TIER),
        reached=_reached,
    )
