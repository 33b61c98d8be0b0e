"""The tier removed its oldest records, as its retention allows: a manifest began later than the one before it."""

from __future__ import annotations

from chaos.driver import Evidence, NoOptions
from chaos.events import StoreCas
from chaos.goal import Goal
from chaos.law import Rows
from checkers._facts import tier


def _reached(history: Rows) -> int:
    rows = history.columns
    return sum(later.start > earlier.start >= 0 for earlier, later in tier.pairs(rows))


def create(options: NoOptions) -> Goal:
    return Goal(
        reads=(StoreCas,),
        evidence=(Evidence.OPERATIONS, Evidence.TIER),
        reached=_reached,
    )
