"""Messages of a producer, and those of a transaction, stand in the order in which they were sent."""

from __future__ import annotations

import re

import numpy as np

from chaos.findings import Findings
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts import later, losses
from checkers._facts.arrays import Ints, first_in, groups
from checkers.log.promise import INT_NONMONOTONIC_SEND, INT_SEND_SKIP, NONMONOTONIC_SEND
from checkers.log.rows import Given, Sent, sends_of_each
from checkers.log.visible import held

_STEP = re.compile(r"(-[0-9]+)?(\.[0-9]+)?$")


def check(rows: Rows, context: RunContext, found: Findings) -> None:
    """Hold the places of sent messages against one another. What has no known place is left out."""
    sent = rows.memo(Sent.of)
    place = _places(rows, sent)
    known = (place >= 0) & ~sent.failed
    sent, place = sent.only(known), place[known]
    _in_transactions(rows, context, found, sent, place)
    _of_producers(rows, context, found, sent, place)


def _places(rows: Rows, sent: Sent) -> Ints:
    """Return where each message stands: as its answer says, or where a reader found it first."""
    given, count = rows.memo(Given.of), rows.memo(facts.messages)[1]
    seen = first_in(given.number, count, given.offset)[sent.number]
    seen[rows.memo(sends_of_each)[sent.number] > 1] = -1  # it may be that of another send
    return np.where(sent.offset >= 0, sent.offset, seen)


def _in_transactions(rows: Rows, context: RunContext, found: Findings, sent: Sent, place: Ints) -> None:
    mine = np.flatnonzero(sent.txn >= 0)
    mine = mine[np.argsort(sent.micro[mine], kind="stable")]
    mine = mine[groups(sent.txn[mine], sent.queue[mine])[0]]
    one, two = mine[:-1], mine[1:]
    same = (sent.txn[one] == sent.txn[two]) & (sent.queue[one] == sent.queue[two])
    one, two = one[same], two[same]
    found.count("log_pairs", len(one))
    back = place[two] <= place[one]
    _report_back(rows, context, found, INT_NONMONOTONIC_SEND, sent, place, one[back], two[back])
    one, two = one[~back], two[~back]
    for flags, visible in held(rows, context, sent.invoke[two]):
        first, last = one[flags], two[flags]
        many, _ = visible.between(sent.queue[first], place[first] + 1, place[last])
        _report_between(rows, found, sent, last[many > 0])


def _report_between(rows: Rows, found: Findings, sent: Sent, wrong: Ints) -> None:
    """Report what is allowed: Kafka does not isolate the writes of transactions from one another."""

    def report(at: int) -> None:
        found.add(
            INT_SEND_SKIP,
            f"Messages of others stand in queue {int(sent.queue[at])} between two of transaction {int(sent.txn[at])}.",
            int(rows.column("index")[sent.invoke[at]]),
            queue=int(sent.queue[at]),
            message=int(rows.column("message")[sent.invoke[at]]),
        )

    acted_ns = facts.since_load_ns(rows, sent.invoke[wrong])
    found.add_each(INT_SEND_SKIP, wrong, report, queues=sent.queue[wrong], acted_ns=acted_ns)


def _of_producers(rows: Rows, context: RunContext, found: Findings, sent: Sent, place: Ints) -> None:
    """Compare what a process sent with what it had sent, and was acknowledged, before. Messages of one transaction are
    compared by themselves."""
    process = _producers(rows, sent)
    order = groups(process, sent.queue)[0]
    process, queue, unit = process[order], sent.queue[order], np.where(sent.txn < 0, -1, sent.txn)[order]
    one, two = order[:-1], order[1:]
    same = (process[1:] == process[:-1]) & (queue[1:] == queue[:-1]) & ((unit[1:] != unit[:-1]) | (unit[1:] < 0))
    index = rows.column("index")
    back = same & sent.ok[one] & (place[two] <= place[one])
    back &= index[sent.invoke[two]] > index[sent.done[one]]
    _report_back(rows, context, found, NONMONOTONIC_SEND, sent, place, one[back], two[back])


def _producers(rows: Rows, sent: Sent) -> Ints:
    """Return a number for each send, by its process: of all steps of transactions, and after those of unknown outcome,
    it is one producer that sends."""
    key = rows.column("process")[sent.invoke] * 2 + (sent.txn >= 0)
    codes, first, place = np.unique(key, return_index=True, return_inverse=True)
    texts = [rows.text("process", at) for at in sent.invoke[first].tolist()]
    named = [_STEP.sub("", text) if code % 2 else text for code, text in zip(codes.tolist(), texts, strict=True)]
    return np.unique(np.array(named, dtype=np.str_), return_inverse=True)[1].reshape(-1)[place.reshape(-1)]


def _report_back(
    rows: Rows, context: RunContext, found: Findings, name: str, sent: Sent, place: Ints, one: Ints, two: Ints
) -> None:
    """Report pairs of sends of which the later one stands first."""
    permits = losses.cuts(rows, context, confirmed=False)
    shown = np.where(sent.done >= 0, sent.done, sent.invoke)
    apart = permits.separate(rows, shown[one], shown[two])
    losses.note(found, rows, permits, shown[one[apart]], shown[two[apart]])
    one, two = one[~apart], two[~apart]
    index, message = rows.column("index"), rows.column("message")

    def report(number: int) -> None:
        first, last = int(one[number]), int(two[number])
        queue = int(sent.queue[last])
        found.add(
            name,
            f"{rows.text('process', int(sent.invoke[last]))} sent {later.name(rows, int(sent.invoke[first]))} to queue "
            f"{queue}, which got offset {int(place[first])}, and then {later.name(rows, int(sent.invoke[last]))}, "
            f"which got offset {int(place[last])}.",
            int(index[sent.invoke[first]]),
            int(index[shown[first]]),
            int(index[sent.invoke[last]]),
            int(index[shown[last]]),
            queue=queue,
            offset=int(place[last]),
            message=int(message[sent.invoke[last]]),
        )

    acted_ns = facts.since_load_ns(rows, shown[two])
    found.add_each(name, np.arange(len(one)), report, queues=sent.queue[two], acted_ns=acted_ns)
