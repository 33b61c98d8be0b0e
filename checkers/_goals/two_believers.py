"""Two brokers believed at the same time that they were the master, of different epochs."""

from __future__ import annotations

from chaos.driver import Evidence, NoOptions
from chaos.events import Role, Start
from chaos.goal import Goal
from chaos.law import Rows


def _reached(history: Rows) -> int:
    rows = history.columns
    times = rows.column("time_ns")
    changes = [*rows.where(kind="trace", f="role").tolist(), *rows.where(kind="trace", f="start").tolist()]
    believers: dict[str, int] = {}
    found = 0
    for at in sorted(changes, key=lambda at: int(times[at])):
        node = rows.text("node", at)
        believers.pop(node, None)
        if rows.value(at).get("role") == "master":
            found += bool(believers)
            believers[node] = at
    return found


def create(options: NoOptions) -> Goal:
    return Goal(
        reads=(Role, Start),
        evidence=(Evidence.OPERATIONS, Evidence.ROLES),
        reached=_reached,
    )
