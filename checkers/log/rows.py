"""The rows of logs: what was sent, in which transactions, and what readers were given of each queue."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.kernel import Reads, Sieve
from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts.arrays import Flags, Ints, among, distinct, first_in
from checkers._facts.clients import rows_of
from checkers._facts.reads import everywhere, own


def open_or_first(rows: Rows) -> Ints:
    """Keep the transactions that were not acknowledged as committed, and the first one of each process, which says that
    it has some. A sieve."""
    calls = facts.calls(rows, "txn")
    process = rows.column("process")[calls.invoke]
    first = first_in(process, int(process.max(initial=-1)) + 1, np.arange(len(process)))
    return rows_of(rows, "txn", distinct(np.concatenate([np.flatnonzero(~calls.ok), first[first >= 0]])))


#: What every queue must know of transactions.
TRANSACTIONS = (
    Reads(
        kind="op",
        f=("txn",),
        everywhere=True,
        sieve=Sieve(rows=(own("op", "txn"),), columns=("op", "type", "process"), keep=open_or_first, streamed=True),
    ),
    everywhere("op", "take_over"),
)


@dataclass(frozen=True, slots=True)
class Sent:
    """Sends, in the order of their invocations. ``number``: of the message, as :func:`checkers._facts.messages` has it;
    ``offset``: where the answer says that it stands for readers (-1: nowhere, or unknown); ``stored``: where it was
    written in a transaction that is not known to be committed; ``again``: it and an attempt before it, of unknown
    outcome, store the message once between them, as its idempotent producer is promised."""

    invoke: Ints
    done: Ints
    ok: Flags
    failed: Flags
    queue: Ints
    number: Ints
    txn: Ints
    micro: Ints
    offset: Ints
    stored: Ints
    again: Flags

    @classmethod
    def of(cls, rows: Rows) -> Sent:
        """Return all that have a queue and a message."""
        calls = rows.memo(facts.sends)
        ended = calls.done >= 0
        offset, stored = np.full((2, len(calls.invoke)), -1, dtype=np.int64)
        offset[calls.ok] = rows.column("offset")[calls.done[calls.ok]]
        open_ = ended & ~calls.ok
        stored[open_] = rows.numbers("stored", calls.done[open_])
        again = np.zeros(len(calls.invoke), dtype=np.bool_)
        again[ended] = rows.numbers("again", calls.done[ended]) > 0
        made = cls(
            invoke=calls.invoke,
            done=calls.done,
            ok=calls.ok,
            failed=calls.failed,
            queue=rows.column("queue")[calls.invoke],
            number=rows.memo(facts.messages)[0][calls.invoke],
            txn=rows.numbers("txn", calls.invoke),
            micro=rows.numbers("micro", calls.invoke),
            offset=offset,
            stored=stored,
            again=again,
        )
        return made.only((made.queue >= 0) & (rows.column("message")[made.invoke] >= 0))

    def only(self, keep: Flags | Ints) -> Sent:
        """Return some of them."""
        if keep.dtype == np.bool_ and keep.all():
            return self
        return Sent(*(getattr(self, name)[keep] for name in self.__slots__))

    @property
    def unknown(self) -> Flags:
        """Which of them have no known outcome."""
        found: Flags = ~self.ok & ~self.failed
        return found


@dataclass(frozen=True, slots=True)
class Given:
    """Messages that readers were given by pulls and polls, in the order of the rows. ``unit``: what the messages of one
    read share, and those of all reads of one transaction; ``holds``: False where that transaction was not committed, so
    that its reader goes on where it stood before. ``is_poll``: read from a position of the reader's own."""

    at: Ints
    queue: Ints
    offset: Ints
    number: Ints
    op: Ints
    txn: Ints
    unit: Ints
    holds: Flags
    is_poll: Flags

    @classmethod
    def of(cls, rows: Rows) -> Given:
        """Return all that have a queue and an offset; not what a client library handed out in its own order."""
        op, queue, offset = (rows.column(name) for name in ("op", "queue", "offset"))
        at = rows.where(kind="op", f="delivered")
        at = at[((queue | offset)[at] >= 0) & ~among(op[at], facts.calls(rows, "receive").began)]
        txn = rows.numbers("txn", at)
        undone = facts.calls(rows, "txn")
        ended = distinct(rows.numbers("txn", undone.invoke[~undone.ok]))
        return cls(
            at=at,
            queue=queue[at],
            offset=offset[at],
            number=rows.memo(facts.messages)[0][at],
            op=op[at],
            txn=txn,
            unit=np.where(txn >= 0, -2 - txn, op[at]),
            holds=(txn < 0) | ~among(txn, ended),
            is_poll=~among(op[at], rows.memo(facts.pulls).began),
        )

    def only(self, keep: Flags | Ints) -> Given:
        """Return some of them."""
        if keep.dtype == np.bool_ and keep.all():
            return self
        return Given(*(getattr(self, name)[keep] for name in self.__slots__))


def first_given(rows: Rows) -> Ints:
    """Return for each number of a message the place of the first time that a reader was given it, in :class:`Given`; -1
    where none was."""
    given = rows.memo(Given.of)
    return first_in(given.number, rows.memo(facts.messages)[1], np.arange(len(given.at)))


def sends_of_each(rows: Rows) -> Ints:
    """Return how often each number of a message was sent."""
    return np.bincount(rows.memo(Sent.of).number, minlength=rows.memo(facts.messages)[1])
