"""Who is kept waiting, pull after pull: the oracle of ``checkers/progress/waiting.py``."""

from __future__ import annotations

import numpy as np

from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts.faults import calm_times, were_calm
from checkers.progress.promise import STALLED, WOKEN_LATE
from tests.checkers.slow import plain
from tests.checkers.slow.ends import furthest, words

#: (name, rows, queue) of each anomaly.
Found = list[tuple[str, tuple[int, ...], int]]


def examine(rows: Rows, context: RunContext) -> tuple[Found, int, int]:
    """The anomalies, how often nobody knows, and the longest wait at a replica in milliseconds."""
    pulls = [call for call in plain.calls(rows, "pull") if call.begin.offset >= 0]
    late, unsure = _woken_late(rows, context, pulls)
    stalled, longest, unknown = _stalled(rows, context, pulls)
    return sorted([*late, *stalled]), unsure + unknown, longest


def _stood(rows: Rows, since_ns: int, until_ns: int) -> list[int]:
    """How long the harness stood still each time between the two."""
    found = []
    for at in rows.where(kind="harness", f="stall").tolist():
        if since_ns <= int(rows.column("time_ns")[at]) <= until_ns:
            found.append(int(rows.value(at).get("ms", -1)) * 1_000_000)
    return found


def _woken_late(rows: Rows, context: RunContext, pulls: list[plain.Call]) -> tuple[Found, int]:
    """200 ms, and eight times the jitter, in the simulator; elsewhere 2 s. No fault since three seconds before."""
    permitted = 200_000_000 + 8 * context.jitter_ns if context.one_clock else 2_000_000_000
    found: Found = []
    unsure = 0
    said = words(rows, by_sends=context.strict)
    for call in pulls:
        begin, end = call.begin, call.end
        if end is None or begin.number("wait_ms") <= 0:
            continue
        node = rows.text("node", end.at) or str(begin.value.get("from", ""))
        epoch = int(rows.column("epoch")[end.at])
        known = [
            word
            for word in said
            if word.row.queue == begin.queue
            and word.end > begin.offset
            and word.row.at < end.at
            and (word.row.node == node if node else word.by_master)
            and epoch in (-1, word.row.epoch)
        ]
        if not known:
            continue
        witness = furthest(known, begin.offset, begin.at) or known[0]
        since_ns = max(begin.time_ns, witness.row.time_ns)
        late_ns = end.time_ns - since_ns
        if late_ns <= permitted or not _calm(rows, begin.time_ns - 3_000_000_000, end.time_ns):
            continue
        if late_ns - sum(_stood(rows, since_ns, end.time_ns)) <= permitted:
            unsure += 1
            continue
        told = tuple(sorted((witness.row.index, begin.index, end.index)))
        found.append((WOKEN_LATE, told, begin.queue))
    return found, unsure


def _calm(rows: Rows, since_ns: int, until_ns: int) -> bool:
    return bool(were_calm(rows, np.array([since_ns]), np.array([until_ns]))[0])


def _stalled(rows: Rows, context: RunContext, pulls: list[plain.Call]) -> tuple[Found, int, int]:
    """In one calm time a replica gave nothing from where it was asked to look, for longer than ``available_s``, at
    least three times."""
    given: dict[int, int] = {}
    for row in plain.read(rows, "delivered"):
        given[row.op] = given.get(row.op, 0) + 1
    readers: dict[tuple[int, str, str, str], list[tuple[plain.Call, bool]]] = {}
    for call in pulls:
        replica, demand = (str(call.begin.value.get(key, "")) for key in ("from", "demand"))
        if not replica or demand == "tier" or call.end is None or call.end.type not in ("ok", "fail"):
            continue
        asked, count = call.begin.offset, given.get(call.begin.index, 0)
        nothing = count == 0 and call.end.number("maximum") > asked and call.end.number("following") <= asked
        if nothing or (count and call.ok):
            where = (call.begin.queue, replica, demand, str(call.end.value.get("source", "")))
            readers.setdefault(where, []).append((call, nothing))
    bound_ns = int(facts.bound(context, "available_s", 10.0) * 1e9)
    found: Found = []
    longest = unsure = 0
    for begin_ns, end_ns in calm_times(rows):
        for where, polls in readers.items():
            for series in _series(polls, begin_ns, end_ns, bound_ns):
                last = series[-1].end
                assert last is not None
                waited_ns = min(last.time_ns, end_ns) - series[0].begin.time_ns
                longest = max(longest, waited_ns)
                if waited_ns > bound_ns and len(series) >= 3:
                    if _stood(rows, series[0].begin.time_ns, last.time_ns):
                        unsure += 1
                    else:
                        found.append((STALLED, (series[0].begin.index, series[-1].begin.index), where[0]))
    return found, longest // 1_000_000, unsure


def _series(polls: list[tuple[plain.Call, bool]], begin_ns: int, end_ns: int, bound_ns: int) -> list[list[plain.Call]]:
    """Polls in vain that follow one another: nothing was given between them, and none came long after the last."""
    found: list[list[plain.Call]] = []
    open_, ended_ns = False, 0
    for call, nothing in polls:
        if not begin_ns <= call.begin.time_ns < end_ns:
            continue
        assert call.end is not None
        if not nothing:
            open_ = False
        elif open_ and call.begin.time_ns - ended_ns <= bound_ns // 2:
            found[-1].append(call)
        else:
            found.append([call])
            open_ = True
        ended_ns = call.end.time_ns
    return found
