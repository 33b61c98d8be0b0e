"""A slice got another owner: a broker opened it that had not owned it before."""

from __future__ import annotations

from chaos.driver import NoOptions
from chaos.events import SliceOpened
from chaos.goal import Goal
from chaos.law import Rows
from checkers._goals._slices import EVIDENCE, owners


def _reached(history: Rows) -> int:
    return sum(len(those) - 1 for those in history.columns.memo(owners).values())


def create(options: NoOptions) -> Goal:
    return Goal(reads=(SliceOpened,), evidence=EVIDENCE, reached=_reached)
