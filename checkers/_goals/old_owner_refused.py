"""An append of an earlier epoch came to a group's log behind the FENCE of a later one, and was refused when applied."""

from __future__ import annotations

from chaos.driver import NoOptions
from chaos.events import GroupAppended
from chaos.goal import Goal
from chaos.law import Rows
from checkers._goals._slices import EVIDENCE


def _reached(history: Rows) -> int:
    rows = history.columns
    appends = rows.where(kind="trace", f="group_append").tolist()
    refused = (rows.value(at) for at in appends if rows.value(at).get("reason") == "fenced")
    return len({(value["group"], value["log_index"]) for value in refused})


def create(options: NoOptions) -> Goal:
    return Goal(reads=(GroupAppended,), evidence=EVIDENCE, reached=_reached)
