"""The order of messages, queue by queue: the oracle of the kernel in ``checkers/order.py``."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from chaos.judging.findings import Findings, decide
from chaos.law import Needs, Partial, Promise, Rows, RunContext
from chaos.verdict import Verdict
from checkers import _views as views
from checkers._views import losses
from checkers._views.arrays import Ints
from checkers.order import (
    CONSUMER_REORDER,
    DELIVERED,
    OVER_FULL,
    PRODUCER_REORDER,
    PROMISE,
    REORDER,
    STORED,
)

#: What both kernels need that this is the oracle of.
BOTH = replace(STORED, rows=(*STORED.rows, *DELIVERED.rows))


@dataclass(frozen=True, slots=True)
class Order:
    promise: Promise = PROMISE
    needs: Needs = BOTH

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        found.count("acked", int(rows.memo(views.sends).ok.sum()))
        if losses.keeps(rows, context, confirmed=False):
            _sends(rows, found)
        _pulls(rows, found)
        _limits(rows, found)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        needs = [("acked", "no acknowledged send: there is no order to keep")]
        return decide(PROMISE, partial, needs=needs, unless=context.no_queues)


def _sends(rows: Rows, found: Findings) -> None:
    """a.ok before b.invoke on one queue means offset(a) < offset(b); for one producer this is its own order."""
    sends = rows.memo(views.sends)
    done, began, ended = sends.done[sends.ok], sends.began[sends.ok], sends.ended[sends.ok]
    offset, queue, index = rows.column("offset")[done], rows.column("queue")[done], rows.column("index")
    for number in np.unique(queue[offset >= 0]):
        mine = np.flatnonzero((queue == number) & (offset >= 0))
        by_end = mine[np.argsort(ended[mine])]
        highest = np.maximum.accumulate(offset[by_end])
        place = np.searchsorted(ended[by_end], began[mine]) - 1
        before = np.where(place >= 0, highest[np.maximum(place, 0)], -1)
        wrong = np.flatnonzero(offset[mine] <= before)
        found.count("ordered_pairs", int((place >= 0).sum()))

        def tell(item: int, mine: Ints = mine, by_end: Ints = by_end) -> None:
            later = int(mine[item])
            earlier = next(int(at) for at in by_end if offset[at] >= offset[later])
            one, two = int(done[earlier]), int(done[later])
            producers = [rows.text("process", at).rpartition(".")[0] for at in (one, two)]
            same = producers[0] == producers[1]
            found.add(
                PRODUCER_REORDER if same else REORDER,
                f"The send acknowledged at {views.at_s(rows, one)} got offset {int(offset[earlier])} of queue "
                f"{int(queue[later])}; {'the same producer' if same else 'another one'} sent afterwards, acknowledged "
                f"at {views.at_s(rows, two)}, and got offset {int(offset[later])}.",
                int(began[earlier]),
                int(index[one]),
                int(began[later]),
                int(index[two]),
                queue=int(queue[later]),
                offset=int(offset[later]),
                message=int(rows.column("message")[two]),
            )

        found.add_each(REORDER, wrong, tell, queues=np.full(len(wrong), number))


def _pulls(rows: Rows, found: Findings) -> None:
    """One pull delivers offsets without a step back or a jump, from the one asked for on (or from the queue's
    beginning, if that lies above; it may have risen since the records were read, so that both are lawful)."""
    read, pulls = rows.memo(views.delivered), rows.memo(views.pulls)
    at, pull = read.at[read.pull >= 0], read.pull[read.pull >= 0]
    order = np.argsort(pull, kind="stable")
    at, pull = at[order], pull[order]
    offset, index = rows.column("offset"), rows.column("index")
    found.count("delivered", len(at))
    first = np.ones(len(at), dtype=np.bool_)
    first[1:] = pull[1:] != pull[:-1]
    asked = offset[pulls.invoke[pull]]
    done = pulls.done[pull]
    minimum = np.full(len(at), -1, dtype=np.int64)
    minimum[first & (done >= 0)] = rows.numbers("minimum", done[first & (done >= 0)])
    expected = np.where(first, np.maximum(asked, minimum), np.roll(offset[at], 1) + 1)
    wrong = np.flatnonzero((offset[at] != expected) & ~(first & ((asked < 0) | (offset[at] == asked))))

    def tell(item: int) -> None:
        row = int(at[item])
        found.add(
            CONSUMER_REORDER,
            f"A pull of queue {int(rows.column('queue')[row])} from offset {int(asked[item])} on, answered by "
            f"{rows.text('node', row) or 'the system'} at {views.at_s(rows, row)}, delivered offset "
            f"{int(offset[row])} where {int(expected[item])} was due.",
            int(index[pulls.invoke[pull[item]]]),
            int(index[row]),
            queue=int(rows.column("queue")[row]),
            offset=int(offset[row]),
            message=int(rows.column("message")[row]),
        )

    found.add_each(CONSUMER_REORDER, wrong, tell, queues=rows.column("queue")[at[wrong]])


def _limits(rows: Rows, found: Findings) -> None:
    """One pull delivers as many messages, and bytes, as it asked for at most; but a message that is larger than that
    comes alone. Pulls that asked for no limit, and answers whose size nobody counted, are not judged by it."""
    read, pulls = rows.memo(views.delivered), rows.memo(views.pulls)
    count = np.bincount(read.pull[read.pull >= 0], minlength=len(pulls.invoke))
    limit, max_bytes = rows.numbers("limit", pulls.invoke), rows.numbers("max_bytes", pulls.invoke)
    size = np.full(len(pulls.invoke), -1, dtype=np.int64)
    size[pulls.ok] = rows.numbers("size", pulls.done[pulls.ok])
    many = (limit >= 0) & (count > limit)
    large = (max_bytes >= 0) & (size > max_bytes) & (count > 1)
    found.count("limited_pulls", int((pulls.ok & ((limit >= 0) | (max_bytes >= 0))).sum()))

    def tell(item: int) -> None:
        asked, done = int(pulls.invoke[item]), int(pulls.done[item])
        told = done if done >= 0 else asked
        what, most = ("messages", limit) if many[item] else ("bytes", max_bytes)
        got = count if many[item] else size
        found.add(
            OVER_FULL,
            f"A pull of queue {int(rows.column('queue')[asked])} from offset {int(rows.column('offset')[asked])} on "
            f"asked for {int(most[item])} {what} at most; {rows.text('node', told) or 'the system'} gave "
            f"{int(got[item])} at {views.at_s(rows, told)}.",
            int(rows.column("index")[asked]),
            int(rows.column("index")[told]),
            queue=int(rows.column("queue")[asked]),
            offset=int(rows.column("offset")[asked]),
        )

    found.add_each(
        OVER_FULL, np.flatnonzero(many | large), tell, queues=rows.column("queue")[pulls.invoke[many | large]]
    )
