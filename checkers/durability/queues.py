"""Queues were read to their end after the run, and nobody says that more was removed than retention lets be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.findings import Findings
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import reads, retention
from checkers._facts.arrays import places_in
from checkers._facts.reads import everywhere, own
from checkers._facts.retention import EARLY_RETENTION
from checkers.durability.evidence import DRAINED, ENDS, Floors, Reached, decided
from checkers.durability.promise import PROMISE

NEEDS = Needs(
    part="how far queues were read",
    key=Key.OFFSET,
    rows=(
        own("op", "send", "delivered", "pull", "bounds"),
        own("trace", "append"),
        reads.RUN,
        *(*reads.REPLICAS, everywhere("final", "complete"), *ENDS),
    ),
    columns=(*reads.BASIC, *reads.OPERATIONS, *reads.RECORDS),
    uses=(Use.QUEUES,),
    lookups=(retention.TRIMMED,),
)


@dataclass(frozen=True, slots=True)
class Queues:
    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found, of_all = Findings(PROMISE), Findings(PROMISE)
        end = rows.beside.memo(Reached.of)
        end.note(found)
        found.fact(queues=end.drains.queue.tolist())
        judged = end.judged(rows, context)
        if context.uses_queues:
            _not_drained(end, of_all)
        if judged.any():
            floors = end.floors(rows.beside, context, judged)
            _unexplained(end, floors, of_all)
            _denied(rows, found, end, floors)
        return found.partial().merge(of_all.partial())

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        drained = {queue for fact in partial.facts for queue in fact.get("queues", ())}
        return decided(partial.merge(Partial(counts={"drained_queues": len(drained)})), context, DRAINED)


def _not_drained(end: Reached, found: Findings) -> None:
    for place in np.flatnonzero(~end.proven).tolist():
        queue, needed = int(end.queues[place]), int(end.needed[place])
        reached = f"reached offset {int(end.reached[place])} of {needed}"
        what = reached if end.drains.row_of(queue) >= 0 else "is missing"
        found.gap(f"queue {queue} was not read to its end after the run: the drain {what}")


def _unexplained(end: Reached, floors: Floors, found: Findings) -> None:
    for place in np.flatnonzero(floors.unexplained).tolist():
        found.gap(
            f"queue {int(end.queues[place])} begins at offset {int(end.begin[place])}, and nothing shows whether "
            "retention was allowed to remove what is below"
        )


def _denied(rows: Rows, found: Findings, end: Reached, floors: Floors) -> None:
    """Check that no replica says to a client that a queue begins above what retention was allowed to remove: the client
    would pass over what is there."""
    index, queue = rows.column("index"), rows.column("queue")
    floor, known = floors.floor, floors.known

    def report_one(at: int) -> None:
        minimum, above = int(rows.value(at).get("minimum", -1)), int(floor[np.searchsorted(end.queues, queue[at])])
        found.add(
            EARLY_RETENTION,
            f"{rows.text('node', at) or 'The system'} said at {facts.at_s(rows, at)} that queue {int(queue[at])} "
            f"begins at offset {minimum}, but retention was allowed to remove only what is below offset {above}.",
            int(index[at]),
            queue=int(queue[at]),
            offset=above,
        )

    for f in ("pull", "bounds"):
        calls = facts.calls(rows, f)
        done = calls.done[calls.ok]
        minimum = rows.numbers("minimum", done)
        place, mine = places_in(end.queues, queue[done])
        mine &= known[place] & (minimum > floor[place])
        found.add_each(EARLY_RETENTION, done[mine], report_one, queues=queue[done[mine]])
