"""What surely stands in each queue for readers: the order of versions that reads and sends are held against."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts import losses
from checkers._facts.arrays import Flags, Ints, Line, any_in, groups, tops
from checkers.log.rows import Given, Sent


@dataclass(frozen=True, slots=True)
class Visible:
    """Offsets at which a committed message stands, by queue and offset, each once. ``at``: the last row that shows it;
    ``only_sent``: no reader was given it."""

    at: Ints
    queue: Ints
    offset: Ints
    only_sent: Flags

    @classmethod
    def of(cls, rows: Rows) -> Visible:
        """Return what acknowledged sends and readers show, but for what is below the queue's beginning as any answer
        names it, and for messages that are not to be there."""
        sent, given = rows.memo(Sent.of), rows.memo(Given.of)
        acked = sent.only(sent.ok & (sent.offset >= 0))
        read = given.only(~are_refused(rows, given))
        at = np.concatenate([acked.done, read.at])
        queue, offset = np.append(acked.queue, read.queue), np.append(acked.offset, read.offset)
        is_read = np.append(np.zeros(len(acked.done), np.bool_), np.ones(len(read.at), np.bool_))
        keep = offset >= floors(rows, queue)
        at, queue, offset, is_read = at[keep], queue[keep], offset[keep], is_read[keep]
        order, starts = groups(queue, offset)
        if not len(order):
            return cls(at, queue, offset, ~is_read)
        first = order[starts]
        shown = np.maximum.reduceat(at[order], starts)
        return cls(shown, queue[first], offset[first], ~np.logical_or.reduceat(is_read[order], starts))

    def only(self, keep: Flags) -> Visible:
        """Return some of them."""
        if keep.all():
            return self
        return Visible(self.at[keep], self.queue[keep], self.offset[keep], self.only_sent[keep])

    def between(self, queue: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        """Return how many of these stand at offsets of a queue from ``low`` on and below ``high``, and the place of the
        first one, which says nothing where there is none."""
        line = Line.of(self.offset, low, high)
        known = line.places(self.queue, self.offset)
        begin, end = (np.searchsorted(known, line.places(queue, bound)) for bound in (low, high))
        return np.maximum(end - begin, 0), begin


def floors(rows: Rows, queue: Ints) -> Ints:
    """Return for each of these queues the highest beginning that any answer named: what lies below is not owed here."""
    named = [np.empty((2, 0), dtype=np.int64)]
    for f in ("pull", "bounds"):
        calls = facts.calls(rows, f)
        done = calls.done[calls.done >= 0]
        named.append(np.stack([rows.column("queue")[done], rows.numbers("minimum", done)]))
    known, highest = tops(*np.concatenate(named, axis=1))
    table = np.zeros(int(max(queue.max(initial=-1), known.max(initial=-1))) + 2, dtype=np.int64)
    table[known[known >= 0]] = np.maximum(highest[known >= 0], 0)
    found: Ints = table[queue]
    return found


def are_refused(rows: Rows, given: Given) -> Flags:
    """Return which messages were sent, and every send of them surely failed or was aborted."""
    sent = rows.memo(Sent.of)
    count = rows.memo(facts.messages)[1]
    refused: Flags = (any_in(sent.number, count) & ~any_in(sent.number[~sent.failed], count))[given.number]
    return refused


def held(rows: Rows, context: RunContext, later: Ints) -> Iterator[tuple[Flags, Visible]]:
    """Yield which of these rows, and what they must know of the queues: all that stands there, but for what a weakness
    of the profile may have taken away by then. All of the rows, in parts."""
    visible = rows.memo(Visible.of)
    permits = losses.cuts(rows, context, confirmed=False)
    for mine, binding in permits.stretches(rows, later, visible.at, visible.only_sent):
        yield mine, visible.only(binding)


def end_of(given: Given, count: int) -> tuple[Ints, Ints]:
    """Return queues, ascending, and of each how far readers surely came: the highest offset of a message at the lowest
    one at which it was given."""
    lowest = np.full(count, np.iinfo(np.int64).max, dtype=np.int64)
    np.minimum.at(lowest, given.number, given.offset)
    return tops(given.queue, lowest[given.number])
