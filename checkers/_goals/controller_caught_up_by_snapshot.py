"""A controller that was behind was sent a snapshot instead of the entries that it lacked."""

from __future__ import annotations

import numpy as np

from chaos.driver import NoOptions
from chaos.goal import Goal
from chaos.law import Rows
from checkers import _facts as facts
from checkers._goals import _entries


def _reached(history: Rows) -> int:
    """Within one life what it applied jumps."""
    rows = history.columns
    applied = rows.where(kind="trace", f="applied")
    node, life, place = (rows.column(name)[applied] for name in ("node", "incarnation", "position"))
    order, starts = facts.groups(node, life)
    jumps = np.diff(place[order]) > 1
    jumps[starts[1:] - 1] = False
    return int(np.count_nonzero(jumps))


def create(options: NoOptions) -> Goal:
    return Goal(
        reads=_entries.READS,
        evidence=_entries.EVIDENCE,
        reached=_reached,
    )
