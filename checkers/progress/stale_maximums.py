"""Replicas say where a queue ends as it is, not as it was long before masters had shown that it goes further."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.driver import Evidence
from chaos.findings import Findings, decide
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import reads
from checkers._facts.arrays import NEVER, Highest
from checkers._facts.faults import were_calm
from checkers._facts.reads import everywhere, own
from checkers.progress.bounds import Answers, old_ns
from checkers.progress.promise import PROMISE, STALE_MAXIMUM

NEEDS = Needs(
    part="where queues end, as answered",
    key=Key.OFFSET,
    rows=(
        own("op", "send", "pull", "bounds"),
        reads.FIRST_ANSWERS,
        everywhere("trace", "role"),
        *(reads.RUN, reads.FAULTS),
    ),
    columns=(*reads.BASIC, *reads.OPERATIONS, "epoch"),
    uses=(Use.QUEUES,),
)


@dataclass(frozen=True, slots=True)
class StaleMaximums:
    """Each answer is judged by itself: by what masters had said for longer than the bound before it was asked for, in a
    time without faults."""

    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        if context.strict and not context.unfinished:  # which faults were in force is known when they are undone
            answers = Answers.of(rows)
            _end(rows, context, found, answers.only(answers.maximum >= 0))
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        """Whether any read was answered is another kernel's to say."""
        return decide(PROMISE, partial, needs=(), unless=context.no_queues)


def _end(rows: Rows, context: RunContext, found: Findings, answers: Answers) -> None:
    """Check that a replica that is asked for a queue's end names no less than a master had named long ago. What masters
    say is compared at once, by the law about rollbacks."""
    times, old, beside = rows.column("time_ns"), old_ns(context), rows.beside
    certain = answers.only(facts.ask_replica(rows, answers.asked) & ~facts.from_masters(rows, answers.done))
    if not len(certain.done):
        return
    by_masters = Answers.of(beside)
    by_masters = by_masters.only((by_masters.maximum >= 0) & facts.from_masters(beside, by_masters.done))
    done, end, queue = by_masters.done, by_masters.maximum, by_masters.queue
    if Evidence.CONFIRM in context.evidence:  # else readers may see a message later than it is acknowledged
        sends = facts.calls(beside, "send")
        acked = sends.done[sends.ok]
        acked = acked[facts.from_masters(beside, acked)]
        done, end = np.append(done, acked), np.append(end, rows.column("offset")[acked] + 1)
        queue = np.append(queue, rows.column("queue")[acked])
    by_ns = np.maximum(times[certain.asked] - old, 0)
    high = Highest(queue, times[done], end, NEVER >> 1)
    behind = np.flatnonzero(high.before(certain.queue, by_ns) > certain.maximum)
    behind = behind[were_calm(rows, by_ns[behind], times[certain.done[behind]])]

    def report_one(item: int) -> None:
        highest, places = high.records(int(certain.queue[item]))
        witness = int(done[places[np.searchsorted(highest, certain.maximum[item], side="right")]])
        at, index = int(certain.done[item]), rows.column("index")
        found.add(
            STALE_MAXIMUM,
            f"{rows.text('node', at)} said at {facts.at_s(rows, at)} that queue {int(certain.queue[item])} ends at "
            f"offset {int(certain.maximum[item])}, although {rows.text('node', witness)} had shown at "
            f"{facts.at_s(rows, witness)} that it goes further, more than {old / 1e9:g} s before, with no fault in the "
            "way.",
            int(index[witness]),
            int(index[certain.asked[item]]),
            int(index[at]),
            queue=int(certain.queue[item]),
            offset=int(certain.maximum[item]),
        )

    acted_ns = facts.since_load_ns(rows, certain.done[behind])
    found.add_each(STALE_MAXIMUM, behind, report_one, queues=certain.queue[behind], acted_ns=acted_ns)
