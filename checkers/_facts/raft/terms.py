"""Whether a member ever goes back to a term that is over.

Its term is on its disk, but not at once: who only stood for election, or heard of a term, may crash before. So a term
binds its whole life, and who has led one was elected with it on its disk, and knows it until that disk is lost.
"""

from __future__ import annotations

from chaos.fault import Effect
from chaos.findings import Findings
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers._facts.faults import Fault, faults
from checkers._facts.raft.group import RaftGroup
from checkers._facts.run import at_s

TERM_REGRESSION = "term-regression"


def lower_terms(rows: Rows, context: RunContext, found: Findings, group: RaftGroup) -> None:
    """Report a member in a lower term than it had led, or than it had reported in the same life."""
    term, index, life = rows.column("epoch"), rows.column("index"), rows.column("incarnation")
    for node, mine in group.by_node(rows, "raft"):
        led = newest = -1  # the row of the highest term that it led, and of the highest one of this life
        for at in mine.tolist():
            if newest >= 0 and life[at] != life[newest]:
                newest = -1
            known = newest if newest >= 0 and (led < 0 or term[newest] > term[led]) else led
            if known >= 0 and term[at] < term[known]:
                between = faults_between(rows, context, known, at)
                lost = any(node in fault.hits(Effect.LOSES_DISK) for fault in between)
                lost |= group.begins_anew(node, known, at, one_clock=context.one_clock)
                did = "led" if known == led else "reported in the same life"
                if not lost and not any(fault.may_hit(node) for fault in between):
                    found.add(
                        group.prefix + TERM_REGRESSION,
                        f"{node} was in term {int(term[at])} at {at_s(rows, at)}, although it had {did} term "
                        f"{int(term[known])} at {at_s(rows, known)}.",
                        int(index[known]),
                        int(index[at]),
                    )
                    continue
                if not lost:
                    found.gap(
                        f"{node} was in a lower term than it had {did}, but a fault hit it that declares no effects"
                    )
                led = newest = -1
            if rows.value(at).get("role") == "leader":
                led = at
            if life[at] >= 0 and (newest < 0 or term[at] > term[newest]):
                newest = at


def faults_between(rows: Rows, context: RunContext, one: int, other: int) -> list[Fault]:
    """Return the faults that were in force between two rows; all of them where clocks of nodes show other times."""
    begin, end = (int(rows.column("time_ns")[at]) for at in (one, other))
    every = rows.memo(faults)
    if not context.one_clock:
        return [*every]
    return [fault for fault in every if fault.began_ns <= end and fault.until_ns >= begin]
