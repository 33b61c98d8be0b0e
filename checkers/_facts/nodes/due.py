"""When something is due that faults put off: an excuse by a fault ends some time after the fault, never with the run.

A law that asks once, at the moment at which something was due, and lets it pass because a fault was near, never asks
again. So it asks here for the first moment from then on that no fault is near.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from chaos.shard_rows import Rows
from checkers._facts.arrays import NEVER, Ints
from checkers._facts.faults import Fault, disturbs, faults

#: What hindered somebody, from one time until another, both included.
Span = tuple[int, int]


def spans(faults: Iterable[Fault]) -> list[Span]:
    return [(fault.began_ns, fault.until_ns) for fault in faults]


def disturbances(rows: Rows, *, but: Fault | None = None) -> list[Span]:
    """Return the spans of all faults ``but`` this one that did anything to anybody, or may have."""
    known = (fault for fault in rows.memo(faults) if fault is not but)
    return spans(fault for fault in known if fault.effects is None or disturbs(fault))


def due_ns(since_ns: int, hindrances: Iterable[Span], bound_ns: int) -> int:
    """Return when what was to be done from a moment on is overdue: one bound after the first moment from then on that
    nothing hindered anybody from one bound before until one bound after it; :data:`NEVER` where that doesn't come."""
    moments = np.array([since_ns], dtype=np.int64)
    begin = int(first_calm(moments, hindrances, before_ns=bound_ns, after_ns=bound_ns)[0])
    return begin + bound_ns if begin < NEVER else NEVER


def first_calm(moments_ns: Ints, hindrances: Iterable[Span], *, before_ns: int = 0, after_ns: int = 0) -> Ints:
    """For each of these moments the first one, from it on, such that nothing hindered anybody from ``before_ns`` before
    until ``after_ns`` after it; :data:`NEVER` where a hindrance doesn't end."""
    found = moments_ns.copy()
    for began_ns, ended_ns in _merged(hindrances, before_ns, after_ns):
        found[(found >= began_ns) & (found <= ended_ns)] = min(ended_ns + 1, NEVER)
    return found


def _merged(hindrances: Iterable[Span], before_ns: int, after_ns: int) -> list[Span]:
    """Return the times at which no such moment lies, ascending: each ends before the next one begins."""
    found: list[Span] = []
    for began_ns, ended_ns in sorted(hindrances):
        first, last = began_ns - after_ns, NEVER if ended_ns >= NEVER else ended_ns + before_ns
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return found
