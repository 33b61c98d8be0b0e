"""A new master was elected after an object of a queue was stored and before a manifest named it."""

from __future__ import annotations

from chaos import shard_rows
from chaos.driver import Evidence, NoOptions
from chaos.events import StoreCas, StorePut
from chaos.goal import Goal
from chaos.law import Rows
from checkers._goals import _entries


def _reached(history: Rows) -> int:
    rows = history.columns
    times, queue = rows.column("time_ns"), rows.column("queue")
    puts, commits = rows.where(kind="trace", f="store_put"), rows.where(kind="trace", f="store_cas")
    steps = [(int(times[at]), int(queue[at]), word == "created") for at, word in _outcomes(rows, puts.tolist())]
    steps += [
        (int(times[at]), int(queue[at]), False) for at, word in _outcomes(rows, commits.tolist()) if word == "applied"
    ]
    steps.sort()
    found = 0
    for entry in _entries.elections(rows):
        last = {number: stored for when, number, stored in steps if when < entry.time_ns}
        found += any(last.values())
    return found


def _outcomes(rows: shard_rows.Rows, at: list[int]) -> list[tuple[int, str]]:
    return [(one, str(rows.value(one).get("outcome", ""))) for one in at]


def create(options: NoOptions) -> Goal:
    return Goal(
        reads=(*_entries.READS, StorePut, StoreCas),
        evidence=(*_entries.EVIDENCE, Evidence.TIER),
        reached=_reached,
    )
