"""A client got an ok for its request from a master whose term had ended by then."""

from __future__ import annotations

from bisect import bisect_right

from chaos.driver import NoOptions
from chaos.goal import Goal
from chaos.law import Rows
from chaos.operations import CommitOffset, Send
from checkers._goals import _entries

ANSWERS = ("send", "commit")


def _reached(history: Rows) -> int:
    """Count the answers that name an older epoch than that of the newest master who had been elected when they came."""
    rows = history.columns
    epoch, times = rows.column("epoch"), rows.column("time_ns")
    elected = [(entry.time_ns, int(entry.value["master_epoch"])) for entry in _entries.elections(rows)]
    moments = [when for when, _ in elected]
    found = 0
    for f in ANSWERS:
        for at in rows.where(kind="op", f=f, type="ok").tolist():
            newest = bisect_right(moments, int(times[at])) - 1
            found += newest >= 0 and 0 <= epoch[at] < elected[newest][1]
    return found


def create(options: NoOptions) -> Goal:
    return Goal(
        reads=(*_entries.READS, Send, CommitOffset),
        evidence=_entries.EVIDENCE,
        reached=_reached,
    )
