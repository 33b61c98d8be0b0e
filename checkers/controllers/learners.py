"""Whether a controller that joined got its vote in time.

Who joins is a learner until it has caught up (Ongaro's thesis, 4.2.1). What it lacks is sent to it at once, and it
votes by the next entry. Until then it is of no use to a majority.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chaos.fault import Effect
from chaos.findings import Findings
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers._facts.causes import AFTER_S, Causes
from checkers._facts.faults import Fault
from checkers._facts.nodes.due import first_calm, spans
from checkers._facts.promptness import MESSAGES
from checkers._facts.run import at_s, bound

LATE_VOTE = "late-vote"


def late_votes(rows: Rows, context: RunContext, found: Findings, causes: Causes) -> None:
    """Learners that did not vote for longer than the bound, although nothing had touched the controllers but that this
    one had been taken out, and they had the same leader all the time. Where something had, the wait counts from when
    that is over."""
    times, index = rows.column("time_ns"), rows.column("index")
    bound_ns = int(1e9 * bound(context, "available_s", AFTER_S)) + MESSAGES * context.jitter_ns
    leads = [at for at in rows.where(kind="trace", f="raft").tolist() if rows.value(at).get("role") == "leader"]
    for node, joined, voted in _waits(rows):
        begin, now = int(times[joined]), int(times[voted])
        if causes.began_ns < 0 or begin < causes.began_ns or now - begin <= bound_ns:
            continue
        hindered = [one for one in causes.faults if causes.of([one]) & causes.controllers and not _takes_out(one, node)]
        hindrances = [*spans(hindered), *((ns, ns) for ns in [*causes.lives_ns, *times[leads].tolist()])]
        at_ns = np.array([begin], dtype=np.int64)
        begin = int(first_calm(at_ns, hindrances, before_ns=causes.after_ns, after_ns=bound_ns)[0])
        if begin >= now - bound_ns:
            continue
        if causes.nobody_knows(begin + bound_ns, begin):
            found.gap("a controller got its vote late, perhaps by a fault that declares no effects")
            continue
        found.add(
            LATE_VOTE,
            f"{node} joined the controllers at {at_s(rows, joined)} and did not vote for {(now - begin) / 1e9:.1f} s "
            f"in which no fault had touched any other of them for a while; {bound_ns / 1e9:g} s are permitted.",
            int(index[joined]),
            int(index[voted]),
        )


def _waits(rows: Rows) -> Iterator[tuple[str, int, int]]:
    """(who was a learner, the row by which it joined, the row by which it was none any more, or the last row)."""
    position = rows.column("position")
    changes: dict[int, int] = {}
    for at in rows.where(kind="trace", f="members").tolist():
        changes.setdefault(int(position[at]), at)
    waiting: dict[str, int] = {}
    for number in sorted(changes):
        at = changes[number]
        learners = set(map(str, rows.value(at).get("learners", ())))
        for node in sorted(waiting.keys() - learners):
            yield node, waiting.pop(node), at
        for node in learners:
            waiting.setdefault(node, at)
    last = len(position) - 1
    for node in sorted(waiting):
        yield node, waiting[node], last


def _takes_out(fault: Fault, node: str) -> bool:
    """Is this the fault by which the controller left, and whose end lets it join again?"""
    return set(fault.effects or ()) == {Effect.REMOVES_REPLICA} and fault.targets == {node}
