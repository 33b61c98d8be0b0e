"""Whether controllers answer each read of an object at once, also while their leader changes by request.

Who leads refuses the reads that wait when it leads no more, and who follows those that wait for another leader: their
clients may ask anew at once. So no read waits for longer than its messages take, and what the change of a leader takes.
"""

from __future__ import annotations

import numpy as np

from chaos.fault import Effect
from chaos.judging.findings import Findings
from chaos.law import Rows, RunContext
from checkers._views.causes import Causes
from checkers._views.clients import calls
from checkers._views.promptness import BUSY_ENTRIES, soon_s
from checkers._views.requests import CLIENT
from checkers._views.run import at_s

LATE_READ = "late-read"
#: What a fault may do without keeping anybody from an answer.
HARMLESS = (Effect.HARMS_TIER, Effect.SWITCHES_MASTER)


def late_reads(rows: Rows, context: RunContext, found: Findings, causes: Causes, undeclared: str) -> None:
    """Reads that were answered late, or not at all, though nothing had touched a controller for a while, and none had
    started. For runs in which one clock orders the rows of all nodes."""
    bound_s = soon_s(context)
    times, index, reads = rows.column("time_ns"), rows.column("index"), calls(rows, "read")
    done = reads.done >= 0
    asked, answered = reads.invoke[done], reads.done[done]
    if causes.began_ns < 0 or not causes.controllers:
        return
    slow = (times[answered] - times[asked] > bound_s * 1e9) & (times[asked] >= causes.began_ns)
    lives = np.sort(np.concatenate([rows.where(kind="trace", f=f) for f in ("start", "crash")]))
    for one, other in zip(asked[slow].tolist(), answered[slow].tolist(), strict=True):
        to, since, until = str(rows.value(one).get("to", "")), int(times[one]), int(times[other])
        if to not in causes.controllers or until - _last_change(rows, one, other) <= bound_s * 1e9:
            continue
        near = causes.near(until, since)
        touched = causes.of(near, harmless=HARMLESS)
        lately = lives[(times[lives] > since - causes.after_ns) & (lives < other)]
        began = [rows.text("node", at) for at in lately.tolist() if times[at] >= causes.began_ns]
        if touched & {*causes.controllers, CLIENT} or set(began) & causes.controllers:
            continue
        if _entries(rows, one, other) > BUSY_ENTRIES:
            continue
        if causes.nobody_knows(until, since):
            found.gap(undeclared)
            continue
        found.add(
            LATE_READ,
            f"{to} was asked for a read at {at_s(rows, one)}, and had not answered {bound_s:g} s later, although no "
            "fault but a change of the leader had touched any controller for a while.",
            int(index[one]),
            int(index[other]),
        )


def _last_change(rows: Rows, asked: int, answered: int) -> int:
    """When a controller changed its role or leader last while a read waited; else when that was asked for."""
    told = rows.where(kind="trace", f="raft")
    told = told[(told > asked) & (told < answered)]
    return int(rows.column("time_ns")[told[-1] if len(told) else asked])


def _entries(rows: Rows, asked: int, answered: int) -> int:
    """How many entries were applied while a read waited."""
    applied = rows.where(kind="trace", f="applied")
    return len(np.unique(rows.column("position")[applied[(applied > asked) & (applied < answered)]]))
