"""A store that had held replicas of groups held none any more: it was drained, or replaced by others."""

from __future__ import annotations

from chaos.driver import NoOptions
from chaos.events import RaftMembers, RaftRole
from chaos.goal import Goal
from chaos.law import Rows
from checkers._goals._slices import EVIDENCE


def _reached(history: Rows) -> int:
    """Count how often a store had left the last of all groups. Leaders name the members that there are from the start;
    of changes the newest of each group counts."""
    rows = history.columns
    times, position = rows.column("time_ns"), rows.column("position")
    told = [*rows.where(kind="trace", f="raft").tolist(), *rows.where(kind="trace", f="members").tolist()]
    newest: dict[int, int] = {}
    holders: dict[int, set[str]] = {}
    held: set[str] = set()
    found = 0
    for at in sorted(told, key=lambda at: int(times[at])):
        value, is_change = rows.value(at), rows.text("f", at) == "members"
        group, place = value.get("group"), int(position[at]) if is_change else 0
        if group is None or not value.get("voters") or place < newest.get(group, 0):
            continue
        newest[group] = place
        holders[group] = {_store(name) for name in (*value["voters"], *(value.get("learners") or ()))}
        before, held = held, set().union(*holders.values())
        found += len(before - held)
    return found


def _store(replica: str) -> str:
    return str(replica).rpartition("#")[0]


def create(options: NoOptions) -> Goal:
    return Goal(reads=(RaftRole, RaftMembers), evidence=EVIDENCE, reached=_reached)
