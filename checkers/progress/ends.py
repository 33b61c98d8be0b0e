"""How far queues were known to go, and since when."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers._facts.arrays import Flags, Highest, Ints, slots, stable_order
from checkers._facts.clients import calls, delivered, sends
from checkers._facts.masters import from_masters


@dataclass(frozen=True, slots=True)
class KnownEnds:
    """Ends of queues that masters reported, by the index at which a client knew them: ``end`` of ``queue`` by a master
    of ``epoch``, in the row ``at``. ``strict``: what one master confirmed each later one has, and what is acknowledged
    is confirmed. Elsewhere an end binds only the master that reported it, and only in that epoch. ``gaps``: an end that
    an answer names need not have a message below it."""

    strict: bool
    gaps: bool
    known: Ints
    end: Ints
    queue: Ints
    epoch: Ints
    at: Ints

    @classmethod
    def of(cls, rows: Rows, context: RunContext, *, strict: bool) -> KnownEnds:
        at, end = told_ends(rows, *shown_by(context, sends_show=strict))
        keep = from_masters(rows, at)
        at, end = at[keep], end[keep]
        index, queue, epoch = (rows.column(name)[at] for name in ("index", "queue", "epoch"))
        return cls(strict, context.meta.has_gaps, index, end, queue, epoch, at)

    def before(self, queue: Ints, began: Ints, epoch: Ints) -> Ints:
        """For calls to these queues that began then and were answered by a master of that epoch: the highest end that
        binds it and was known before; 0 without one."""
        if not self.strict:
            return self._highest(np.ones(len(self.known), dtype=np.bool_), (queue, epoch), began)
        found = np.zeros(len(began), dtype=np.int64)
        for one in np.unique(epoch).tolist():
            mine = epoch == one
            found[mine] = self._highest(self.epoch <= one, (queue[mine],), began[mine])
        return found

    def beyond(self, queue: Ints, began: Ints, asked: Ints, maximum: Ints) -> Flags:
        """Was there more than what these calls asked for? Where an end binds every later master: if any was known when
        the call began; else if its own answer said so (``maximum``), as far as that says it."""
        if not self.strict:
            said: Flags = (maximum > asked) & (not self.gaps)
            return said
        return self._highest(np.ones(len(self.known), dtype=np.bool_), (queue,), began) > asked

    def witness(self, queue: int, began: int, epoch: int, offset: int) -> int:
        """Return the row that reported the highest binding end of the queue, which is above this offset: the first of
        several."""
        binding = self.epoch <= epoch if self.strict else self.epoch == epoch
        above = np.flatnonzero((self.queue == queue) & binding & (self.end > offset) & (self.known < began))
        return int(self.at[above[np.argmax(self.end[above])]])

    def _highest(self, binding: Flags, asked: tuple[Ints, ...], began: Ints) -> Ints:
        """Return the highest binding end with the same key (queue, or queue and epoch) that was known before."""
        known = self.known[binding]
        keys = [one[binding] for one in (self.queue, self.epoch)[: len(asked)]]
        together = [np.concatenate(pair) for pair in zip(keys, asked, strict=True)]
        slot, _ = (
            slots(*together) if len(together) > 1 else slots(np.zeros(len(together[0]), dtype=np.int64), *together)
        )
        span = max(int(known.max(initial=0)), int(began.max(initial=0))) + 1
        highest = Highest(slot[: len(known)], known, self.end[binding], span)
        return np.maximum(highest.before(slot[len(known) :], began), 0)


def shown_by(context: RunContext, *, sends_show: bool) -> tuple[bool, bool]:
    """Return whether an acknowledgement shows readers that there is a message, given that it does elsewhere, and
    whether a named ``maximum`` does. One in a transaction comes before its mark is in the queue, and nobody is given
    what stands behind a transaction that is open; and what is below a maximum may all be gaps."""
    return sends_show and not context.meta.has_transactions, not context.meta.has_gaps


def told_ends(rows: Rows, by_sends: bool, by_maximums: bool = True) -> tuple[Ints, Ints]:
    """Return the rows that reported an end of a queue, from any node, ascending, and which end: deliveries, and sends
    and what answers name as ``maximum`` where these count."""
    offset = rows.column("offset")
    rows_of: list[Ints] = []
    ends: list[Ints] = []
    for f in ("pull", "bounds") if by_maximums else ():
        answers = calls(rows, f)
        done = answers.done[answers.ok]
        rows_of.append(done)
        ends.append(rows.numbers("maximum", done))
    read = rows.memo(delivered).at
    rows_of.append(read)
    ends.append(offset[read] + 1)
    if by_sends:
        made = rows.memo(sends)
        rows_of.append(made.done[made.ok])
        ends.append(offset[made.done[made.ok]] + 1)
    at, end = np.concatenate(rows_of), np.concatenate(ends)
    known = np.flatnonzero(end > 0)
    known = known[stable_order(at[known])]
    return at[known], end[known]
