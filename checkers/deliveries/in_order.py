"""A group that reads in order is given no offset before the one below it."""

from __future__ import annotations

from collections.abc import Sequence
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
from checkers._facts import reads
from checkers._facts.arrays import Ints, first_in, groups, slots
from checkers._facts.reads import callers, own
from checkers.deliveries.groups import Groups
from checkers.deliveries.promise import OUT_OF_ORDER, PROMISE, no_deliveries

NEEDS = Needs(
    part="what orderly groups were given in order",
    key=Key.OFFSET,
    rows=(own("op", "delivered"), callers("receive"), reads.RUN),
    columns=(*reads.BASIC, *reads.OPERATIONS, "message"),
    uses=(Use.DELIVERIES,),
)
#: What is reported of an offset that came before the one below it, as far as the shard knows: when, and when that one
#: came (-1: not in this shard); and which that is.
_EARLY = ("early", "row", "message", "since_ns", "below", "below_ns", "beneath")
#: What is reported of all that a group was given of a queue: the lowest offset and the highest one, when that came
#: first, and the first row of all.
_RANGE = ("low", "top", "top_row", "top_ns", "first")


@dataclass(frozen=True, slots=True)
class InOrder:
    """Each shard reports which offsets came before all from the one below on. It knows of all offsets up to some lowest
    one, so mostly that is the lowest one alone."""

    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        if not no_deliveries(context):
            _note_early(rows, found, gaps=context.meta.has_gaps)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        """Where a shard was not examined, an offset below may have come in time."""
        found = None if partial.gaps else out_of_order(partial.facts, gaps=context.meta.has_gaps)
        merged = partial.merge(found) if found else partial
        needs = [("orderly", "")] if no_deliveries(context) else []
        return decide(PROMISE, merged, needs=needs, unless=no_deliveries(context))


def _note_early(rows: Rows, found: Findings, *, gaps: bool) -> None:
    given = Groups.of(rows, again=False)
    at, code = given.at[given.in_order], given.group[given.in_order]
    queue, offset, index = (rows.column(name)[at] for name in ("queue", "offset", "index"))
    found.count("in_order", len(at))
    order, firsts = groups(code, queue)
    beneath = offset - 1
    for mine in np.split(order, firsts[1:]) if gaps and len(order) else ():
        beneath[mine] = _beneath(offset[mine])
    slot, count = slots(np.append(queue, queue), np.append(offset, beneath))
    for mine in np.split(order, firsts[1:]) if len(order) else ():
        first = first_in(slot[mine], count, mine)
        highest = np.maximum.accumulate(offset[mine])
        known = np.append(np.iinfo(np.int64).min + 1, highest[:-1])
        early = mine[beneath[mine] > known]
        below = first[slot[len(at) :][early]]
        since_ns = facts.since_load_ns(rows, at)
        top = int(mine[np.argmax(offset[mine])])
        columns = {
            "early": offset[early],
            "row": index[early],
            "message": rows.column("message")[at[early]],
            "since_ns": since_ns[early],
            "below": np.where(below >= 0, index[below], -1),
            "below_ns": since_ns[below],
            "beneath": beneath[early],
        }
        found.fact(
            group=given.names[int(code[mine[0]])],
            queue=int(queue[mine[0]]),
            low=int(offset[mine].min()),
            top=int(offset[top]),
            top_row=int(index[top]),
            top_ns=int(since_ns[top]),
            first=int(index[mine[0]]),
            **{name: column.tolist() for name, column in columns.items()},
        )


def _beneath(offset: Ints) -> Ints:
    """Return of each offset the next lower one among these; of the lowest one the number below it."""
    distinct_offsets = np.unique(offset)
    lower: Ints = np.append(distinct_offsets[:1] - 1, distinct_offsets)[np.searchsorted(distinct_offsets, offset)]
    return lower


def out_of_order(reported: Facts, *, gaps: bool = False) -> Partial:
    """Find offsets that came too early in the facts of all shards. A group that is given messages again may begin at a
    lower offset; but no offset is ever passed over. Where offsets have ``gaps``, the one below is the next lower one
    that the group was given at any time."""
    found = Findings(PROMISE)
    shards: dict[tuple[str, int], list[Any]] = {}
    for fact in reported:
        shards.setdefault((str(fact["group"]), int(fact["queue"])), []).append(fact)
    for (group, queue), mine in sorted(shards.items()):
        _find(found, group, queue, mine, gaps=gaps)
    return found.partial()


def _find(found: Findings, group: str, queue: int, shards: Sequence[Any], *, gaps: bool) -> None:
    low, top, top_row, top_ns, first = (np.array([shard[name] for shard in shards], np.int64) for name in _RANGE)
    early = np.stack(joined(shards, *_EARLY))
    early = early[:, np.argsort(early[1])]
    wrong = []
    for item, (offset, row, *_, below, _, due) in enumerate(early.T.tolist()):
        if gaps and below < 0:  # of the lowest offset of a shard, which alone does not know the one below it
            due = early[-1, item] = top[top < offset].max(initial=-1)
        at_top = top == due
        in_time = ((low >= due) & (first < row)) | (at_top & (top_row < row))
        if row > first.min() and not in_time.any() and due >= 0:
            wrong.append(item)
        if below < 0 and at_top.any():
            where = int(np.argmax(at_top))
            early[4:6, item] = top_row[where], top_ns[where]

    def report_one(item: int) -> None:
        offset, row, message, since_ns, below, below_ns, due = early[:, item].tolist()
        found.add(
            OUT_OF_ORDER,
            f"Group {group}, which reads in order, was given offset {offset} of queue {queue} at "
            f"{facts.in_s(since_ns)}, but neither offset {due}, which "
            + (f"came at {facts.in_s(below_ns)}" if below >= 0 else "never came")
            + ", nor any above it before.",
            row,
            below,
            queue=queue,
            offset=offset,
            message=message,
        )

    at = np.array(wrong, dtype=np.int64)
    found.add_each(OUT_OF_ORDER, at, report_one, queues=np.full(len(at), queue), acted_ns=early[3, at])
