"""A living controller was at least eight entries behind what another one had applied."""

from __future__ import annotations

import numpy as np

from chaos.driver import NoOptions
from chaos.goal import Goal
from chaos.law import Rows
from checkers._goals import _entries

FAR = 8


def _reached(history: Rows) -> int:
    """Count the times at which a controller that goes on living applies an entry of long ago, or skips as many."""
    rows = history.columns
    applied = rows.where(kind="trace", f="applied")
    place, node, life = (rows.column(name)[applied] for name in ("position", "node", "incarnation"))
    newest = np.maximum.accumulate(place) if len(place) else place
    found = 0
    for name in np.unique(node):
        own = np.flatnonzero(node == name)
        lives = life[own][1:] == life[own][:-1]
        # What was applied anywhere just before this row, against what this controller had applied until then.
        behind = newest[np.maximum(own[1:] - 1, 0)] - place[own][:-1]
        late = lives & (behind >= FAR)
        found += int(np.count_nonzero(late & ~np.concatenate([[False], late[:-1]]))) if len(late) else 0
    return found


def create(options: NoOptions) -> Goal:
    return Goal(
        reads=_entries.READS,
        evidence=_entries.EVIDENCE,
        reached=_reached,
    )
