"""What was read, or counted, before anybody had asked to commit its transaction. A queue, or a group, shows what came
early; when that was asked for, rows say that neither has."""

from __future__ import annotations

import numpy as np

from chaos.findings import Facts, Findings
from chaos.law import Partial
from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts import later
from checkers._facts.arrays import Ints
from checkers._facts.packed import packed, unpacked
from checkers.log.asked import Asked
from checkers.log.promise import OFFSET_WITHOUT_OUTPUT, PRECOMMITTED_READ, PROMISE
from checkers.log.rows import Given, Sent

#: What is reported of a message: its transaction, the row that sent it, that by which a reader was given it, and when,
#: where it stands.
_COLUMNS = ("early", "message", "sent_in", "row", "since_ns", "queue", "offset")


def note(rows: Rows, found: Findings, sent: Sent, source: Ints, given: Given) -> None:
    """Report the first reads of messages, whose sends are at ``source`` by their numbers."""
    if not len(given.at):
        return
    index, mine = rows.column("index"), source[given.number]
    since_ns = facts.since_load_ns(rows, given.at)
    message = rows.column("message")[given.at]
    columns = (sent.txn[mine], message, index[sent.invoke[mine]], index[given.at], since_ns, given.queue, given.offset)
    found.fact(**packed(**dict(zip(_COLUMNS, columns, strict=True))))


def precommitted(reported: Facts) -> Partial:
    """Find those of them that came before anybody had asked to commit."""
    found = Findings(PROMISE)
    columns = unpacked(reported, *_COLUMNS)
    if len(columns[0]):
        txn, row = columns[0], columns[_COLUMNS.index("row")]
        wrong = np.flatnonzero(row < Asked.of_facts(reported).since(txn))
        wrong = wrong[np.argsort(row[wrong], kind="stable")]
        _report(found, dict(zip(_COLUMNS, columns, strict=True)), wrong)
    return found.partial()


def _report(found: Findings, known: dict[str, Ints], wrong: Ints) -> None:
    def report(place: int) -> None:
        one = {name: int(column[place]) for name, column in known.items()}
        found.add(
            PRECOMMITTED_READ,
            f"{later.named(one['message'])} was read at {facts.in_s(one['since_ns'])} at offset {one['offset']} of "
            f"queue {one['queue']}; it is of transaction {one['early']}, before anybody had asked to commit that.",
            one["sent_in"],
            one["row"],
            queue=one["queue"],
            offset=one["offset"],
            message=one["message"],
        )

    found.add_each(PRECOMMITTED_READ, wrong, report, queues=known["queue"][wrong], acted_ns=known["since_ns"][wrong])


def early_answers(reported: Facts) -> Partial:
    """Find answers to groups that came before anybody had asked to commit what explains them."""
    found = Findings(PROMISE)
    early = [fact for fact in reported if "early_answer" in fact]
    known = Asked.of_facts(reported if early else ())
    for fact in early:
        since = np.maximum(known.since(np.array(fact["txn"], dtype=np.int64)), fact["began"])
        if since.min() >= fact["early_answer"]:
            why = f"{fact['what']}, which was committed in transaction {fact['txn'][0]} alone, and that was not asked"
            found.add(
                OFFSET_WITHOUT_OUTPUT,
                f"{why} to commit.",
                fact["row"],
                fact["early_answer"],
                queue=fact["queue"],
                offset=fact["offset"],
            )
    return found.partial()
