"""The order of messages, every pair of sends and every message of a pull by itself: the oracle of
``checkers/order.py``. It tells no story: explanations are the kernel's own."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from chaos.findings import Findings, decide
from chaos.kernel import Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers._facts import losses
from checkers.order import CONSUMER_REORDER, DELIVERED, OVER_FULL, PRODUCER_REORDER, PROMISE, REORDER, STORED
from tests.checkers.slow.plain import Call, Row, calls, read

#: What both kernels need that this is the oracle of.
BOTH = replace(STORED, rows=(*STORED.rows, *DELIVERED.rows), columns=(*STORED.columns, "hash"))


@dataclass(frozen=True, slots=True)
class Order:
    promise: Promise = PROMISE
    needs: Needs = BOTH

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        sends = [call for call in calls(rows, "send") if call.ok]
        found.count("acked", len(sends))
        if context.strict or not context.unfinished:
            every = losses.cuts(rows, context, confirmed=False).every
            _stand_as_acknowledged(rows, sends, [cut.epoch for cut in every], found)
        pulls, given = _given(rows)
        found.count("delivered", sum(map(len, given)))
        _one_behind_the_other(pulls, given, found)
        _no_more_than_asked_for(pulls, given, found)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        needs = [("acked", "no acknowledged send: there is no order to keep")]
        return decide(PROMISE, partial, needs=needs, unless=context.no_queues)


def _report(found: Findings, name: str, wrong: list[tuple[str, tuple[int, ...], int, int, int]]) -> None:
    """Each violation: its name, its rows, its queue, offset and message. ``name``: that of those not spelt out."""

    def tell(item: int) -> None:
        kind, rows, queue, offset, message = wrong[item]
        found.add(kind, "", *rows, queue=queue, offset=offset, message=message)

    found.add_each(name, np.arange(len(wrong)), tell, queues=np.array([one[2] for one in wrong], dtype=np.int64))


def _stand_as_acknowledged(rows: Rows, sends: list[Call], cuts: list[int], found: Findings) -> None:
    """Of two sends to a queue, the one that began after the other was acknowledged has the higher offset; unless a cut
    parts them, which begins with its epoch. Where it or they tell none, nothing is owed."""
    placed = [(call.begin, call.end) for call in sends if call.end is not None and call.end.offset >= 0]
    epochs = rows.column("epoch")
    placed = [pair for pair in placed if not cuts or min(*cuts, int(epochs[pair[1].at])) >= 0]

    def parted(earlier: Row, later: Row) -> bool:
        one, two = int(epochs[earlier.at]), int(epochs[later.at])
        return any(min(one, two) < cut <= max(one, two) for cut in cuts)

    by_end = sorted(placed, key=lambda pair: pair[1].at)
    wrong = []
    for begin, end in placed:
        before = [(asked, told) for asked, told in by_end if told.queue == end.queue and told.at < begin.at]
        before = [(asked, told) for asked, told in before if not parted(told, end)]
        found.count("ordered_pairs", bool(before))
        for asked, told in before:
            if told.offset >= end.offset:
                same = told.process.rpartition(".")[0] == end.process.rpartition(".")[0]
                witnesses = (asked.index, told.index, begin.index, end.index)
                wrong.append((PRODUCER_REORDER if same else REORDER, witnesses, end.queue, end.offset, end.message))
                break
    _report(found, REORDER, wrong)


def _given(rows: Rows) -> tuple[list[Call], list[list[tuple[int, int, int, int]]]]:
    """All pulls, and of each what it was given: index, queue, offset and message."""
    pulls, delivered = calls(rows, "pull"), read(rows, "delivered")
    given = [
        [(one.index, one.queue, one.offset, one.message) for one in delivered if one.op == call.begin.index]
        for call in pulls
    ]
    return pulls, given


def _one_behind_the_other(pulls: list[Call], given: list[list[tuple[int, int, int, int]]], found: Findings) -> None:
    """A pull begins where it was asked to, or where its answer says that the queue begins, if that lies above."""
    wrong = []
    for call, messages in zip(pulls, given, strict=True):
        asked = call.begin.offset
        minimum = call.end.number("minimum") if call.end is not None else -1
        allowed = {asked, max(asked, minimum)}
        for place, (index, queue, offset, message) in enumerate(messages):
            if offset not in allowed and not (place == 0 and asked < 0):
                wrong.append((CONSUMER_REORDER, (call.begin.index, index), queue, offset, message))
            allowed = {offset + 1}
    _report(found, CONSUMER_REORDER, wrong)


def _no_more_than_asked_for(pulls: list[Call], given: list[list[tuple[int, int, int, int]]], found: Findings) -> None:
    """A message that is larger than all that was asked for comes alone."""
    wrong, limited = [], 0
    for call, messages in zip(pulls, given, strict=True):
        begin, end = call.begin, call.end
        limit, most = begin.number("limit"), begin.number("max_bytes")
        limited += call.ok and max(limit, most) >= 0
        size = end.number("size") if call.ok and end is not None else -1
        if 0 <= limit < len(messages) or (0 <= most < size and len(messages) > 1):
            wrong.append((OVER_FULL, (begin.index, (end or begin).index), begin.queue, begin.offset, -1))
    found.count("limited_pulls", limited)
    _report(found, OVER_FULL, wrong)
