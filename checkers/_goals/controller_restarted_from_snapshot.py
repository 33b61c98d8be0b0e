"""A controller came back from its own snapshot: the first entries were not in its log any more."""

from __future__ import annotations

import numpy as np

from chaos.driver import NoOptions
from chaos.goal import Goal
from chaos.law import Rows
from checkers import _facts as facts
from checkers._goals import _entries


def _reached(history: Rows) -> int:
    rows = history.columns
    applied = rows.where(kind="trace", f="applied")
    node, life, place = (rows.column(name)[applied] for name in ("node", "incarnation", "position"))
    order, starts = facts.groups(node, life)
    return int(np.count_nonzero(place[order][starts] > 1))


def create(options: NoOptions) -> Goal:
    return Goal(
        reads=_entries.READS,
        evidence=_entries.EVIDENCE,
        reached=_reached,
    )
