"""Messages that are surely in their queue, and that no reader was given."""

from __future__ import annotations

import numpy as np

from chaos.findings import Findings
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts import later, losses
from checkers._facts.arrays import Flags, Ints, places_in, tops
from checkers.log.promise import LOST_WRITE, TORN, UNSEEN
from checkers.log.rows import Given, Sent, first_given
from checkers.log.visible import end_of, floors


def check(rows: Rows, context: RunContext, found: Findings) -> None:
    """Find acknowledged messages that no reader was given, though some came past them, or read their queue to its
    end."""
    sent = rows.memo(Sent.of)
    found.count("log_sends", int(sent.ok.sum()))
    found.count("log_reads", len(rows.memo(Given.of).at))
    _note_unread_queues(rows, found)
    missing = sent.only(sent.ok & (sent.offset >= 0) & (rows.memo(first_given)[sent.number] < 0))
    passed, ended = are_due(rows, missing.queue, missing.offset)
    due = passed | ended
    missing, passed, ended = missing.only(due), passed[due], ended[due]
    permits = losses.cuts(rows, context, confirmed=False)
    gone = permits.loosened(rows, missing.done)
    losses.note(found, rows, permits, missing.done[gone])
    for name, mine in ((LOST_WRITE, passed), (UNSEEN, ended), (TORN, ended & (missing.txn >= 0))):
        _report(rows, found, name, missing.only(mine & ~gone))


def are_due(rows: Rows, queue: Ints, offset: Ints) -> tuple[Flags, Flags]:
    """Return of which of these places readers came past, and which lie below the end that a final read has proven."""
    came = rows.memo(_came)
    owed = offset >= floors(rows, queue)
    passed, ended = (_below(known, queue, offset) & owed for known in (came, rows.memo(proven_ends)))
    return passed, ended


def _came(rows: Rows) -> tuple[Ints, Ints]:
    queue, highest = end_of(rows.memo(Given.of), rows.memo(facts.messages)[1])
    return queue, highest + 1


def proven_ends(rows: Rows) -> tuple[Ints, Ints]:
    """Return queues, ascending, and how far each was read after the run without leaving anything out."""
    drains = facts.calls(rows, "drain")
    return tops(rows.column("queue")[drains.invoke[drains.ok]], rows.column("offset")[drains.done[drains.ok]])


def _below(known: tuple[Ints, Ints], queue: Ints, offset: Ints) -> Flags:
    place, there = places_in(known[0], queue)
    return there & (offset < np.append(known[1], -1)[np.where(there, place, -1)])


def _note_unread_queues(rows: Rows, found: Findings) -> None:
    """Note queues of which it is unknown what readers would have been given of what was acknowledged."""
    sent = rows.memo(Sent.of)
    acked = sent.only(sent.ok)
    queues, highest = tops(acked.queue, acked.offset)
    for queue in queues[~_below(rows.memo(proven_ends), queues, highest)].tolist():
        found.gap(f"queue {queue} was not read to its end after the run, so what no reader was given of it is unknown")


def _report(rows: Rows, found: Findings, name: str, missing: Sent) -> None:
    index, given = rows.column("index"), rows.memo(Given.of)
    drains = facts.calls(rows, "drain")

    def report(place: int) -> None:
        queue, offset, done = (int(column[place]) for column in (missing.queue, missing.offset, missing.done))
        if name == LOST_WRITE:
            beyond = given.at[(given.queue == queue) & (given.offset >= offset)]
            why = (
                f"though offset {int(rows.column('offset')[beyond[0]])} was read at {facts.at_s(rows, int(beyond[0]))}"
            )
            witness = int(index[beyond[0]])
        else:
            proof = drains.done[drains.ok & (rows.column("queue")[drains.invoke] == queue)]
            why, witness = "though the queue was read to its end after the run", int(index[proof[-1]])
        of = f" in transaction {int(missing.txn[place])}, which was committed" if missing.txn[place] >= 0 else ""
        found.add(
            name,
            f"{later.name(rows, int(missing.invoke[place]))} was acknowledged at {facts.at_s(rows, done)} at offset "
            f"{offset} of queue {queue}{of}, but no reader was given it, {why}.",
            int(index[missing.invoke[place]]),
            int(index[done]),
            witness,
            queue=queue,
            offset=offset,
            message=int(rows.column("message")[missing.invoke[place]]),
        )

    numbers = np.arange(len(missing.invoke))
    acted_ns = facts.since_load_ns(rows, missing.done)
    found.add_each(name, numbers, report, queues=missing.queue, acted_ns=acted_ns)
