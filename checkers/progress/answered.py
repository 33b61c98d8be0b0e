"""How many reads were answered, and how many of those that were to be held."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.findings import decide
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers._facts import pulls as pulls_of
from checkers._facts import reads
from checkers._facts.reads import own
from checkers.progress.promise import ANSWERED, HELD, PROMISE
from checkers.progress.pulls import ask_masters

NEEDS = Needs(
    part="how many reads were answered",
    key=Key.CALL,
    rows=(own("op", "pull"), reads.RUN),
    columns=(*reads.BASIC, *reads.OPERATIONS),
    uses=(Use.QUEUES,),
)


@dataclass(frozen=True, slots=True)
class Answered:
    """Counts the answers: without one nothing shows whether readers come forward."""

    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        pulls = rows.memo(pulls_of)
        answered = (pulls.ok | pulls.failed) & ask_masters(rows, pulls)
        held = rows.numbers("wait_ms", pulls.invoke) > 0
        of_held = {HELD[0]: int(((pulls.ok | pulls.failed) & held).sum())} if held.any() else {}
        return Partial(counts={ANSWERED[0]: int(answered.sum()), **of_held})

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        """Where no read asked to be held, nothing is owed to any."""
        if HELD[0] in partial.counts:
            return decide(PROMISE, partial, needs=[ANSWERED, HELD], unless=context.no_queues)
        return decide(PROMISE, partial, needs=[ANSWERED], unless=context.no_queues)
