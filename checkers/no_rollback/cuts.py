"""A node's own log, as the node reports it: what takes away what it has called confirmed."""

from __future__ import annotations

import numpy as np

from chaos.findings import Findings
from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts.arrays import Flags, Ints
from checkers._facts.losses.permitted import Cuts

#: A name of the law about rollback.
CONFIRM_ROLLBACK = "confirm-rollback"


def never_cut_below(rows: Rows, found: Findings, node: str, masters: Flags, permits: Cuts | None = None) -> Log:
    """Check that a node never truncates, nor comes back from a crash, below what it has confirmed; and that as one and
    the same master (``masters``: which rows are confirms of one) it never takes back what it called confirmed. Returns
    its log.

    What ``permits`` separates from what was confirmed may be gone. Two things are allowed besides: a disk that is
    another one or went back in time (its word is new, or its own count of lives doesn't go on), and dropping the whole
    log to begin again from the tier, if the ``bootstrap`` follows before anything else is confirmed.
    """
    kinds = ("confirm", "retention", "truncate", "recovered", "start", "bootstrap")
    lived = facts.node_traces(rows, node, *kinds)
    confirms, trims = (rows.column("f")[lived] == rows.code("f", f) for f in kinds[:2])
    log = Log(rows, found, lived[confirms], lived[trims], masters, Cuts([]) if permits is None else permits)
    rare = ~confirms & ~trims
    before = (np.cumsum(flags)[rare].tolist() for flags in (confirms, trims))
    for at, confirmed, trimmed in zip(lived[rare].tolist(), *before, strict=True):
        log.follow(confirmed, trimmed)
        log.take(at)
    log.follow(int(confirms.sum()), int(trims.sum()))
    return log


def ends_with_all(rows: Rows, found: Findings, node: str, log: Log) -> None:
    """Check that after the run, too, a node's log does not end below what it had confirmed before nodes were asked: it
    may go on while it is read."""
    log.forget_since(facts.phase_index(rows, "collect"))
    for at in rows.where(kind="final", f="node", node=node).tolist():
        end = rows.value(at).get("end")
        if log.dropped < 0 and isinstance(end, int) and end < log.highest and not log.is_permitted(at):
            _report_cut(rows, found, log.witness, at, end)


class Log:
    """One node's log as the node reports it, followed through its life.

    ``highest`` is what it has confirmed and must keep, ``witness`` the row that says so. ``first`` is where the log
    begins, ``dropped`` the row that cut the whole of it, until it is known whether that was allowed; -1 for none.
    """

    def __init__(self, rows: Rows, found: Findings, confirms: Ints, trims: Ints, masters: Flags, permits: Cuts) -> None:
        self._rows = rows
        self._permits = permits
        self._found = found
        self._position = rows.column("position")
        self._confirms = confirms
        self._trims = trims
        self._goes_on = _one_term(rows, confirms, masters)
        self._confirmed = self._trimmed = self._since = 0
        self.highest = self.witness = self.dropped = -1
        self._first, self._generation, self._disk = 0, -1, ""

    def follow(self, confirmed: int, trimmed: int) -> None:
        """All that went well, up to these numbers of confirms and of trims."""
        begin, self._confirmed = self._confirmed, confirmed
        if begin < confirmed:
            if self.dropped >= 0:
                self._report(self.dropped)
                self.highest = self.dropped = -1
                self._since = begin
            self._confirm(slice(begin, confirmed))
        if self._trimmed < trimmed:
            self._trimmed, self._first = trimmed, int(self._position[self._trims[trimmed - 1]])

    def _confirm(self, which: slice) -> None:
        witnesses = np.append(self.witness, self._confirms[which])
        position = self._position[self._confirms[which]]
        highest = np.maximum.accumulate(np.append(self.highest, position))
        back = np.flatnonzero((position < highest[:-1]) & self._goes_on[which])

        def report(number: int) -> None:
            witness = witnesses[np.searchsorted(highest, highest[number])]
            _report_cut(self._rows, self._found, int(witness), int(witnesses[number + 1]), int(position[number]))

        self._found.add_each(CONFIRM_ROLLBACK, back, report)
        self.highest = int(highest[-1])
        self.witness = int(witnesses[np.searchsorted(highest, self.highest)])

    def forget_since(self, index: int) -> None:
        """Forget what was confirmed after the row of this ``index`` (-1: forget nothing)."""
        kept = self._confirms[self._since : self._confirmed]
        kept = kept[self._rows.column("index")[kept] < index]
        if 0 <= index <= self._rows.column("index")[self.witness] and self.highest >= 0:
            self.highest = int(self._position[kept].max(initial=-1))
            self.witness = int(kept[self._position[kept] == self.highest][0]) if len(kept) else -1

    def take(self, at: int) -> None:
        """Follow a row that may have taken something away."""
        before = self.highest
        self._take(at)
        if self.highest < before:
            self._since = self._confirmed

    def _take(self, at: int) -> None:
        f, where, value = self._rows.text("f", at), int(self._position[at]), self._rows.value(at)
        if f == "start":
            now, word = int(value.get("generation", self._generation + 1)), str(value.get("disk", ""))
            if now <= self._generation or word != self._disk:
                self.highest, self.dropped, self._first = -1, -1, 0
            self._generation, self._disk = now, word
        elif f == "bootstrap":
            self.highest, self.dropped, self._first = -1, -1, where
        elif where < self.highest and self.dropped < 0:
            if f == "truncate" and where <= self._first:
                self.dropped = at
            else:
                self._report(at)
                self.highest = -1
        if f == "recovered":
            self._first = int(value.get("first", self._first))

    def _report(self, at: int) -> None:
        if not self.is_permitted(at):
            _report_cut(self._rows, self._found, self.witness, at, int(self._position[at]))

    def is_permitted(self, at: int) -> bool:
        """Return whether the profile permits that what was confirmed is gone by this row."""
        rows, witness = self._rows, self.witness
        if rows.text("f", at) == "recovered":
            return self._permits.lost_in_crash(rows, rows.text("node", at), witness, at)
        return bool(self._permits.separate(rows, np.array([witness]), np.array([at]))[0])


def _one_term(rows: Rows, confirms: Ints, masters: Flags) -> Flags:
    """Return which of a node's confirms the same master reported, in the same life, as the one before."""
    known = masters[confirms]
    known[1:] &= known[:-1]
    for name in ("incarnation", "epoch"):
        column = rows.column(name)[confirms]
        known[1:] &= column[1:] == column[:-1]
    known[:1] = False
    return known


def _report_cut(rows: Rows, found: Findings, witness: int, at: int, end: int) -> None:
    """``witness`` is the row of the confirm offset that was lost, ``at`` the one that shows the loss."""
    verb = {
        "truncate": "cut its log back to position",
        "confirm": "called, as the same master, no more confirmed than position",
        "node": "has a log after the run that ends at position",
    }.get(rows.text("f", at), "came back with a log that ends at position")
    index = rows.column("index")
    found.add(
        CONFIRM_ROLLBACK,
        f"{rows.text('node', at)} had confirmed position {int(rows.column('position')[witness])} at "
        f"{facts.at_s(rows, witness)}, but {verb} {end} at {facts.at_s(rows, at)}.",
        int(index[witness]),
        int(index[at]),
    )
