"""Transactions of unknown outcome: one of whose messages anybody was given was committed, and so are all others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.findings import Facts, Findings, joined
from chaos.law import Partial, RunContext
from chaos.shard_rows import Rows
from checkers._facts import later, losses
from checkers._facts.arrays import Flags, Ints, among, distinct, first_in, slots
from checkers.log.missing import are_due
from checkers.log.promise import INCONSISTENT_OFFSETS, LOST_WRITE, PROMISE, TORN
from checkers.log.rows import Given, Sent, first_given, sends_of_each
from checkers.log.visible import Visible

#: What is reported of a message: its transaction, where it was written, the row that sent it, the row by which a reader
#: was given it, that of another message at its offset, whether readers came past, whether the final read did.
_COLUMNS = ("of", "message", "queue", "offset", "row", "seen", "other", "passed", "ended")


def note(rows: Rows, context: RunContext, found: Findings) -> None:
    """Report what transactions of unknown outcome have sent to these queues."""
    sent, given = rows.memo(Sent.of), rows.memo(Given.of)
    sent = sent.only(sent.unknown & (sent.txn >= 0))
    if not len(sent.invoke):
        return
    first = rows.memo(first_given)[sent.number]
    index = rows.column("index")
    passed, ended = are_due(rows, sent.queue, sent.stored)
    ended_at = np.where(sent.done >= 0, sent.done, sent.invoke)
    once = rows.memo(sends_of_each)[sent.number] == 1  # else it is unknown which of the sends stored it
    first = np.where(once, first, -1)
    owed = once & (sent.stored >= 0) & ~losses.cuts(rows, context, confirmed=False).loosened(rows, ended_at)
    seen = np.append(index[given.at], -1)[first]
    columns = (sent.txn, rows.column("message")[sent.invoke], sent.queue, sent.stored, index[sent.invoke], seen)
    other = np.where(owed & (first < 0), _others(rows, sent), -1)
    values = (*columns, other, passed & owed, ended & owed)
    found.fact(**{name: column.astype(np.int64).tolist() for name, column in zip(_COLUMNS, values, strict=True)})


def _others(rows: Rows, sent: Sent) -> Ints:
    """Return the row of what readers, or an answer, show at the offset of each of these; -1 where nothing is."""
    visible = rows.memo(Visible.of)
    slot, count = slots(np.append(visible.queue, sent.queue), np.append(visible.offset, np.maximum(sent.stored, 0)))
    table = first_in(slot[: len(visible.at)], count, rows.column("index")[visible.at])
    return table[slot[len(visible.at) :]]


@dataclass(frozen=True, slots=True)
class Known:
    """What all queues together know of messages in transactions of unknown outcome, by row of their sends. ``proof``:
    the first row by which a reader was given a message of the same transaction, -1 where none was."""

    of: Ints
    message: Ints
    queue: Ints
    offset: Ints
    row: Ints
    seen: Ints
    other: Ints
    passed: Ints
    ended: Ints
    proof: Ints

    @classmethod
    def of_facts(cls, reported: Facts) -> Known:
        """Join what shards report."""
        columns = joined(reported, *_COLUMNS)
        order = np.argsort(columns[_COLUMNS.index("row")], kind="stable")
        columns = [column[order] for column in columns]
        of, seen = columns[0], columns[_COLUMNS.index("seen")]
        txn, place = np.unique(of, return_inverse=True)
        proof = np.full(len(txn), np.iinfo(np.int64).max)
        np.minimum.at(proof, place[seen >= 0], seen[seen >= 0])
        proof[~among(txn, distinct(of[seen >= 0]))] = -1
        return cls(*[*columns, proof[place.reshape(-1)]])


def committed(reported: Facts) -> Partial:
    """Find what is wrong with messages of transactions that were committed, as a read of another message proves."""
    found, known = Findings(PROMISE), Known.of_facts(reported)
    missing = (known.proof >= 0) & (known.seen < 0)
    for name, wrong, why in (
        (INCONSISTENT_OFFSETS, missing & (known.other >= 0), "another message is at its offset"),
        (LOST_WRITE, missing & (known.passed > 0), "no reader was given it, though readers came past it"),
        (TORN, missing & (known.ended > 0), "no reader was given it, though its queue was read to its end"),
    ):
        _report(found, known, name, wrong, why)
    return found.partial()


def _report(found: Findings, known: Known, name: str, wrong: Flags, why: str) -> None:
    def report(place: int) -> None:
        rows = (known.row[place], known.proof[place], known.other[place])
        found.add(
            name,
            f"{later.named(int(known.message[place]))} was sent in transaction {int(known.of[place])} to queue "
            f"{int(known.queue[place])} and written at offset {int(known.offset[place])}. A reader was given another "
            f"message of that transaction, so it was committed; but {why}.",
            *sorted(int(row) for row in rows if row >= 0),
            queue=int(known.queue[place]),
            offset=int(known.offset[place]),
            message=int(known.message[place]),
        )

    found.add_each(name, np.flatnonzero(wrong), report, queues=known.queue[wrong])
