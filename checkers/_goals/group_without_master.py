"""A group lost its master, and no other replica could take over at once."""

from __future__ import annotations

from chaos.driver import NoOptions
from chaos.goal import Goal
from chaos.law import Rows, RunContext
from checkers._goals import _entries


def _reached(rows: Rows, context: RunContext) -> int:
    return sum(
        entry.type == "masterless" or bool(entry.value.get("masterless")) for entry in rows.memo(_entries.entries)
    )


def create(options: NoOptions) -> Goal:
    return Goal(rows=_entries.ROWS, columns=_entries.COLUMNS, evidence=_entries.EVIDENCE, reached=_reached)
