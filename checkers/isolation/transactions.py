"""Transactions over queues of logs: no cycle of what each of them was given by another one.

A log isolates no writes: messages of transactions stand in a queue in the order in which they came, whatever became of
their transactions. So two transactions may each stand behind the other one, in two queues; a cycle that needs this is
counted and allowed. But who reads is given what is committed, and a transaction is committed once. So the cycles that
are violations are those of what was read alone, and of real time: a transaction comes after each moment of which a
queue shows that it lies before one of its messages, or before what it was given.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chaos.findings import Facts, Findings, decide
from chaos.kernel import Key, Needs, Reads
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Order, Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts.arrays import NEVER, Ints, distinct, groups, narrow, only, places_in
from checkers._facts.packed import packed, unpacked
from checkers._facts.transactions import asked_first
from checkers.isolation import queues
from checkers.isolation.graph import WORDS, Cycle, Edge, Graph, Kind
from checkers.isolation.promise import ALLOWED, PROMISE

NEEDS = Needs(
    part="transactions over queues",
    key=Key.CALL,
    rows=(Reads(kind="op", f=("txn", "end_txn"), queueless=True),),
    columns=("op", "type", "process", "value"),
    uses=(Use.TRANSACTIONS,),
    joins=(queues.PART,),
)
COMMITTED = ("transactions", "no transaction was committed")
SEEN = ("given", "no reader was given what a transaction had sent")


@dataclass(frozen=True, slots=True)
class Transactions:
    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        if Use.TRANSACTIONS not in context.uses:
            found.not_owed(f"no workload uses {Use.TRANSACTIONS}")
            return found.partial()
        calls = facts.calls(rows, "txn")
        number = rows.numbers("txn", calls.invoke)
        mine = np.flatnonzero(~calls.failed & (number >= 0))
        found.count("transactions", int(calls.ok.sum()))
        process = _processes(rows, calls.invoke[mine])
        found.fact(**packed(txn=number[mine], began=calls.began[mine], ended=calls.ended[mine], process=process))
        found.fact(**packed(**asked_first(rows)))
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        found = Findings(PROMISE)
        known = Known.of(partial.facts)
        if len(known.txn):
            found.count(SEEN[0], len(distinct(known.writer)))
            found.count("transaction_edges", len(known.edges[0]))
            _judge(found, known)
        whole = Partial(counts=partial.counts, gaps=partial.gaps, not_owed=partial.not_owed).merge(found.partial())
        return decide(PROMISE, whole, needs=[COMMITTED, SEEN] if len(known.sent) else [COMMITTED])


def _processes(rows: Rows, at: Ints) -> Ints:
    """Return for each row a number that those of its process share, in other shards, too."""
    _, first, place = np.unique(rows.column("process")[at], return_index=True, return_inverse=True)
    names = [rows.text("process", row).encode("utf-8", "surrogatepass") for row in at[first].tolist()]
    return np.array([zlib.crc32(name) for name in names], dtype=np.int64)[place.reshape(-1)]


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the transactions that may have been committed, each by its place in ``txn``, which ascends.

    What was given of a transaction to whom: the place of the ``writer``, that of the ``reader`` (-1: no transaction),
    the operation ``op``, when it had ``read`` it, and where it stands. What a transaction ``sent``, by queue and
    offset. It has happened ``by`` a moment, at which it had ended, or somebody had been given of it; and only ``after``
    one, at which its commit or what it read was asked for, or a send began that stands before one of its messages, or
    before what it was given."""

    txn: Ints
    began: Ints
    ended: Ints
    process: Ints
    by: Ints
    after: Ints
    writer: Ints
    reader: Ints
    op: Ints
    read: Ints
    at: tuple[Ints, Ints]
    sent: Ints
    sent_at: tuple[Ints, Ints]

    @classmethod
    def of(cls, given: Facts) -> Known:
        txn, began, ended, process = _ordered(unpacked(given, "txn", "began", "ended", "process"), 0)
        after, by = began.copy(), ended.copy()
        asked, first = _placed(txn, *unpacked(given, "asked_to_commit", "first"))
        order = np.argsort(-first, kind="stable")  # of several requests the first one counts
        after[asked[order]] = first[order]
        sent, queue, offset, behind = _ordered(unpacked(given, "sent", "queue", "offset", "behind"), 1, 2)
        sent, behind, queue, offset = _placed(txn, sent, behind, queue, offset)
        np.maximum.at(after, sent, behind)
        sent, queue, offset = map(narrow, (sent, queue, offset))  # there may be one for each message
        sent_at = queue, offset
        columns = unpacked(given, "writer", "op", "reader", "ended", "queue", "offset", "behind")
        writer, op, reader, read, queue, offset, behind = _ordered(columns, 4, 0, 1)
        del columns
        reader, is_known = places_in(txn, reader)
        np.maximum.at(after, reader[is_known], np.maximum(behind, op)[is_known])
        reader[~is_known] = -1
        del behind
        columns = _placed(txn, writer, reader, op, read, queue, offset)
        np.minimum.at(by, columns[0], columns[3])
        writer, reader, op, read, queue, offset = map(narrow, columns)
        at = queue, offset
        return cls(txn, began, ended, process, by, after, writer, reader, op, read, at, sent, sent_at)

    @property
    def edges(self) -> tuple[Ints, Ints, Ints]:
        """Return who was read by which other transaction, and the number of the read."""
        mine = np.flatnonzero((self.reader >= 0) & (self.reader != self.writer))
        return self.writer[mine], self.reader[mine], narrow(mine)

    @property
    def overwrites(self) -> tuple[Ints, Ints, Ints]:
        """Return which transaction stands directly before which other one, and the number of the message behind."""
        queue = self.sent_at[0]
        mine = np.flatnonzero((queue[1:] == queue[:-1]) & (self.sent[1:] != self.sent[:-1]))
        return self.sent[mine], self.sent[mine + 1], narrow(mine + 1)


def _ordered(columns: list[Ints], *by: int) -> list[Ints]:
    """Return these columns, the same list, in the order of some of them, given by their places: one after the other, so
    that few are there twice."""
    order = groups(*(columns[place] for place in by))[0]
    for place, column in enumerate(columns):
        columns[place] = column[order]
    return columns


def _placed(txn: Ints, of: Ints, *columns: Ints) -> list[Ints]:
    """Return the place of each transaction that is known, and these columns of them."""
    place, known = places_in(txn, of)
    return only(known, place, *columns)


def _judge(found: Findings, known: Known) -> None:
    wrong = np.zeros(len(known.txn), dtype=np.bool_)
    for one in np.flatnonzero(known.by < known.after).tolist():
        wrong[one] = True
        _report_late(found, known, one)
    after = np.minimum(known.after, known.by)  # of those that are reported, as if they were in time
    for cycle in Graph(after, known.by, known.process, *_edges(known, overwrites=False)).cycles():
        wrong[[*cycle.nodes]] = True
        _report_cycle(found, known, cycle, cycle.name)
    for cycle in Graph(known.began, known.ended, known.process, *_edges(known, overwrites=True)).cycles():
        if not wrong[[*cycle.nodes]].any():
            found.count(f"allowed_{cycle.name}", 1)
            _report_cycle(found, known, cycle, ALLOWED)


def _edges(known: Known, *, overwrites: bool) -> tuple[Ints, Ints, npt.NDArray[np.int8], Ints]:
    """Return sources, targets, kinds and labels: who was read by whom and, if wanted, who was overwritten by whom."""
    source, target, label = known.edges
    kind = np.full(len(source), Kind.WR, np.int8)
    if overwrites:
        over = known.overwrites
        kind = np.append(kind, np.full(len(over[0]), Kind.WW, np.int8))
        source, target, label = (np.append(one, two) for one, two in zip((source, target, label), over, strict=True))
    return source, target, kind, label


def _report_cycle(found: Findings, known: Known, cycle: Cycle, name: str) -> None:
    said = "; ".join(_clause(known, edge) for edge in cycle.edges)
    orders = cycle.orders(lambda node: f"transaction {int(known.txn[node])}", lambda edge: _shown(known, edge))
    found.add(name, f"{cycle.name}: {said}.", *_rows(known, cycle), cycle=orders)


def _report_late(found: Findings, known: Known, one: int) -> None:
    """Report a transaction that had happened before something that it comes after."""
    by, after, txn = int(known.by[one]), int(known.after[one]), int(known.txn[one])
    was_read = by < known.ended[one]
    name, me, other = "G1c-realtime" if was_read else "G0-realtime", f"transaction {txn}", f"what began in row {after}"
    what = "of which somebody had been given a message" if was_read else "which had ended"
    found.add(
        name,
        f"{name}: {me}, {what} by row {by}, comes after {other}: that asks for its "
        "commit or for what it read, or sends what stands before one of its messages, or before what it was given.",
        *sorted({int(known.began[one]), by, after}),
        cycle=(
            Order(before=me, after=other, kind=WORDS[Kind.REALTIME], shown=f"row {by}, before row {after}"),
            Order(before=other, after=me, kind="must come before"),
        ),
    )


def _clause(known: Known, edge: Edge) -> str:
    one, two, shown = int(known.txn[edge.source]), int(known.txn[edge.target]), _shown(known, edge)
    if edge.kind is Kind.PROCESS:
        return f"{two} followed {one} in one process"
    if edge.kind is Kind.REALTIME:
        return f"transaction {one} had happened by {shown}, after which {two} happened"
    if edge.kind is Kind.WR:
        return f"transaction {two} was given what {one} had sent ({shown})"
    return f"transaction {two} stands directly behind {one} ({shown})"


def _shown(known: Known, edge: Edge) -> str:
    """Say what shows an order."""
    if edge.kind is Kind.PROCESS:
        return ""
    if edge.kind is Kind.REALTIME:
        return f"row {int(known.by[edge.source])}, before row {int(known.after[edge.target])}"
    queue, offset = (int(column[edge.label]) for column in (known.at if edge.kind is Kind.WR else known.sent_at))
    return f"offset {offset} of queue {queue}"


def _rows(known: Known, cycle: Cycle) -> list[int]:
    """Return the rows that show a cycle, in the order in which they were recorded."""
    rows = {int(known.began[node]) for node in cycle.nodes}
    for edge in cycle.edges:
        if edge.kind is Kind.WR:
            rows |= {int(known.op[edge.label]), int(known.read[edge.label])}
        elif edge.kind is Kind.REALTIME:
            rows |= {int(known.by[edge.source]), int(known.after[edge.target])}
    return sorted(rows - {NEVER})
