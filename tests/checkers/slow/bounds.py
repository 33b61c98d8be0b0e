"""Where queues begin and end as readers are told, by each answer: the oracle of ``checkers/progress/stale_*.py``."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chaos.driver import Evidence
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts.faults import were_calm
from checkers.progress.promise import STALE_MAXIMUM, STALE_MINIMUM
from tests.checkers.slow import plain
from tests.checkers.slow.ends import is_master

#: (name, rows, queue, offset) of each anomaly.
Found = list[tuple[str, tuple[int, ...], int, int]]
#: What was shown, as (time, value, row), by time.
Shown = list[tuple[int, int, int]]


def examine(rows: Rows, context: RunContext) -> Found:
    old_ns = int(facts.bound(context, "route_s", 5.0) * (1 if context.one_clock else 4) * 1e9)
    found = []
    for call in plain.calls(rows, "pull", "bounds"):
        if call.end is None or call.end.type not in ("ok", "fail"):
            continue
        by_ns = max(0, call.begin.time_ns - old_ns)
        if were_calm(rows, np.array([by_ns]), np.array([call.end.time_ns]))[0]:
            found += _stale_minimum(rows, call.begin, call.end, by_ns)
            found += _stale_maximum(rows, context, call.begin, call.end, by_ns) if context.strict else ()
    return sorted(found)


def _reach(shown: Shown, by_ns: int) -> int:
    return max((value for time_ns, value, _ in shown if time_ns < by_ns), default=-1)


def _stale_minimum(rows: Rows, begin: plain.Row, end: plain.Row, by_ns: int) -> Iterator[tuple]:
    """The beginning that its own log and the tier, if there is one, had left behind."""
    said, queue, index = end.number("minimum"), begin.queue, rows.column("index")
    if said < 0:
        return
    deleted, for_a_tier = _deletions(rows, end, queue)
    trimmed = _trims(rows, queue)
    if trimmed is not None:
        due, witnesses = min(_reach(deleted, by_ns), _reach(trimmed, by_ns)), (deleted, trimmed)
    elif not for_a_tier:
        due, witnesses = _reach(deleted, by_ns), (deleted,)
    else:
        return
    if said < due:
        seen = [next(row for _, value, row in shown if value >= due) for shown in witnesses]
        yield STALE_MINIMUM, tuple(sorted([*(int(index[at]) for at in seen), begin.index, end.index])), queue, due


def _deletions(rows: Rows, answer: plain.Row, queue: int) -> tuple[Shown, bool]:
    """Where the log of the node that answered, in the same life, began; since it was last begun anew. And whether any
    of that was deleted for a tier."""
    node, life = rows.text("node", answer.at), int(rows.column("incarnation")[answer.at])
    times = rows.column("time_ns")

    def lived(f: str) -> list[int]:
        every = rows.where(kind="trace", f=f).tolist()
        return [at for at in every if rows.text("node", at) == node and int(rows.column("incarnation")[at]) == life]

    anew_ns = max((int(times[at]) for at in lived("bootstrap")), default=-1)
    found, tiered = [], False
    for at in lived("retention"):
        minimum = (rows.value(at).get("minimums") or {}).get(str(queue))
        if minimum is not None and int(times[at]) > anew_ns:
            found.append((int(times[at]), int(minimum), at))
            tiered = tiered or bool((rows.value(at).get("inputs") or {}).get("tiered"))
    return sorted(found), tiered


def _trims(rows: Rows, queue: int) -> Shown | None:
    """Where the applied manifests of the queue began; None without any."""
    found = []
    for at in rows.where(kind="trace", f="store_cas", queue=queue).tolist():
        if rows.value(at).get("outcome") == "applied":
            found.append((int(rows.column("time_ns")[at]), int(rows.value(at)["content"].get("start", 0)), at))
    return sorted(found) or None


def _stale_maximum(rows: Rows, context: RunContext, begin: plain.Row, end: plain.Row, by_ns: int) -> Iterator[tuple]:
    """What a slave was asked for and said, against what masters had shown."""
    said = end.number("maximum")
    if said < 0 or not begin.value.get("from") or is_master(rows, end):
        return
    shown = []
    for call in plain.calls(rows, "pull", "bounds", "send"):
        if call.end is None or call.begin.queue != begin.queue or not is_master(rows, call.end):
            continue
        is_send = rows.text("f", call.begin.at) == "send"
        value = call.end.offset + 1 if is_send else call.end.number("maximum")
        counts = call.ok and Evidence.CONFIRM in context.evidence if is_send else call.end.type in ("ok", "fail")
        if counts and value >= 0:
            shown.append((call.end.time_ns, value, call.end.at))
    shown.sort()
    if _reach(shown, by_ns) > said:
        witness = next(row for _, value, row in shown if value > said)
        told = (int(rows.column("index")[witness]), begin.index, end.index)
        yield STALE_MAXIMUM, tuple(sorted(told)), begin.queue, said
