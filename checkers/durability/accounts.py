"""What was put into queues and stores comes out, where clients are given no offsets: an item is known by its content.

Of a store, what was acknowledged before a read of everything began is missing from that read, or it is not. Of a queue
only the end of the reading shows what is missing: a poll that gives nothing may have failed, or fallen into a
rebalance, and what is pushed has no end. So what never came out is lost only if something says that the queue was
empty (:class:`chaos.operations.Emptied`) and no dequeue of unknown outcome can have taken it.
"""

from __future__ import annotations

import numpy as np

from chaos.driver import Evidence
from chaos.findings import Findings, decide
from chaos.law import Key, Law, Partial
from chaos.law import Rows as LawRows
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts.arrays import Ints, among, first_in, places_in
from checkers._facts.exchanges import READS, Exchanges, item
from checkers.durability.evidence import ACKED
from checkers.durability.promise import LOST, PROMISE, RECOVERED, REDELIVERY, UNEXPECTED


class Accounts(Law):
    promise = PROMISE
    key = Key.QUEUE
    reads = READS
    evidence = (Evidence.EXCHANGES,)
    part = "what came out where clients see no offsets"

    def examine(self, given: LawRows) -> Partial:
        rows, found = given.columns, Findings(PROMISE)
        known = rows.memo(Exchanges.of)
        found.count("acknowledged", int(known.puts.ok.sum()))
        found.count("read", len(known.outs))
        found.count("unclear", int((~known.puts.ok & ~known.puts.failed).sum()))
        found.count("lost", 0)
        _unexpected(rows, known, found)
        _missing_from_queues(rows, known, found)
        _missing_from_stores(rows, known, found)
        _allowed(rows, known, found)
        return found.partial()

    def judge(self, partial: Partial) -> Verdict:
        return decide(PROMISE, partial, needs=[("acknowledged", ACKED[1])])


def _unexpected(rows: Rows, known: Exchanges, found: Findings) -> None:
    """Check that what came out had been put in by then, and not by an attempt that surely failed."""
    puts, index = known.puts, rows.column("index")
    contents, first = np.unique(known.put, return_index=True)
    place, asked = places_in(contents, known.out)
    began = puts.began[first][place] if len(contents) else np.zeros(len(known.outs), dtype=np.int64)
    astray = ~asked | (began > index[known.outs])
    refused = ~astray & ~among(known.out, np.unique(known.put[~puts.failed]))

    def report_one(place: int) -> None:
        at = int(known.outs[place])
        why = "it was never put in" if astray[place] else "every attempt to put it in was refused"
        found.add(
            UNEXPECTED,
            f"Item {item(rows, at)} came out at {facts.at_s(rows, at)}, but {why}.",
            *([] if astray[place] else [int(began[place])]),
            int(index[at]),
            queue=int(rows.column("queue")[at]),
            message=int(rows.column("message")[at]),
        )

    wrong = np.flatnonzero(astray | refused)
    _, once = np.unique(known.out[wrong], return_index=True)
    found.add_each(UNEXPECTED, wrong[np.sort(once)], report_one)


def _missing_from_queues(rows: Rows, known: Exchanges, found: Findings) -> None:
    puts = known.puts
    missing = np.flatnonzero(puts.ok & known.in_queue & ~among(known.put, np.unique(known.out)))
    emptied, index = rows.where(kind="op", f="emptied"), rows.column("index")
    end = int(index[emptied].max(initial=-1))
    dequeues = facts.calls(rows, "dequeue")
    crashed = int((~dequeues.ok & ~dequeues.failed).sum())
    lost = missing[puts.ended[missing] < end] if not crashed else missing[:0]
    if open_ := len(missing) - len(lost):
        what = "1 acknowledged item" if open_ == 1 else f"{open_} acknowledged items"
        why = "nothing shows that the queue was read to its end"
        if crashed:
            why = "a dequeue without an answer may have taken what is missing"
        found.gap(f"{what} did not come out, and {why}")
    _report_lost(rows, known, found, lost, "it never came out, although nothing was left in the queue", end)


def _missing_from_stores(rows: Rows, known: Exchanges, found: Findings) -> None:
    """Compare each read of everything with what had been acknowledged when it began."""
    puts, reads = known.puts, facts.calls(rows, "get_all")
    stored = np.flatnonzero(puts.ok & ~known.in_queue)
    lost = np.zeros(len(puts.ok), dtype=np.bool_)
    last = -1
    for number in np.flatnonzero(reads.ok).tolist():
        began = int(reads.began[number])
        last = max(last, began)
        due = stored[(puts.ended[stored] < began) & ~lost[stored]]
        missing = due[~among(known.put[due], np.unique(known.out[known.asked == began]))]
        lost[missing] = True
        what = f"the read of everything that began at {facts.at_s(rows, int(reads.invoke[number]))} did not return it"
        _report_lost(rows, known, found, missing, what, began)
    if unread := int((puts.ended[stored] > last).sum()):
        found.gap(f"no read of everything began after {unread} of the acknowledged puts")


def _report_lost(rows: Rows, known: Exchanges, found: Findings, lost: Ints, what: str, shown_by: int) -> None:
    puts, index = known.puts, rows.column("index")

    def report_one(number: int) -> None:
        asked, done = int(puts.invoke[number]), int(puts.done[number])
        found.add(
            LOST,
            f"Item {item(rows, asked)} was acknowledged at {facts.at_s(rows, done)}, but {what}.",
            int(index[asked]),
            int(index[done]),
            shown_by,
            queue=int(rows.column("queue")[asked]),
            message=int(rows.column("message")[asked]),
        )

    found.count("lost", len(lost))
    found.add_each(LOST, lost, report_one, acted_ns=facts.since_load_ns(rows, puts.done[lost]))


def _allowed(rows: Rows, known: Exchanges, found: Findings) -> None:
    """Count what came out although the outcome of its put is unknown, and what came out more than once: without offsets
    nothing shows whether it was stored twice or given twice."""
    puts, index = known.puts, rows.column("index")
    unclear = np.flatnonzero(~puts.ok & ~puts.failed & among(known.put, np.unique(known.out)))
    order = np.arange(len(known.outs))
    content, number = np.unique(known.out, return_inverse=True)
    several = np.where(known.by_read, known.asked, -1)
    slot = number + len(content) * np.unique(several, return_inverse=True)[1] if len(order) else number
    leader = first_in(slot, int(slot.max(initial=-1)) + 1, order)[slot] if len(order) else order

    def report_recovered(at: int) -> None:
        asked = int(puts.invoke[at])
        when = facts.at_s(rows, asked)
        text = f"The result of putting in item {item(rows, asked)} at {when} was unknown; it came out."
        found.add(RECOVERED, text, int(index[asked]), message=int(rows.column("message")[asked]))

    def report_again(at: int) -> None:
        one, before = int(known.outs[at]), int(known.outs[leader[at]])
        text = f"Item {item(rows, one)} came out again at {facts.at_s(rows, one)}."
        found.add(REDELIVERY, text, int(index[before]), int(index[one]), message=int(rows.column("message")[one]))

    found.add_each(RECOVERED, unclear, report_recovered)
    found.add_each(REDELIVERY, np.flatnonzero(leader != order), report_again)
