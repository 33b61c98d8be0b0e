"""Readers of committed messages are held up by a transaction only as long as that may be open."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.findings import Findings
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts.arrays import Ints
from checkers.log.promise import LSO_STALLED
from checkers.log.rows import Sent

#: By then a transaction that was left open is aborted: Kafka's usual timeout, and the interval in which it looks.
TIMEOUT_S = 70.0
#: So long after its end a transaction may still hold readers up.
GRACE_NS = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Over:
    """From when on a transaction had to be over, and the row that says so."""

    since_ns: int
    at: int
    why: str


def check(rows: Rows, context: RunContext, found: Findings) -> None:
    """Find final reads that the system kept sending to an offset that belongs to a transaction, though acknowledged
    messages stand behind it."""
    drains = facts.calls(rows, "drain")
    done = drains.done[drains.ok]
    end, offset = rows.numbers("maximum", done), rows.column("offset")[done]
    for at in done[(end >= 0) & (end < offset)].tolist():
        _held_up(rows, context, found, at, int(rows.numbers("maximum", np.array([at]))[0]))


def _held_up(rows: Rows, context: RunContext, found: Findings, drain: int, end: int) -> None:
    sent, queue, times = rows.memo(Sent.of), int(rows.column("queue")[drain]), rows.column("time_ns")
    mine = sent.only((sent.queue == queue) & (sent.txn >= 0))
    place = np.where(mine.offset >= 0, mine.offset, mine.stored)
    there = np.flatnonzero(place == end)
    suspects = there if len(there) else np.flatnonzero(mine.unknown & (place < 0))
    if not len(suspects):
        return
    for one in suspects.tolist():
        over = _over(rows, context, mine, one)
        if over is not None and times[drain] > over.since_ns + GRACE_NS:
            _report(rows, found, mine, one, over, drain, end)
            return
    found.gap(f"readers of queue {queue} were held up at offset {end}, by a transaction that may still be open")


def _over(rows: Rows, context: RunContext, sent: Sent, one: int) -> Over | None:
    """Return since when the transaction of a send had to be over, None where that is unknown."""
    times = rows.column("time_ns")
    if sent.ok[one] or sent.failed[one]:
        done = int(sent.done[one])
        return Over(int(times[done]), done, "was committed" if sent.ok[one] else "was aborted")
    txns = facts.calls(rows, "txn")
    mine = np.flatnonzero(rows.numbers("txn", txns.invoke) == sent.txn[one])
    if not len(mine):
        return None
    begun = int(txns.invoke[mine[0]])
    taken = _taken_over(rows, begun)
    if len(taken):
        return Over(int(times[taken[0]]), int(taken[0]), "was fenced by the next owner of its id")
    limit_ns = int(facts.bound(context, "transaction_s", TIMEOUT_S) * 1e9)
    return Over(int(times[begun]) + limit_ns, begun, "had to time out")


def _taken_over(rows: Rows, begun: int) -> Ints:
    """Return the rows by which the id of a transaction got another owner after that began."""
    calls = facts.calls(rows, "take_over")
    (id_,) = rows.words("id", np.array([begun]))
    after = calls.done[calls.ok & (calls.invoke > begun)]
    code, words = rows.labels("id", after)
    return np.sort(after[code == words.index(id_)]) if id_ and id_ in words else after[:0]


def _report(rows: Rows, found: Findings, sent: Sent, one: int, over: Over, drain: int, end: int) -> None:
    index, queue = rows.column("index"), int(sent.queue[one])
    found.add(
        LSO_STALLED,
        f"The final read of queue {queue} was held up at offset {end} until {facts.at_s(rows, drain)}, by transaction "
        f"{int(sent.txn[one])}, which {over.why} by {facts.in_s(over.since_ns - rows.memo(_began_ns))}; acknowledged "
        "messages stand behind it.",
        *(int(index[at]) for at in sorted({int(sent.invoke[one]), over.at, drain})),
        queue=queue,
        offset=end,
        message=int(rows.column("message")[sent.invoke[one]]),
        acted_ns=int(facts.since_load_ns(rows, np.array([drain]))[0]),
    )


def _began_ns(rows: Rows) -> int:
    return int(rows.column("time_ns")[0] - facts.since_load_ns(rows, np.array([0]))[0])
