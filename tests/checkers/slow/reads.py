"""What clients read, queue by queue and epoch by epoch: the oracle of the kernel in ``checkers/no_rollback.py``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from chaos.driver import Evidence
from chaos.findings import Findings, decide
from chaos.kernel import Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts.arrays import Flags, Ints
from checkers._facts.reads import RETENTION, own
from checkers.no_rollback.content import CONTENT
from checkers.no_rollback.promise import MAX_OFFSET_REGRESSION, PROMISE, ROLLBACK
from checkers.no_rollback.read import ANSWERS, READ, SHOWN
from tests.checkers.slow import retention
from tests.checkers.slow.claims import conflicts

#: What both kernels need that this is the oracle of.
BOTH = replace(READ, rows=(*READ.rows, own("op", "drain"), *RETENTION, *CONTENT.rows))


@dataclass(frozen=True, slots=True)
class Read:
    """Answers: content that was read stays, and a queue's end as masters tell it does not fall."""

    promise: Promise = PROMISE
    needs: Needs = BOTH

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        read = rows.memo(facts.read)
        found.count("read", len(read.at))
        assert context.strict  # what a weaker profile permits is compared in test_losses.py
        logs = facts.join(rows.memo(facts.confirmed_appends), rows.memo(facts.final_log))
        index, queue, offset = (rows.column(name) for name in ("index", "queue", "offset"))
        claims = facts.join(read, logs)
        for first, other in conflicts(claims):
            if first >= len(read.at):  # nobody has read what is at this offset
                continue
            one, two = int(claims.at[first]), int(claims.at[other])
            what = "was read there later" if other < len(read.at) else "stands there, confirmed, in a log"
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
        later = Findings(PROMISE)
        if Evidence.CONFIRM in context.evidence:
            _ends_do_not_fall(rows, later, of=ANSWERS, by=ANSWERS, slaves=True)
        else:  # an acknowledgement may come before readers see the message
            _ends_do_not_fall(rows, later, of=SHOWN, by=SHOWN)
            _ends_do_not_fall(rows, later, of=("send",), by=ANSWERS)
        _nothing_vanishes(rows, context, later)
        return found.partial().merge(later.partial())

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        needs = [("read", "nothing was read, so nothing could roll back")]
        return decide(PROMISE, partial, needs=needs, unless=context.no_queues)


def _nothing_vanishes(rows: Rows, context: RunContext, found: Findings) -> None:
    """What was read is there at the end, acknowledged or not, unless the queue begins above it by then: wherever the
    queue was drained beyond it, the drain was given a message at its offset."""
    read, final = rows.memo(facts.delivered), rows.memo(facts.drain_reads)
    queue, offset, index = (rows.column(name) for name in ("queue", "offset", "index"))
    drains = facts.calls(rows, "drain")
    for asked, done in zip(drains.invoke[drains.ok].tolist(), drains.done[drains.ok].tolist(), strict=True):
        mine = queue[read.at] == queue[asked]
        before, there = read.at[mine & ~final], read.at[mine & final]
        floor = max(int(offset[asked]), retention.lawful_floor(rows, context, int(queue[asked]))[0])
        before = before[(offset[before] >= floor) & (offset[before] < offset[done])]
        gone = before[~np.isin(offset[before], offset[there])]
        _, first = np.unique(offset[gone], return_index=True)

        def tell(at: int, done: int = done) -> None:
            found.add(
                ROLLBACK,
                f"Queue {int(queue[at])}, offset {int(offset[at])} was read at {facts.at_s(rows, at)} from "
                f"{rows.text('node', at) or 'the system'}; the final reading of the queue, up to offset "
                f"{int(offset[done])}, was given no message there.",
                int(index[at]),
                int(index[done]),
                queue=int(queue[at]),
                offset=int(offset[at]),
                message=int(rows.column("message")[at]),
            )

        once = gone[np.sort(first)]
        found.add_each(ROLLBACK, once, tell, queues=queue[once])


@dataclass(frozen=True, slots=True)
class _Ends:
    """What answers of masters tell of a queue's end: it was at least ``least`` when the answer came, and at most
    ``most`` at some time after the question left."""

    began: Ints
    ended: Ints
    epoch: Ints
    queue: Ints
    least: Ints
    most: Ints
    at: Ints
    judged: Flags


def _ends(rows: Rows, of: Sequence[str], by: Sequence[str], *, slaves: bool) -> _Ends:
    parts = []
    for f in by:
        found = facts.calls(rows, f)
        done = found.done[found.ok]
        master = facts.from_masters(rows, done)
        named = np.array(
            [rows.value(at).get("from", "") != "" for at in found.invoke[found.ok].tolist()], dtype=np.bool_
        )
        mine = master | (named & (rows.column("epoch")[done] >= 0)) if slaves else master
        done, began, ended = done[mine], found.began[found.ok][mine], found.ended[found.ok][mine]
        if f == "send":
            most = rows.column("offset")[done]
            least = most + 1
        else:
            least = most = rows.numbers("maximum", done)
        keep = most >= 0
        epoch, queue = rows.column("epoch")[done], rows.column("queue")[done]
        judged = master[mine] & (f in of)
        parts.append([column[keep] for column in (began, ended, epoch, queue, least, most, done, judged)])
    return _Ends(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _ends_do_not_fall(
    rows: Rows, found: Findings, *, of: Sequence[str], by: Sequence[str], slaves: bool = False
) -> None:
    """For each answer ``of`` these kinds: no answer ``by`` these, of an epoch up to its own, that was complete before
    it was asked tells a higher end."""
    ends = _ends(rows, of, by, slaves=slaves)
    found.count("ends", int(ends.judged.sum()))
    index, offset = rows.column("index"), rows.column("offset")
    for queue in np.unique(ends.queue):
        of_queue = np.flatnonzero(ends.queue == queue)
        by_end = of_queue[np.argsort(ends.ended[of_queue], kind="stable")]
        for epoch in np.unique(ends.epoch[of_queue]):
            before = by_end[ends.epoch[by_end] <= epoch]
            later = of_queue[ends.judged[of_queue] & (ends.epoch[of_queue] == epoch)]
            highest = np.maximum.accumulate(ends.least[before])
            place = np.searchsorted(ends.ended[before], ends.began[later]) - 1
            known = np.where(place >= 0, highest[np.maximum(place, 0)], -1)
            fallen = np.flatnonzero(ends.most[later] < known)

            def tell(number: int, later: Ints = later, before: Ints = before) -> None:
                answer = int(later[number])
                high = next(int(at) for at in before if ends.least[at] > ends.most[answer])
                one, two = int(ends.at[high]), int(ends.at[answer])
                what = (
                    f"gave out offset {int(offset[two])}"
                    if rows.text("f", two) == "send"
                    else f"said the queue ends at {int(ends.most[answer])}"
                )
                found.add(
                    MAX_OFFSET_REGRESSION,
                    f"{facts.who(rows.text('node', one), int(ends.epoch[high]))} had shown at {facts.at_s(rows, one)} "
                    f"that queue {int(ends.queue[answer])} ends at {int(ends.least[high])} or later, but "
                    f"{facts.who(rows.text('node', two), int(ends.epoch[answer]))} {what} at {facts.at_s(rows, two)}.",
                    int(index[one]),
                    int(ends.began[answer]),
                    int(index[two]),
                    queue=int(ends.queue[answer]),
                    offset=int(ends.most[answer]),
                )

            found.add_each(MAX_OFFSET_REGRESSION, fallen, tell, queues=np.full(len(fallen), queue))
