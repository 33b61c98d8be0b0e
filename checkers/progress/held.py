"""Where there are messages that readers must be given, and who was sent on past them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from chaos.findings import Facts, Findings, decide, joined
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import held
from checkers._facts.arrays import Ints
from checkers.progress.promise import ANSWERED, PROMISE, WRONG_NEXT_OFFSET
from checkers.progress.pulls import Pulls

NEEDS = Needs(
    part="where messages are",
    key=Key.OFFSET,
    rows=held.ROWS,
    columns=held.COLUMNS,
    uses=(Use.QUEUES,),
)
#: What is reported of a reader that was sent on: from which offset on nothing may be left out, and to which it was
#: sent; the offset that it had asked for, and the last one that it was given (-1: none); of the pull, begin and end.
_COLUMNS = ("queue", "due", "following", "asked", "last", "epoch", "began", "row", "since_ns")


@dataclass(frozen=True, slots=True)
class Held:
    """Each shard reports, as ranges, at which offsets there is, or was, a message."""

    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        held.note_held(rows, context, found)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        """Find nothing by itself. Where no workload uses queues, judge only what has some."""
        shown = any(fact.get("held") for fact in partial.facts)
        nothing = () if shown or not context.no_queues else (ANSWERED,)
        return decide(PROMISE, partial, needs=nothing, unless=context.no_queues)


def given(last: int) -> str:
    """Say what a pull brought, of which this offset was the last."""
    return f"gave offsets up to {last}" if last >= 0 else "gave nothing"


def note_sent_on(rows: Rows, found: Findings, pulls: Pulls, due: Ints) -> None:
    """Note pulls whose answers sent their readers further than to the offset that was ``due``."""
    if not len(pulls.queue):
        return
    index, since_ns = rows.column("index")[pulls.done], facts.since_load_ns(rows, pulls.done)
    values = (pulls.queue, due, pulls.following, pulls.asked, pulls.last, pulls.epoch, pulls.began, index, since_ns)
    nodes = [rows.text("node", at) for at in pulls.done.tolist()]
    found.fact(nodes=nodes, **{name: column.tolist() for name, column in zip(_COLUMNS, values, strict=True)})


def passed_over(reported: Facts) -> Partial:
    """Find in the facts of all shards the readers that were sent on past a message that is there. What is found holds
    without the other shards."""
    found = Findings(PROMISE)
    table = np.stack(joined((fact for fact in reported if "nodes" in fact), *_COLUMNS))
    nodes = [str(node) for fact in reported if "nodes" in fact for node in fact["nodes"]]
    order = np.argsort(table[_COLUMNS.index("began")])
    table, nodes = table[:, order], [nodes[place] for place in order.tolist()]
    there = held.first_held(reported, *table[:2])
    over = np.flatnonzero((there >= 0) & (there < table[_COLUMNS.index("following")]))

    def report_one(item: int) -> None:
        _report_passed_over(found, nodes[item], table[:, item], int(there[item]))

    found.add_each(
        WRONG_NEXT_OFFSET, over, report_one, queues=table[0][over], acted_ns=table[_COLUMNS.index("since_ns"), over]
    )
    return found.partial()


def _report_passed_over(found: Findings, node: str, values: np.ndarray[Any, Any], there: int) -> None:
    queue, _, following, asked, last, epoch, began, row, since_ns = values.tolist()
    found.add(
        WRONG_NEXT_OFFSET,
        f"Asked for offset {asked} of queue {queue}, {facts.who(node, epoch)} {given(last)} at "
        f"{facts.in_s(since_ns)} and said to go on with offset {following}, past offset {there}, which is there.",
        began,
        row,
        queue=queue,
        offset=following,
    )
