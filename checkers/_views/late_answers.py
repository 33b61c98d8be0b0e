"""Sends that a broker answered later than a message may wait there for its acknowledgement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

import numpy as np

from chaos.fault import Effect
from chaos.law import Rows, RunContext
from checkers._views.clients import sends
from checkers._views.faults import faults

#: In virtual time an answer takes no longer than this besides: to look for the master, and on its way.
BESIDES_MS = 200
#: So long after its end a fault may still make answers late.
CALM_NS = 3_000_000_000


@dataclass(frozen=True, slots=True)
class LateAnswer:
    """A send, by the rows that began and ended it; ``told`` is the row by which its broker told ``limit_ms``."""

    invoke: int
    done: int
    node: str
    took_ms: float
    limit_ms: int
    told: int


def late_answers(rows: Rows, context: RunContext) -> Iterator[LateAnswer]:
    """Those that a broker has answered itself, in whatever way, in the order of the sends. Judged only where one clock
    tells all times, and no fault but of other brokers was in force meanwhile or shortly before."""
    if not context.one_clock or context.unfinished:
        return
    limits, tellers = _limits(rows)
    made, times = rows.memo(sends), rows.column("time_ns")
    ended = np.flatnonzero(made.done >= 0)
    took_ns = times[made.done[ended]] - times[made.invoke[ended]]
    shortest_ms = min((ms for ms, _ in limits.values()), default=0)
    if not limits:
        return
    for n in np.flatnonzero(took_ns > (shortest_ms + BESIDES_MS) * 1_000_000).tolist():
        invoke, done = int(made.invoke[ended[n]]), int(made.done[ended[n]])
        node = rows.text("node", done)
        limit_ms, told = limits.get(node, (-1, -1))
        late = limit_ms >= 0 and took_ns[n] > (limit_ms + BESIDES_MS) * 1_000_000
        if late and not _excused(rows, tellers - {node}, int(times[invoke]), int(times[done])):
            yield LateAnswer(invoke, done, node, int(took_ns[n]) / 1e6, limit_ms, told)


def _limits(rows: Rows) -> tuple[Mapping[str, tuple[int, int]], Set[str]]:
    """By broker: for how long a message may wait there, in ms, with the row that says so; and all who tell roles."""
    limits: dict[str, tuple[int, int]] = {}
    tellers = set()
    for at in rows.where(kind="trace", f="role").tolist():
        node, limit_ms = rows.text("node", at), rows.value(at).get("ack_timeout_ms")
        tellers.add(node)
        if isinstance(limit_ms, int) and limit_ms > limits.get(node, (-1, -1))[0]:
            limits[node] = (limit_ms, at)
    return limits, tellers


def _excused(rows: Rows, others: Set[str], began_ns: int, ended_ns: int) -> bool:
    """Was a fault in force that may have hit the broker, a client, or whoever else a client asks?"""
    return any(
        fault.effects is None or bool((fault.hits(*Effect) | fault.targets) - others)
        for fault in rows.memo(faults)
        if fault.began_ns <= ended_ns and fault.until_ns + CALM_NS >= began_ns
    )
