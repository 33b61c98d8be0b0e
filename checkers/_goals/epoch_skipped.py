"""A living broker went from one master epoch to a later one and took part in none between them."""

from __future__ import annotations

from chaos.driver import Evidence, NoOptions
from chaos.events import Role
from chaos.goal import Goal
from chaos.law import Rows
from checkers._goals import _entries


def _reached(history: Rows) -> int:
    """Within one life the roles of a broker skip the epoch of an election."""
    rows = history.columns
    epoch, life, times = rows.column("epoch"), rows.column("incarnation"), rows.column("time_ns")
    elected = {int(entry.value["master_epoch"]): entry.time_ns for entry in _entries.elections(rows)}
    last: dict[tuple[str, int], tuple[int, int]] = {}
    found = 0
    for at in rows.where(kind="trace", f="role").tolist():
        key = (rows.text("node", at), int(life[at]))
        before, since = last.get(key, (-1, 0))
        if before > 0:
            found += any(before < number < epoch[at] and when > since for number, when in elected.items())
        last[key] = (int(epoch[at]), int(times[at]))
    return found


def create(options: NoOptions) -> Goal:
    return Goal(
        reads=(*_entries.READS, Role),
        evidence=(*_entries.EVIDENCE, Evidence.ROLES),
        reached=_reached,
    )
