"""A replica truncated records that it had never confirmed, as a deposed master does when it follows again."""

from __future__ import annotations

from chaos.driver import Evidence, NoOptions
from chaos.events import Confirm, Truncate
from chaos.goal import Goal
from chaos.law import Rows


def _reached(history: Rows) -> int:
    rows = history.columns
    node, position = rows.column("node"), rows.column("position")
    index = rows.column("index")
    confirms = rows.where(kind="trace", f="confirm")
    cuts = rows.where(kind="trace", f="truncate")
    ends = rows.numbers("old_end", cuts)
    found = 0
    for at, end in zip(cuts.tolist(), ends.tolist(), strict=True):
        own = confirms[(node[confirms] == node[at]) & (index[confirms] < index[at])]
        confirmed = int(position[own[-1]]) if len(own) else 0
        found += int(confirmed <= position[at] < end and position[at] > 0)
    return found


def create(options: NoOptions) -> Goal:
    return Goal(
        reads=(Truncate, Confirm),
        evidence=(Evidence.OPERATIONS, Evidence.CONFIRM),
        reached=_reached,
    )
