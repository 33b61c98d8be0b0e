"""What is written to queues of logs and read from them, as far as one queue shows it.

The order of a queue's versions is that of its offsets, gaps ignored. A message stands behind all that have lower
offsets, so it was written after the last of their sends had begun: that moment is all that a transaction needs to know
of the messages before its own, and sends and reads outside of transactions need not be known at all to whoever looks
at several queues. Moments are the ``index`` of rows, which clients' operations have in the order of real time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from chaos.findings import Findings, decide
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import losses, reads
from checkers._facts.arrays import NEVER, Flags, Ints, first_in, groups, message_slots, slots, stable_order
from checkers._facts.packed import packed
from checkers._facts.reads import own
from checkers.isolation.graph import SUFFIX, Kind, circle
from checkers.isolation.promise import PROMISE

PART = "what queues show"
NEEDS = Needs(
    part=PART,
    key=Key.QUEUE,
    rows=(own("op", "send", "delivered"), *losses.TERMS),
    columns=(*reads.BASIC, *reads.OPERATIONS, *losses.COLUMNS, "message", "position"),
    uses=(Use.LOGS, Use.TRANSACTIONS),
    idle=True,
)
UNUSED = "no workload uses logs or transactions"


@dataclass(frozen=True, slots=True)
class Log:
    """Messages by queue and offset, without those whose place is not certain. ``send``: the number of its send, of all
    sends; ``behind``: the latest begin of a send up to here, in its queue."""

    send: Ints
    queue: Ints
    offset: Ints
    message: Ints
    behind: Ints


@dataclass(frozen=True, slots=True)
class Queues:
    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        if not context.uses & {*NEEDS.uses}:
            found.not_owed(UNUSED)
            return found.partial()
        found.not_owed("" if Use.LOGS in context.uses else "no message was sent to a log")
        log = _log(rows)
        found.count("ordered_sends", len(log.send))
        ordered = losses.keeps_read(rows, context)
        if ordered:
            _sends_in_order(rows, found, log)
        read = _reads(rows, found, log, ordered=ordered)
        if Use.TRANSACTIONS in context.uses:
            _for_transactions(rows, found, log, read, ordered=ordered)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decide(PROMISE, partial, needs=[("ordered_sends", "no message that was sent has a place in a log")])


def _log(rows: Rows) -> Log:
    """Return what stands where, by what sends were answered and what was read. What stands at two offsets, or shares
    one, is left out, as is what was sent twice or surely not: other laws judge that."""
    sends, column = rows.memo(facts.sends), rows.column
    done = sends.done[sends.ok]
    given = rows.where(kind="op", f="delivered")
    at = np.concatenate([done, given])
    at = at[(column("offset")[at] >= 0) & (column("message")[at] >= 0)]
    order, firsts = groups(column("queue")[at], column("offset")[at], column("message")[at])
    at = at[order[firsts]]
    queue, offset, message = (column(name)[at] for name in ("queue", "offset", "message"))
    place, places = slots(queue, offset)
    every = column("message")[sends.invoke]
    slot, count = message_slots(np.append(message, every))
    mine, theirs = slot[: len(message)], slot[len(message) :]
    send = first_in(theirs, count, np.arange(len(every)))[mine]
    certain = (np.bincount(place, minlength=places)[place] == 1) & (np.bincount(mine, minlength=count)[mine] == 1)
    certain &= (send >= 0) & (np.bincount(theirs, minlength=count)[mine] == 1)
    certain[certain] = ~sends.failed[send[certain]]
    send, queue = send[certain], queue[certain]
    begun, span = sends.began[send], int(column("index").max(initial=0)) + 1
    number = np.cumsum(np.append(0, queue[1:] != queue[:-1]))[: len(queue)]
    behind = np.maximum.accumulate(number * span + begun) - number * span
    return Log(send, queue, offset[certain], message[certain], behind)


def _sends_in_order(rows: Rows, found: Findings, log: Log) -> None:
    """Check of sends outside of transactions that none ended before another one began that stands before it."""
    sends = rows.memo(facts.sends)
    alone, index = rows.numbers("txn", sends.invoke)[log.send] < 0, rows.column("index")

    def report_one(item: int) -> None:
        one, two = int(log.send[item]), int(np.searchsorted(sends.began, log.behind[item]))
        kind = _order(rows, int(sends.invoke[one]), int(sends.invoke[two]))
        name, queue, offset = f"G0{SUFFIX[kind]}", int(log.queue[item]), int(log.offset[item])
        began, ended, later = (int(index[at]) for at in (sends.invoke[one], sends.done[one], sends.invoke[two]))
        found.add(
            name,
            f"{name}: a send had ended with offset {offset} of queue {queue} at "
            f"{facts.at_s(rows, int(sends.done[one]))}; another one, that began at "
            f"{facts.at_s(rows, int(sends.invoke[two]))}, was put before it.",
            *(began, ended, later),
            queue=queue,
            offset=offset,
            message=int(log.message[item]),
            cycle=circle(
                f"send in row {began}",
                f"send in row {later}",
                (kind, f"row {ended}, before row {later}"),
                (Kind.WW, f"offset {offset} of queue {queue}"),
            ),
        )

    for item in np.flatnonzero(alone & (sends.ended[log.send] < log.behind)).tolist():
        report_one(item)


@dataclass(frozen=True, slots=True)
class _Reads:
    """Reads of messages whose sends are known: the send, the operation that was given it, the transaction that this is
    a step of (-1: of none), and by when; where it stands; and the moment of which is known that it lies before the
    read."""

    send: Ints
    op: Ints
    reader: Ints
    ended: Ints
    queue: Ints
    offset: Ints
    behind: Ints


def _reads(rows: Rows, found: Findings, log: Log, *, ordered: bool) -> _Reads:
    """Return what was read, and check that no operation was given a message although one that stands no later was sent
    only when it had ended."""
    sends, column = rows.memo(facts.sends), rows.column
    at = rows.where(kind="op", f="delivered")
    at = at[column("message")[at] >= 0]
    slot, count = message_slots(np.concatenate([column("message")[sends.invoke], column("message")[at], log.message]))
    theirs, mine, known = np.split(slot, [len(sends.invoke), len(sends.invoke) + len(at)])
    send = first_in(theirs, count, np.arange(len(theirs)))[mine]
    once = (send >= 0) & (np.bincount(theirs, minlength=count)[mine] == 1)
    once[once] = ~sends.failed[send[once]]
    place = first_in(known, count, np.arange(len(known)))[mine][once]
    send, at = send[once], at[once]
    behind = sends.began[send]
    if ordered and len(log.send):
        behind = np.where(place >= 0, log.behind[place], behind)
    op, ended, queue, offset = (column(name)[at] for name in ("op", "index", "queue", "offset"))
    read = _Reads(send, op, rows.numbers("txn", at), ended, queue, offset, behind)
    _read_in_order(rows, found, read)
    return read


def _read_in_order(rows: Rows, found: Findings, read: _Reads) -> None:
    sends, index = rows.memo(facts.sends), rows.column("index")
    early = np.flatnonzero(read.ended < read.behind)
    _, firsts = np.unique(np.stack([read.op[early], read.queue[early]]), axis=1, return_index=True)
    for item in early[np.sort(firsts)].tolist():
        two = int(np.searchsorted(sends.began, read.behind[item]))
        at = int(np.searchsorted(index, read.ended[item]))
        kind = _order(rows, at, int(sends.invoke[two]))
        name, queue, offset = f"G1c{SUFFIX[kind]}", int(read.queue[item]), int(read.offset[item])
        op, ended, later = (int(number) for number in (read.op[item], read.ended[item], sends.began[two]))
        found.add(
            name,
            f"{name}: a read was given offset {offset} of queue {queue} by {facts.at_s(rows, at)}, but a message that "
            f"stands there, or before it, was sent only at {facts.at_s(rows, int(sends.invoke[two]))}.",
            *(op, ended, later),
            queue=queue,
            offset=offset,
            cycle=circle(
                f"read in row {op}",
                f"send in row {later}",
                (kind, f"row {ended}, before row {later}"),
                (Kind.WR, f"offset {offset} of queue {queue}, or before it"),
            ),
        )


def _for_transactions(rows: Rows, found: Findings, log: Log, read: _Reads, *, ordered: bool) -> None:
    """Hand on what transactions sent, in the order of their queues, and who was given it when. Of what else an
    operation was given it is enough to know what that comes after. Where what was read may be taken back, nothing
    comes of the order of offsets."""
    txn = rows.numbers("txn", rows.memo(facts.sends).invoke)
    mine = np.flatnonzero(txn[log.send] >= 0)
    if ordered and len(mine):
        columns = {"queue": log.queue[mine], "offset": log.offset[mine], "behind": log.behind[mine]}
        found.fact(**packed(sent=txn[log.send[mine]], **columns))
    good = np.flatnonzero(read.ended >= read.behind)  # what is reported already shows nothing more
    good = good[stable_order(-read.behind[good])]
    order, firsts = groups(read.queue[good], txn[read.send[good]], read.op[good])
    first = good[order[firsts]]
    writer = txn[read.send[first]]
    kept = (read.reader[first] >= 0) | _is_first_sight(writer, read.ended[first])
    columns = {name: getattr(read, name)[first[kept]] for name in _Reads.__slots__[1:]}
    found.fact(**packed(writer=writer[kept], **columns))


def _is_first_sight(writer: Ints, ended: Ints) -> Flags:
    """Return which reads were the first here of what a transaction had sent: who reads outside of transactions shows
    nothing but by when that was there."""
    slot, count = slots(np.zeros_like(writer), writer)
    earliest = np.full(count, NEVER, dtype=np.int64)
    np.minimum.at(earliest, slot, ended)
    found: Flags = (writer >= 0) & (ended == earliest[slot])
    return found


def _order(rows: Rows, one: int, two: int) -> Kind:
    """Return what orders two rows: the client, if both are of one; a step of a transaction is the client's whose
    transaction it is."""
    names = [re.sub(r"-\d+$", "", rows.text("process", at).rpartition(".")[0]) for at in (one, two)]
    return Kind.PROCESS if names[0] == names[1] else Kind.REALTIME
