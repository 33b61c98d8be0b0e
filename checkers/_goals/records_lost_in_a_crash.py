"""A crash lost records that a replica had appended and its disk did not hold yet."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from chaos.driver import Evidence, NoOptions
from chaos.events import Append, Bootstrap, Recovered, Truncate
from chaos.goal import Goal
from chaos.law import Rows


def _reached(history: Rows) -> int:
    """Count the lives whose last record lies at or above the end of the log that the next life found."""
    rows = history.columns
    node, life, position = rows.column("node"), rows.column("incarnation"), rows.column("position")
    appends = rows.where(kind="trace", f="append")
    cuts = np.concatenate([rows.where(kind="trace", f="truncate"), rows.where(kind="trace", f="bootstrap")])
    found = 0
    for name in np.unique(node[appends]):
        starts = [at for at in rows.where(kind="trace", f="recovered").tolist() if node[at] == name]
        for before, after in pairwise([-1, *starts]):
            lived = life[before] if before >= 0 else life[after] - 1
            own = appends[(node[appends] == name) & (life[appends] == lived)]
            if not len(own):
                continue
            cut = cuts[(node[cuts] == name) & (life[cuts] == lived)]
            found += int(position[own[-1]] >= position[after] and not np.any(cut > own[-1]))
    return found


def create(options: NoOptions) -> Goal:
    return Goal(
        reads=(Append, Recovered, Truncate, Bootstrap),
        evidence=(Evidence.OPERATIONS, Evidence.CONFIRM),
        reached=_reached,
    )
