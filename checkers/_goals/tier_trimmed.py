"""The tier removed its oldest records, as its retention allows: a manifest began later than the one before it."""

from __future__ import annotations

import numpy as np

from chaos.driver import Evidence, NoOptions
from chaos.events import StoreCas
from chaos.goal import Goal
from chaos.law import Rows
from checkers._facts import tier


def _reached(history: Rows) -> int:
    rows = history.columns
    starts = [found.start for found in rows.memo(tier.manifests).values()]
    return sum(int(np.count_nonzero((start[1:] > start[:-1]) & (start[:-1] >= 0))) for start in starts)


def create(options: NoOptions) -> Goal:
    return Goal(
        reads=(StoreCas,),
        evidence=(Evidence.OPERATIONS, Evidence.TIER),
        reached=_reached,
    )
