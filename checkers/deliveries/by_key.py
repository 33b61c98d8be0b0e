"""Items of one key come out of a queue in the order in which they were put in, where clients are given no offsets.

An item precedes another one of its key if it was acknowledged before the other one was put in. Of both what counts is
when they first came out: giving them again later, from an earlier place on, is no disorder. What never came out is no
disorder either. A recorded order proves one only where the client that was given the first item had asked for it after
the second one was recorded, or where one client was given both: clients record at the same time, and the threads of one
to which items are pushed do, too. From the first dequeue without an answer on nothing is proven: it may have been given
anything.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chaos.driver import Evidence
from chaos.findings import Findings, decide
from chaos.law import Key, Law, Partial
from chaos.law import Rows as LawRows
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts.arrays import Ints, parts
from checkers._facts.exchanges import READS, Exchanges, item
from checkers.deliveries.promise import OUT_OF_ORDER, PROMISE

_NEVER = np.iinfo(np.int64).max


class ByKey(Law):
    promise = PROMISE
    key = Key.QUEUE
    reads = READS
    evidence = (Evidence.EXCHANGES,)
    part = "what came out in the order of its key"

    def examine(self, given: LawRows) -> Partial:
        rows, found = given.columns, Findings(PROMISE)
        known = rows.memo(Exchanges.of)
        code, names = rows.labels("key", known.puts.invoke)
        keyed = np.array([bool(name) for name in names], dtype=np.bool_)[code] & known.in_queue
        if not keyed.any():
            found.not_owed("no item had a key by which it is ordered")
            return found.partial()
        found.not_owed("")
        outs = _Outs(rows, known)
        acked = keyed & known.puts.ok & (outs.first < _NEVER)
        found.count("ordered", int(acked.sum()))
        for key, mine in parts(np.where(keyed & (outs.first < _NEVER), code, -1)).items():
            if key >= 0:
                _judge_key(rows, known, outs, mine, names[key], found)
        return found.partial()

    def judge(self, partial: Partial) -> Verdict:
        return decide(PROMISE, partial, needs=[("ordered", "no acknowledged item with a key came out")])


class _Outs:
    """When what was put in came out: an element for each put. ``first``: the ``index`` at which it first did.
    ``after``: no ``index`` before this one belongs to a moment at which it can have been given. ``client``: the code of
    the process that was given it every time because it had asked, -1 where there are several, or it was pushed.
    ``unanswered``: the first dequeue without an answer."""

    def __init__(self, rows: Rows, known: Exchanges) -> None:
        index, process = rows.column("index")[known.outs], rows.column("process")[known.outs].astype(np.int64)
        mine = np.where(known.asked >= 0, process, -1)
        self.first = known.first_out(index)
        self.after = known.first_out(known.asked)
        last = -known.first_out(-mine)
        self.client = np.where(known.first_out(mine) == last, last, -1)
        dequeues = facts.calls(rows, "dequeue")
        self.unanswered = int(dequeues.began[~dequeues.ok & ~dequeues.failed].min(initial=_NEVER))


def _judge_key(rows: Rows, known: Exchanges, outs: _Outs, mine: Ints, key: str, found: Findings) -> None:
    """Report of each item that overtook another one of its key which; whether that is proven decides between a
    violation and a gap."""
    unproven = 0
    for one, overtaken, proven in _overtakers(known, outs, mine):
        if not proven or outs.first[one] > outs.unanswered:
            unproven += 1
            continue
        _report(rows, known, outs, one, overtaken, key, found)
    if unproven:
        found.gap(
            f"{unproven} items of key {key[:40]} are recorded before one that was put in earlier, but clients record"
            " at the same time, or a dequeue had no answer, so nothing shows in which order they were given"
        )


def _overtakers(known: Exchanges, outs: _Outs, mine: Ints) -> Iterator[tuple[int, int, bool]]:
    """Yield items that are recorded before one that precedes them, which that is, and whether they surely came before
    it. ``mine`` are in the order in which they were put in."""
    puts = known.puts
    acked = mine[puts.ok[mine]]
    acked = acked[np.argsort(puts.ended[acked], kind="stable")]
    latest: dict[int, int] = {}  # by client, of those so far: the one that this client was first given last
    seen = asked = -1
    place = 0
    for one in mine.tolist():
        while place < len(acked) and puts.ended[acked[place]] < puts.began[one]:
            other = int(acked[place])
            seen = other if seen < 0 or outs.first[other] > outs.first[seen] else seen
            asked = other if asked < 0 or outs.after[other] > outs.after[asked] else asked
            client = int(outs.client[other])
            if client >= 0 and (client not in latest or outs.first[other] > outs.first[latest[client]]):
                latest[client] = other
            place += 1
        if seen < 0 or outs.first[seen] < outs.first[one]:
            continue
        same = latest.get(int(outs.client[one]), -1)
        if outs.after[asked] > outs.first[one]:
            yield one, asked, True
        elif same >= 0 and outs.first[same] > outs.first[one]:
            yield one, same, True
        else:
            yield one, seen, False


def _report(rows: Rows, known: Exchanges, outs: _Outs, one: int, overtaken: int, key: str, found: Findings) -> None:
    index, puts = rows.column("index"), known.puts
    first, second = (int(np.searchsorted(index, outs.first[number])) for number in (one, overtaken))
    found.add(
        OUT_OF_ORDER,
        f"Item {item(rows, int(puts.invoke[one]))} of key {key[:40]} came out at {facts.at_s(rows, first)}, before item"
        f" {item(rows, int(puts.invoke[overtaken]))}, which had been acknowledged before it was put in and came out at"
        f" {facts.at_s(rows, second)}.",
        *(int(index[at]) for at in (puts.invoke[overtaken], puts.done[overtaken], puts.invoke[one], first, second)),
        queue=int(rows.column("queue")[first]),
        message=int(rows.column("message")[first]),
        acted_ns=int(facts.since_load_ns(rows, np.array([first]))[0]),
    )
