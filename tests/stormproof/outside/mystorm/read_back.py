"""What was acknowledged is read back unchanged."""

from __future__ import annotations

import numpy as np

from chaos.api import AnomalyKind, Findings, Key, Law, NoOptions, OpType, Partial, Promise, Rows, Verdict, decide
from chaos.operations import Delivered, Drain, Send

PROMISE = Promise(
    name="read-back",
    meaning="What was acknowledged is read back.",
    anomalies=(
        AnomalyKind(
            name="not-read-back",
            meaning="no consumer read the message",
            headline=("A message was not read back", "{n} messages were not read back"),
        ),
    ),
)


class ReadBack(Law):
    promise = PROMISE
    key = Key.QUEUE
    reads = (Send.index, Send.type, Send.queue, Send.message, Delivered.message, Drain.type, Drain.queue)

    def examine(self, rows: Rows) -> Partial:
        found = Findings(PROMISE)
        acked = rows.of(Send, {Send.type: OpType.OK})
        drained = rows.values(Drain.queue, rows.of(Drain, {Drain.type: OpType.OK}))
        is_drained = np.isin(rows.values(Send.queue, acked), drained)
        is_read = np.isin(rows.values(Send.message, acked), rows.values(Delivered.message, rows.of(Delivered)))
        lost = acked[is_drained & ~is_read]
        found.count("toy_acked", len(acked))
        columns = [rows.values(field, lost) for field in (Send.index, Send.queue, Send.message)]
        for index, queue, message in zip(*columns, strict=True):
            found.add("not-read-back", f"no consumer read message {message}", index, queue=queue, message=message)
        if not is_drained.all():
            found.gap("a queue was not read to its end after the run")
        return found.partial()

    def judge(self, partial: Partial) -> Verdict:
        return decide(PROMISE, partial, needs=[("toy_acked", "no send was acknowledged")])


def create(options: NoOptions) -> ReadBack:
    return ReadBack()
