"""One offset of a queue holds one message, in whatever log, answer or object it stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from chaos.driver import Evidence
from chaos.findings import Findings, decide
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import losses, reads
from checkers._facts.arrays import Ints, any_in, distinct, slots
from checkers._facts.claims import Claims
from checkers._facts.reads import own
from checkers.agreement.holes import no_holes
from checkers.agreement.promise import OFFSET_CONFLICT, PROMISE, REPLICA_DIVERGENCE
from checkers.agreement.records import describe

#: Of so many queues each reason names that nothing was compared.
SHOWN = 5

CONTENT = Needs(
    part="what stands at an offset",
    on_prefix=True,
    key=Key.OFFSET,
    rows=(
        own("op", "send", "delivered"),
        own("final", "tiered"),
        *losses.TERMS,
        *(*reads.FINAL_LOGS, *reads.CONFIRMED_APPENDS),
    ),
    columns=(*reads.BASIC, *reads.OPERATIONS, *reads.RECORDS, *reads.LIVES),
    evidence=(Evidence.OPERATIONS, Evidence.FINAL_LOGS),
    uses=(Use.QUEUES,),
)


@dataclass(frozen=True, slots=True)
class Content:
    """Records of queues."""

    promise: Promise = PROMISE
    needs: Needs = CONTENT

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        answers = facts.join(rows.memo(facts.acknowledged), rows.memo(facts.read))
        logs = facts.join(rows.memo(facts.confirmed_appends), rows.memo(facts.final_log))
        tiered = rows.memo(facts.tiered)
        found.count("answers", len(answers.at))
        found.count("log_records", len(logs.at))
        found.count("tiered_records", len(tiered.at))
        records = np.append(rows.where(kind="trace", f="append"), rows.where(kind="final", f="log"))
        found.count("records_told", int(np.count_nonzero(rows.column("queue")[records] >= 0)))
        if context.uses_queues:
            _compared(rows, found, answers, records)
        may_be_cut = context.unfinished and not context.strict
        logs = logs if not may_be_cut else rows.memo(facts.final_log)
        logs, diverged = losses.contradictions(rows, context, found, logs)
        self._report_all(rows, found, REPLICA_DIVERGENCE, logs, diverged)
        if context.unfinished:  # what logs and answers disagree about, logs may disagree about later
            return found.partial()
        claims, conflicts = losses.contradictions(rows, context, found, facts.join(answers, logs, tiered))
        queue = np.concatenate([logs.queue[diverged[:, 0]], claims.queue[conflicts[:, 0]]])
        offset = np.concatenate([logs.offset[diverged[:, 0]], claims.offset[conflicts[:, 0]]])
        place, count = slots(queue, offset)
        again = any_in(place[: len(diverged)], count)[place[len(diverged) :]]
        self._report_all(rows, found, OFFSET_CONFLICT, claims, conflicts[~again])
        at = rows.where(kind="final", f="log")
        no_holes(rows, found, at[rows.column("queue")[at] >= 0])
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        needs = [
            ("answers", "no answer reported what an offset holds"),
            ("records_told", "no replica reported what its log holds"),
        ]
        some = all(partial.counts.get(name, 0) for name, _ in needs)
        gaps = _not_compared(partial.facts, context) if some and not context.no_queues else ()
        return decide(PROMISE, partial.merge(Partial(gaps=gaps)), needs=needs, unless=context.no_queues)

    def _report_all(self, rows: Rows, found: Findings, name: str, claims: Claims, pairs: Ints) -> None:
        """Report each of the ``pairs``: numbers of the claims that contradict each other."""
        at = claims.at[pairs]
        found.add_each(
            name,
            np.arange(len(at)),
            lambda number: self._report(rows, found, name, *map(int, at[number])),
            queues=claims.queue[pairs[:, 0]],
            acted_ns=facts.since_load_ns(rows, at.max(axis=1, initial=0)),
        )

    def _report(self, rows: Rows, found: Findings, name: str, one: int, two: int) -> None:
        index, queue, offset = (rows.column(name) for name in ("index", "queue", "offset"))
        found.add(
            name,
            f"Queue {int(queue[one])}, offset {int(offset[one])} holds two messages: "
            f"{describe(rows, one)}, but {describe(rows, two)}.",
            int(index[one]),
            int(index[two]),
            queue=int(queue[one]),
            offset=int(offset[one]),
            message=int(rows.column("message")[one]),
        )


def _compared(rows: Rows, found: Findings, answers: Claims, records: Ints) -> None:
    """Note the queues of which an answer, a log, or both report what stands at one and the same offset."""
    logs = facts.claims_of(rows, records)
    both = any_in(logs.place, logs.count)[answers.place]
    of = {"answers": answers.queue, "logs": logs.queue, "both": answers.queue[both]}
    found.fact(**{name: distinct(queue).tolist() for name, queue in of.items()})


def _not_compared(reported: Sequence[Mapping[str, Any]], context: RunContext) -> list[str]:
    """Return a reason for each of the run's queues whose answers and logs were not compared: what answers of one queue
    say proves nothing of the logs of another one. Of others there are logs alone, which are compared."""
    answers, logs, both = ({*chain.from_iterable(fact[of] for fact in reported)} for of in ("answers", "logs", "both"))
    logs = {queue for queue in logs if facts.in_run(context, np.array([queue]))[0]}
    why = {
        "no replica reported what its log holds": answers - logs,
        "no answer reported what an offset holds": logs - answers,
        "no answer and no log reported the same offset": (answers & logs) - both,
    }
    return [f"{text} of queue {queue}" for text, queues in why.items() for queue in sorted(queues)[:SHOWN]]
