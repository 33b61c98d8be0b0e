"""Whether controllers answer each read of an object at once, also while their leader changes by request.

Who leads refuses the reads that wait when it leads no more, and who follows those that wait for another leader: their
clients may ask again at once. So no read waits for longer than its messages take, and what the change of a leader
takes.
"""

from __future__ import annotations

import numpy as np

from chaos.fault import Effect
from chaos.findings import Findings
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers._facts.arrays import Ints
from checkers._facts.causes import Causes
from checkers._facts.clients import calls
from checkers._facts.promptness import BUSY_ENTRIES, soon_s
from checkers._facts.run import at_s
from checkers.controllers.requests import CLIENT

LATE_READ = "late-read"
#: What a fault may do without keeping anybody from an answer.
HARMLESS = (Effect.HARMS_TIER, Effect.SWITCHES_MASTER)


def late_reads(rows: Rows, context: RunContext, found: Findings, causes: Causes, undeclared: str) -> None:
    """Report reads that were answered late, or not at all, though nothing had touched a controller for a while, and
    none had started. For runs in which one clock orders the rows of all nodes."""
    bound_s = soon_s(context)
    times, index = rows.column("time_ns"), rows.column("index")
    asked, answered = _slow(rows, causes, int(bound_s * 1e9))
    raft, applied = (rows.where(kind="trace", f=f) for f in ("raft", "applied"))
    for one, other in zip(asked.tolist(), answered.tolist(), strict=True):
        changes, entries = _inside(raft, one, other), _inside(applied, one, other)
        due_ns = times[changes[-1] if len(changes) else one] + bound_s * 1e9
        busy = len(np.unique(rows.column("position")[entries])) > BUSY_ENTRIES
        to = str(rows.value(one).get("to", ""))
        if to not in causes.controllers or times[other] <= due_ns or busy:
            continue
        if causes.nobody_knows(int(times[other]), int(times[one])):
            found.gap(undeclared)
            continue
        found.add(
            LATE_READ,
            f"{to} was asked for a read at {at_s(rows, one)}, and had not answered {bound_s:g} s later, although no "
            "fault but a change of the leader had touched any controller for a while.",
            int(index[one]),
            int(index[other]),
        )


def _slow(rows: Rows, causes: Causes, bound_ns: int) -> tuple[Ints, Ints]:
    """Return the reads that took longer than the bound, and had no cause to: the rows by which each was asked and
    answered."""
    times, reads = rows.column("time_ns"), calls(rows, "read")
    done = np.flatnonzero(reads.done >= 0)
    asked, answered = reads.invoke[done], reads.done[done]
    kept = (times[answered] - times[asked] > bound_ns) & (times[asked] >= causes.began_ns)
    if causes.began_ns < 0 or not causes.controllers:
        kept[:] = False
    asked, answered = asked[kept], answered[kept]
    excused = np.zeros(len(asked), dtype=np.bool_)
    since, until = times[asked] - causes.after_ns, times[answered]
    for fault in causes.faults:
        if causes.of([fault], harmless=HARMLESS) & {*causes.controllers, CLIENT}:
            excused |= (fault.began_ns <= until) & (since < fault.until_ns)
    for f in ("start", "crash"):
        for at in rows.where(kind="trace", f=f).tolist():
            if times[at] >= causes.began_ns and rows.text("node", at) in causes.controllers:
                excused |= (times[at] <= until) & (since < times[at])
    return asked[~excused], answered[~excused]


def _inside(some: Ints, asked: int, answered: int) -> Ints:
    """Those of these rows that lie between two."""
    return some[np.searchsorted(some, asked) : np.searchsorted(some, answered)]
