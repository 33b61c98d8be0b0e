"""Every message that is there was sent, with that content, and stands at no more places than it was sent for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.findings import Findings
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import later, reads
from checkers._facts.arrays import Flags, Ints, among, any_in, ascends, distinct, first_in, only, pairs_occur, slots
from checkers._facts.reads import own
from checkers.durability.evidence import END, Reached, decided, present
from checkers.durability.promise import CORRUPT, DUPLICATE_APPEND, PROMISE, RECOVERED, UNEXPECTED, short

NEEDS = Needs(
    part="where each message stands",
    key=Key.MESSAGE,
    rows=(
        own("op", "send", "delay", "transact", "delivered"),
        own("final", "tiered"),
        reads.RUN,
        *(*reads.REPLICAS, *reads.FINAL_LOGS, *END),
    ),
    columns=(*reads.BASIC, *reads.OPERATIONS, *reads.RECORDS),
    uses=(Use.QUEUES,),
)


@dataclass(frozen=True, slots=True)
class Messages:
    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        end = rows.beside.memo(Reached.of)
        end.note(found)
        _recovered(rows, context, found, end, end.judged(rows, context))
        _unexpected(rows, context, found)
        _appended_twice(rows, context, found)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decided(partial, context)


def _recovered(rows: Rows, context: RunContext, found: Findings, end: Reached, judged: Flags) -> None:
    """Count the unclear sends whose message is there after all."""
    if not judged.any():
        return
    sends, index, message = rows.memo(facts.sends), rows.column("index"), rows.column("message")
    queue = rows.column("queue")
    unclear = sends.invoke[~sends.ok & ~sends.failed]
    unclear = unclear[end.of_each(queue[unclear], judged)]
    found.count("unclear", len(unclear))
    asked = queue[unclear], message[unclear]
    number, count = rows.memo(facts.messages)
    there_is = present(rows, context, end, judged)
    sought = any_in(number[unclear], count)
    stored = np.flatnonzero(sought[number[there_is.at]])
    acked = sends.invoke[sends.ok & sought[number[sends.invoke]]]
    there = pairs_occur(asked, (there_is.queue[stored], message[there_is.at[stored]]))
    there &= ~pairs_occur(asked, (queue[acked], message[acked]))
    order, firsts = facts.groups(asked[0][there], asked[1][there])
    once = unclear[there][order[firsts]]

    def report_one(at: int) -> None:
        found.add(
            RECOVERED,
            f"The result of sending message {short(int(message[at]))} at {facts.at_s(rows, at)} was unknown;"
            " it was stored.",
            int(index[at]),
            queue=int(queue[at]),
            message=int(message[at]),
        )

    found.add_each(RECOVERED, once, report_one, queues=queue[once])


def _unexpected(rows: Rows, context: RunContext, found: Findings) -> None:
    """Everything read or stored was sent, to this queue, with this content, and not by a send that surely failed. In a
    queue that is none of the run's stand copies of messages that were sent to the others."""
    sends = rows.memo(later.offered)
    message, queue, content, index = (rows.column(name) for name in ("message", "queue", "hash", "index"))
    stored = [rows.memo(facts.final_log).at, rows.memo(facts.tiered).at]
    at = np.concatenate([rows.where(kind="op", f="delivered"), *stored])
    at = at if ascends(at) else np.sort(at)
    number, count = rows.memo(facts.messages)
    asked_in, seen_in = number[sends.invoke], number[at]
    source = first_in(asked_in, count, sends.invoke)[seen_in]
    astray = (source < 0) | (queue[source] != queue[at]) & facts.in_run(context, queue[at])
    source[astray] = -1  # a shard holds the sends to its own queues, and others say nothing of these
    damaged = ~astray & (content[source] != content[at])
    possible = any_in(asked_in[~sends.failed], count)[seen_in]
    refused = ~astray & ~possible

    def report_all(name: str, why: str, wrong: Ints) -> None:
        order, firsts = facts.groups(queue[wrong], rows.column("offset")[wrong], message[wrong])
        once = wrong[np.sort(order[firsts])]
        found.add_each(name, once, lambda seen: report_one(name, why, seen), queues=queue[once])

    def report_one(name: str, why: str, seen: int) -> None:
        place, node = int(rows.column("offset")[seen]), rows.text("node", seen)
        asked = source[np.searchsorted(at, seen)]
        found.add(
            name,
            f"Queue {int(queue[seen])}, offset {place}, seen at {facts.at_s(rows, seen)}"
            f"{' on ' if node else ''}{node}: {why}",
            int(index[asked]) if asked >= 0 else -1,
            int(index[seen]),
            queue=int(queue[seen]),
            offset=place,
            message=int(message[seen]),
        )

    report_all(UNEXPECTED, "a message that nobody sent to this queue.", at[astray])
    report_all(UNEXPECTED, "a message whose every send was definitely refused.", at[refused])
    report_all(CORRUPT, "the message arrived with another content than was sent.", at[damaged])


def _appended_twice(rows: Rows, context: RunContext, found: Findings) -> None:
    """Check that a message stands at no more offsets of a queue than it had attempts there that may have succeeded. An
    attempt that the system knows for a repetition stores nothing besides the one before it."""
    sends = rows.memo(facts.sends)
    message, offset, queue, index = (rows.column(name) for name in ("message", "offset", "queue", "index"))
    parts = [
        rows.memo(facts.final_log).at,
        rows.memo(facts.tiered).at,
        rows.where(kind="op", f="delivered")[rows.memo(facts.drain_reads)],
    ]
    at = np.concatenate(parts)
    at = at[facts.in_run(context, queue[at])]  # a group's own queue has a copy for each time that one is sent back
    at = _at_several(rows, *only(message[at] >= 0, at))
    order, starts = facts.groups(message[at], queue[at], offset[at])
    at = at[order[starts]]
    at = at[~among(message[at], distinct(message[rows.memo(later.later).invoke]))]  # those may come more than once
    _, begin = facts.groups(message[at], queue[at])
    copies = np.diff(np.append(begin, len(at)))
    number, count = rows.memo(facts.messages)
    may = np.flatnonzero(any_in(number[at], count)[number[sends.invoke]] & ~sends.failed)
    ended = may[sends.done[may] >= 0]
    again = ended[rows.numbers("again", sends.done[ended]) > 0]
    tried = sends.invoke[np.setdiff1d(may, again)]
    ids, every = message[at[begin]], np.concatenate([at[begin], tried])
    place, many = slots(queue[every] + 1, number[every])
    attempts = np.bincount(place[len(begin) :], minlength=many)[place[: len(begin)]]
    allowed = np.maximum(attempts, 1)
    found.count("duplicates_by_retry", int((copies[copies <= allowed] - 1).sum()))

    def report_one(number: int) -> None:
        where = at[begin[number] : begin[number] + copies[number]]
        asked = sends.invoke[(message[sends.invoke] == ids[number]) & (queue[sends.invoke] == queue[where[0]])]
        found.add(
            DUPLICATE_APPEND,
            f"Message {short(int(ids[number]))} was sent {len(asked)} times to queue {int(queue[where[0]])}, of which "
            f"{int(allowed[number])} may have been stored, but stands there at the offsets "
            f"{', '.join(str(int(o)) for o in offset[where][:8])}.",
            *index[asked[:4]],
            *index[where[:8]],
            queue=int(queue[where[0]]),
            offset=int(offset[where[-1]]),
            message=int(ids[number]),
        )

    wrong = np.flatnonzero(copies > allowed)
    found.add_each(DUPLICATE_APPEND, wrong, report_one, queues=queue[at[begin[wrong]]])


def _at_several(rows: Rows, at: Ints) -> Ints:
    """Of records, those of messages that stand at more than one place."""
    number, count = rows.memo(facts.messages)
    number, place = number[at], rows.memo(facts.places).places(rows.column("queue")[at], rows.column("offset")[at])
    one = np.empty(count, dtype=np.int64)
    one[number] = place
    return at[any_in(number[one[number] != place], count)[number]]
