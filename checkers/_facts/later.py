"""Messages that come to their queue later than they are sent: after a delay, or when a transaction is committed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.ops import SEQUENCE_BITS
from chaos.shard_rows import Rows
from checkers._facts.arrays import Flags, Ints, places_in
from checkers._facts.clients import Calls, calls, drain_reads, sends
from checkers._facts.nodes.logs import final_log


@dataclass(frozen=True, slots=True)
class Later:
    """Such sends, in the order of their invocations: the rows that began and ended them (-1), whether the system has
    accepted them, the delay (-1: none), and whether their transaction is rolled back."""

    invoke: Ints
    done: Ints
    ok: Flags
    failed: Flags
    delay_ms: Ints
    rolled_back: Flags


def later(rows: Rows) -> Later:
    delays, transactions = calls(rows, "delay"), calls(rows, "transact")
    invoke = np.append(delays.invoke, transactions.invoke)
    order = np.argsort(invoke, kind="stable")
    decisions = [word == "rollback" for word in rows.words("decision", transactions.invoke)]
    none = np.zeros(len(delays.invoke), dtype=np.bool_)
    return Later(
        invoke=invoke[order],
        done=np.append(delays.done, transactions.done)[order],
        ok=np.append(delays.ok, transactions.ok)[order],
        failed=np.append(delays.failed, transactions.failed)[order],
        delay_ms=np.append(rows.numbers("delay_ms", delays.invoke), np.full(len(decisions), -1, dtype=np.int64))[order],
        rolled_back=np.append(none, np.array(decisions, dtype=np.bool_))[order],
    )


def offered(rows: Rows) -> Calls:
    """All that clients have asked to store, now or later, in the order of the invocations."""
    some = [one for one in (calls(rows, "delay"), calls(rows, "transact")) if len(one.invoke)]
    if not some:
        return rows.memo(sends)
    some.insert(0, rows.memo(sends))
    order = np.argsort(np.concatenate([one.invoke for one in some]), kind="stable")
    return Calls(*(np.concatenate([getattr(one, name) for one in some])[order] for name in Calls.__slots__))


@dataclass(frozen=True, slots=True)
class Came:
    """Messages that were seen in a queue, by a reader or in a log after the run, or given to a group from a copy of its
    own (``receive_again``): each with the first row that says so. ``message`` ascends."""

    message: Ints
    at: Ints

    def first(self, messages: Ints) -> Ints:
        """Return the row for each of these messages, -1 where it never came."""
        place, there = places_in(self.message, messages)
        found = np.full(len(messages), -1, dtype=np.int64)
        found[there] = self.at[place[there]]
        return found


def came(rows: Rows) -> Came:
    again = calls(rows, "receive_again")
    read = rows.where(kind="op", f="delivered")
    at = np.sort(np.concatenate([read, rows.memo(final_log).at, again.done[again.ok]]))
    message, first = np.unique(rows.column("message")[at], return_index=True)
    return Came(message, at[first])


def content(rows: Rows) -> Ints:
    """Return the rows of all that stands in the queues after the run, as readers or logs report it."""
    return np.append(rows.where(kind="op", f="delivered")[rows.memo(drain_reads)], rows.memo(final_log).at)


def name(rows: Rows, at: int) -> str:
    """Return the name of a row's message, for people, as reports name messages."""
    return named(int(rows.column("message")[at]))


def named(message: int) -> str:
    return f"Message {message >> SEQUENCE_BITS}/{message & (1 << SEQUENCE_BITS) - 1}"
