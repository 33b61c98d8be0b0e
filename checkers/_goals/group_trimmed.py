"""Retention took records of a topic away from a group."""

from __future__ import annotations

from chaos.driver import NoOptions
from chaos.events import Trimmed
from chaos.goal import Goal
from chaos.law import Rows
from checkers._goals._slices import EVIDENCE


def _reached(history: Rows) -> int:
    rows = history.columns
    values = (rows.value(at) for at in rows.where(kind="trace", f="trim").tolist())
    return len({(value["group"], value["log_index"]) for value in values if value.get("newest_ms", -1) >= 0})


def create(options: NoOptions) -> Goal:
    return Goal(reads=(Trimmed,), evidence=EVIDENCE, reached=_reached)
