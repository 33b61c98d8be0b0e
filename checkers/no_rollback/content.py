"""An offset that was read holds the same message for ever."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from chaos.findings import Findings
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import losses, reads
from checkers._facts.reads import own
from checkers.no_rollback.promise import PROMISE, ROLLBACK, decided

CONTENT = Needs(
    part="what clients read",
    key=Key.OFFSET,
    rows=(own("op", "delivered"), *losses.TERMS, *(*reads.FINAL_LOGS, *reads.CONFIRMED_APPENDS)),
    columns=(*reads.BASIC, *reads.OPERATIONS, *reads.RECORDS, *reads.LIVES),
    uses=(Use.QUEUES,),
    on_prefix=True,
)


@dataclass(frozen=True, slots=True)
class Content:
    """Answers: what was read at an offset stays its content, in later reads, and in logs that are confirmed."""

    promise: Promise = PROMISE
    needs: Needs = CONTENT

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        read = rows.memo(facts.read)
        found.count("read", len(read.at))
        if context.unfinished and not context.strict:
            return found.partial()
        held = facts.join(rows.memo(facts.confirmed_appends), rows.memo(facts.final_log))
        index, queue, offset = (rows.column(name) for name in ("index", "queue", "offset"))
        claims, conflicts = losses.contradictions(rows, context, found, facts.join(read, held))
        is_read = rows.column("f")[claims.at] == rows.code("f", "delivered")
        conflicts = conflicts[is_read[conflicts[:, 0]]]  # of the others nobody has read what is at the offset

        def report(number: int) -> None:
            first, other = conflicts[number].tolist()
            one, two = int(claims.at[first]), int(claims.at[other])
            what = "was read there later" if is_read[other] else "stands there, confirmed, in a log"
            found.add(
                ROLLBACK,
                f"Queue {int(queue[one])}, offset {int(offset[one])} was read at {facts.at_s(rows, one)} from "
                f"{rows.text('node', one) or 'the system'}; another message {what}: "
                f"{facts.who(rows.text('node', two), int(rows.column('epoch')[two]))}.",
                int(index[one]),
                int(index[two]),
                queue=int(queue[one]),
                offset=int(offset[one]),
                message=int(rows.column("message")[one]),
            )

        acted_ns = facts.since_load_ns(rows, claims.at[conflicts[:, 1]])
        found.add_each(
            ROLLBACK, np.arange(len(conflicts)), report, queues=claims.queue[conflicts[:, 0]], acted_ns=acted_ns
        )
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        counts = {name: number for name, number in partial.counts.items() if name != "read"}  # the other kernel's
        return replace(decided(partial, context), counts=counts)
