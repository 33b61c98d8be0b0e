"""A slice went from one broker to another one, and back to the first."""

from __future__ import annotations

from chaos.driver import NoOptions
from chaos.events import SliceOpened
from chaos.goal import Goal
from chaos.law import Rows
from checkers._goals._slices import EVIDENCE, owners


def _reached(history: Rows) -> int:
    found = history.columns.memo(owners).values()
    return sum(those[place] == those[place - 2] for those in found for place in range(2, len(those)))


def create(options: NoOptions) -> Goal:
    return Goal(reads=(SliceOpened,), evidence=EVIDENCE, reached=_reached)
