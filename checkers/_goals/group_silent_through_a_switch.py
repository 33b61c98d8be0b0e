"""A consumer group stopped committing, and a new master was elected after that."""

from __future__ import annotations

from chaos.driver import NoOptions
from chaos.goal import Goal
from chaos.law import Rows
from chaos.operations import CommitOffset
from checkers._goals import _entries


def _reached(history: Rows) -> int:
    """Count the groups whose last commit took effect a second or more before the last election."""
    rows = history.columns
    times, invoked = rows.column("time_ns"), rows.column("op")
    index = rows.column("index")
    group_of = dict(
        zip(
            index[rows.where(kind="op", f="commit", type="invoke")].tolist(),
            rows.words("group", rows.where(kind="op", f="commit", type="invoke")),
            strict=True,
        )
    )
    last: dict[str, int] = {}
    for at in rows.where(kind="op", f="commit", type="ok").tolist():
        last[group_of.get(int(invoked[at]), "")] = int(times[at])
    elected = max((entry.time_ns for entry in _entries.elections(rows)), default=-1)
    return sum(when + 1_000_000_000 <= elected for group, when in last.items() if group)


def create(options: NoOptions) -> Goal:
    return Goal(
        reads=(*_entries.READS, CommitOffset),
        evidence=_entries.EVIDENCE,
        reached=_reached,
    )
