"""Each offset holds one message, each message stands once, and what is aborted or open is not read."""

from __future__ import annotations

import numpy as np

from chaos.findings import Findings
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts import later, losses
from checkers._facts.arrays import NEVER, Ints, any_in, first_in, groups
from checkers.log import early
from checkers.log.promise import DUPLICATE, G1A, INCONSISTENT_OFFSETS, PRECOMMITTED_READ, RESURRECTED
from checkers.log.rows import Given, Sent, sends_of_each
from checkers.log.visible import are_refused


def check(rows: Rows, context: RunContext, found: Findings) -> None:
    """Find what contradicts itself, and what should not be there."""
    _one_message_at_an_offset(rows, context, found)
    _one_offset_of_a_message(rows, found)
    _aborted(rows, found)
    _precommitted(rows, found)


def _one_message_at_an_offset(rows: Rows, context: RunContext, found: Findings) -> None:
    read = facts.claims_of(rows, rows.memo(Given.of).at)
    claims, pairs = losses.contradictions(rows, context, found, facts.join(rows.memo(facts.acknowledged), read))
    index, message = rows.column("index"), rows.column("message")

    def report(number: int) -> None:
        one, two = (int(at) for at in claims.at[pairs[number]])
        queue, offset = int(claims.queue[pairs[number, 0]]), int(claims.offset[pairs[number, 0]])
        found.add(
            INCONSISTENT_OFFSETS,
            f"Offset {offset} of queue {queue} holds two messages: {later.name(rows, one)} ({_how(rows, one)}) and "
            f"{later.name(rows, two)} ({_how(rows, two)}).",
            int(index[one]),
            int(index[two]),
            queue=queue,
            offset=offset,
            message=int(message[one]),
        )

    numbers = np.arange(len(pairs))
    acted_ns = facts.since_load_ns(rows, claims.at[pairs].max(axis=1, initial=0))
    found.add_each(INCONSISTENT_OFFSETS, numbers, report, queues=claims.queue[pairs[:, 0]], acted_ns=acted_ns)


def _how(rows: Rows, at: int) -> str:
    """Say how a row shows a message."""
    what = "acknowledged" if rows.text("f", at) == "send" else "read"
    node = rows.text("node", at)
    return f"{what} at {facts.at_s(rows, at)}{' by ' if node else ''}{node}"


def _one_offset_of_a_message(rows: Rows, found: Findings) -> None:
    """A send that may have succeeded may have stored its message once, whatever the client library does inside; and all
    that an idempotent producer has repeated have stored it once together."""
    sent, given, count = rows.memo(Sent.of), rows.memo(Given.of), rows.memo(facts.messages)[1]
    known = rows.column("message")[given.at] >= 0
    acked = sent.ok & (sent.offset >= 0)
    at = np.append(sent.done[acked], given.at[known])
    number = np.append(sent.number[acked], given.number[known])
    offset, queue = rows.column("offset")[at], rows.column("queue")[at]
    several = any_in(number[first_in(number, count, offset)[number] != offset], count)
    near = np.flatnonzero(several[number])
    order, starts = groups(number[near], queue[near], offset[near])
    once = near[order[starts]]
    _, begin = groups(number[once], queue[once])
    copies = np.diff(np.append(begin, len(once)))
    every, tried = (np.bincount(of, minlength=count) for of in (sent.number, sent.number[~sent.failed & ~sent.again]))
    first = number[once[begin]]
    allowed = np.maximum(tried[first], 1)
    index = rows.column("index")

    def report(place: int) -> None:
        where = once[begin[place] : begin[place] + copies[place]]
        where = where[np.argsort(offset[where])]
        found.add(
            DUPLICATE,
            f"{later.name(rows, int(at[where[0]]))} stands in queue {int(queue[where[0]])} at the offsets "
            f"{', '.join(map(str, offset[where][:8].tolist()))}; of its {int(every[first[place]])} sends "
            f"{int(tried[first[place]])} may have succeeded.",
            *index[at[where[:8]]],
            queue=int(queue[where[0]]),
            offset=int(offset[where[-1]]),
            message=int(rows.column("message")[at[where[0]]]),
        )

    wrong = np.flatnonzero((copies > allowed) & (every[first] > 0))
    found.add_each(DUPLICATE, wrong, report, queues=queue[once[begin[wrong]]])


def _aborted(rows: Rows, found: Findings) -> None:
    """Find messages that were read though all of their sends failed; and whether a read began when that was known."""
    sent, given, count = rows.memo(Sent.of), rows.memo(Given.of), rows.memo(facts.messages)[1]
    wrong = given.only(are_refused(rows, given))
    found.count("refused", int(sent.failed.sum()))
    ended = np.full(count, -1, dtype=np.int64)
    np.maximum.at(ended, sent.number, np.where(sent.done >= 0, rows.column("index")[sent.done], -1))
    source = first_in(sent.number, count, np.arange(len(sent.invoke)))

    def report_all(name: str, some: Given, why: str) -> None:
        first = some.only(np.sort(first_in(some.number, count, np.arange(len(some.at)))[np.unique(some.number)]))

        def report(place: int) -> None:
            at, asked = int(first.at[place]), int(source[first.number[place]])
            txn = int(sent.txn[asked])
            of = f"transaction {txn}, which was aborted" if txn >= 0 else "a send that surely failed"
            _report_read(rows, found, name, at, int(sent.done[asked]), f"{of}{why}")

        numbers = np.arange(len(first.at))
        found.add_each(name, numbers, report, queues=first.queue, acted_ns=facts.since_load_ns(rows, first.at))

    report_all(G1A, wrong, "")
    later_on = wrong.only((sent.txn[source[wrong.number]] >= 0) & (wrong.op > ended[wrong.number]))
    report_all(RESURRECTED, later_on, " before the read began")


def _precommitted(rows: Rows, found: Findings) -> None:
    """Find messages that were read in their own transaction; and note those that were first read before their
    transaction is known to have been committed: somebody may not even have asked for that."""
    sent, given, count = rows.memo(Sent.of), rows.memo(Given.of), rows.memo(facts.messages)[1]
    sent = sent.only((rows.memo(sends_of_each)[sent.number] == 1) & (sent.txn >= 0))
    source = first_in(sent.number, count, np.arange(len(sent.invoke)))
    given = given.only((source >= 0)[given.number])
    txn, index = sent.txn[source[given.number]], rows.column("index")
    own = _first_of_each(given.number, np.flatnonzero(given.txn == txn))

    def report(place: int) -> None:
        at = int(sent.invoke[source[given.number[place]]])
        why = f"transaction {int(txn[place])}, in that transaction itself"
        _report_read(rows, found, PRECOMMITTED_READ, int(given.at[place]), at, why)

    acted_ns = facts.since_load_ns(rows, given.at[own])
    found.add_each(PRECOMMITTED_READ, own, report, queues=given.queue[own], acted_ns=acted_ns)
    known = np.where(sent.ok, index[sent.done], NEVER)[source[given.number]]
    is_early = ~are_refused(rows, given) & (index[given.at] < known) & ~any_in(given.number[own], count)[given.number]
    early.note(rows, found, sent, source, given.only(_first_of_each(given.number, np.flatnonzero(is_early))))


def _first_of_each(number: Ints, places: Ints) -> Ints:
    """Return of the places, which ascend, the first one of each number."""
    return np.sort(places[np.unique(number[places], return_index=True)[1]])


def _report_read(rows: Rows, found: Findings, name: str, at: int, sent: int, why: str) -> None:
    index, queue, offset = (int(rows.column(column)[at]) for column in ("index", "queue", "offset"))
    found.add(
        name,
        f"{later.name(rows, at)} was read at {facts.at_s(rows, at)} at offset {offset} of queue {queue}; "
        f"it is of {why}.",
        int(rows.column("index")[sent]) if sent >= 0 else -1,
        index,
        queue=queue,
        offset=offset,
        message=int(rows.column("message")[at]),
    )
