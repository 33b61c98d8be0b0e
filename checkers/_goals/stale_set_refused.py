"""The controllers refused a change of the SyncStateSet: it came from a deposed master, or was based on an older set."""

from __future__ import annotations

from chaos.driver import NoOptions
from chaos.goal import Goal
from chaos.law import Rows
from checkers._goals import _entries


def _reached(history: Rows) -> int:
    rows = history.columns
    refused = [entry for entry in rows.memo(_entries.entries) if entry.type == "none"]
    return sum(entry.value.get("op") == "alter" and bool(entry.value.get("code")) for entry in refused)


def create(options: NoOptions) -> Goal:
    return Goal(
        reads=_entries.READS,
        evidence=_entries.EVIDENCE,
        reached=_reached,
    )
