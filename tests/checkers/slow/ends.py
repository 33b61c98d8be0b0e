"""How far one queue was known to go, and since when: as :mod:`checkers.progress.ends`, for oracles that go queue by
queue."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.shard_rows import Rows
from checkers._facts.arrays import NEVER, Flags, Ints
from checkers._facts.clients import calls, delivered, sends
from checkers._facts.masters import from_masters


@dataclass(frozen=True, slots=True)
class KnownEnds:
    """Ends of one queue that masters told, by the index at which a client knew them: ``end`` of a master of ``epoch``,
    by the row ``at``. ``strict``: what one master confirmed each later one has, and what is acknowledged is confirmed.
    Elsewhere an end binds the master alone that told it, and in that epoch."""

    strict: bool
    known: Ints
    end: Ints
    epoch: Ints
    at: Ints

    @classmethod
    def of(cls, rows: Rows, queue: int, *, strict: bool) -> KnownEnds:
        offset, index, where = rows.column("offset"), rows.column("index"), rows.column("queue")
        rows_of: list[Ints] = []
        ends: list[Ints] = []
        for f in ("pull", "bounds"):
            answers = calls(rows, f)
            done = answers.done[answers.ok]
            rows_of.append(done)
            ends.append(rows.numbers("maximum", done))
        read = rows.memo(delivered).at
        rows_of.append(read)
        ends.append(offset[read] + 1)
        if strict:
            made = rows.memo(sends)
            rows_of.append(made.done[made.ok])
            ends.append(offset[made.done[made.ok]] + 1)
        at, end = np.concatenate(rows_of), np.concatenate(ends)
        keep = (where[at] == queue) & (end > 0)
        at, end = at[keep], end[keep]
        keep = from_masters(rows, at)
        at, end = at[keep], end[keep]
        order = np.argsort(at, kind="stable")
        at, end = at[order], end[order]
        return cls(strict, index[at], end, rows.column("epoch")[at], at)

    def before(self, began: Ints, epoch: Ints) -> Ints:
        """For calls that began then and were answered by a master of that epoch: the highest end that binds it and was
        known before; 0 without one."""
        found = np.zeros(len(began), dtype=np.int64)
        for one in np.unique(epoch).tolist():
            binding = self._binding(one)
            mine = epoch == one
            found[mine] = self._highest(binding, began[mine])
        return found

    def beyond(self, began: Ints, asked: Ints, maximum: Ints) -> Flags:
        """Was there more than what these calls asked for? Where an end binds every later master: if any was known when
        the call began; else if its own answer said so (``maximum``)."""
        if not self.strict:
            return maximum > asked
        return self._highest(np.ones(len(self.known), dtype=np.bool_), began) > asked

    def witness(self, began: int, epoch: int, offset: int) -> int:
        """The row that told the highest binding end above this offset, the first of several."""
        told = np.flatnonzero(self._binding(epoch) & (self.end > offset) & (self.known < began))
        return int(self.at[told[np.argmax(self.end[told])]])

    def _binding(self, epoch: int) -> Flags:
        return self.epoch <= epoch if self.strict else self.epoch == epoch

    def _highest(self, binding: Flags, began: Ints) -> Ints:
        known, end = self.known[binding], self.end[binding]
        if not len(known):
            return np.zeros(len(began), dtype=np.int64)
        highest = np.maximum.accumulate(end)
        place = np.searchsorted(known, np.minimum(began, NEVER)) - 1
        return np.where(place >= 0, highest[np.maximum(place, 0)], 0)
