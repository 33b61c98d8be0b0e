"""A group lost its master, and no other replica could take over at once."""

from __future__ import annotations

from chaos.driver import NoOptions
from chaos.goal import Goal
from chaos.law import Rows
from checkers._goals import _entries


def _reached(history: Rows) -> int:
    rows = history.columns
    return sum(
        entry.type == "masterless" or bool(entry.value.get("masterless")) for entry in rows.memo(_entries.entries)
    )


def create(options: NoOptions) -> Goal:
    return Goal(
        reads=_entries.READS,
        evidence=_entries.EVIDENCE,
        reached=_reached,
    )
