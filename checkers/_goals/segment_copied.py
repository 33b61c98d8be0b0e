"""A store got the file of a sealed segment from another replica or from the tier."""

from __future__ import annotations

from chaos.driver import NoOptions
from chaos.events import SegmentHeld
from chaos.goal import Goal
from chaos.law import Rows
from checkers._goals._slices import EVIDENCE


def _reached(history: Rows) -> int:
    rows = history.columns
    sources = rows.words("source", rows.where(kind="trace", f="held"))
    return sources.count("replica") + sources.count("tier")


def create(options: NoOptions) -> Goal:
    return Goal(reads=(SegmentHeld,), evidence=EVIDENCE, reached=_reached)
