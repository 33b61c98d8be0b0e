"""No committed offset lies beyond the end of its queue."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.findings import Facts, Findings, joined
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import reads
from checkers._facts.arrays import Ints, among, distinct, places_in, tops
from checkers._facts.reads import own
from checkers.consumers.groups import Calls
from checkers.consumers.promise import COMMIT_BEYOND_END, PROMISE, SHOWN, decided_together

NEEDS = Needs(
    part="how far queues went",
    key=Key.OFFSET,
    rows=(
        own("op", "send", "pull", "delivered", "bounds", "commit", "committed"),
        *(reads.RUN, *reads.FINAL_LOGS, *reads.CONFIRMED_APPENDS, reads.beside("op", "drain")),
    ),
    columns=(*reads.BASIC, *reads.OPERATIONS, *reads.RECORDS, *reads.LIVES),
    uses=(Use.QUEUES,),
)
#: What is reported of an offset that lies beyond all that a shard knows: of the call, its begin and its end.
_COLUMNS = ("queue", "offset", "began", "row", "since_ns")
#: What a group did with such an offset, in the order in which it is reported.
_HOW = ("committed", "was given")


@dataclass(frozen=True, slots=True)
class Reached:
    """Each shard reports how far it knows the queues to go, and which offsets lie beyond that."""

    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        known, ends = _ends(rows)
        found.fact(known=known.tolist(), ends=ends.tolist())
        if context.meta.has_gaps:
            drains = facts.calls(rows.beside, "drain")
            found.fact(drained=distinct(rows.column("queue")[drains.invoke[drains.ok]]).tolist())
        for f, how in zip(("commit", "committed"), _HOW, strict=True):
            calls = Calls.of(rows, f)
            for name, places in calls.by_group().items():
                mine = calls.only(places)
                if f == "commit":
                    found.fact(**{SHOWN: bool(mine.ok.any())}, group=name, committed=distinct(mine.queue).tolist())
                _note_beyond(rows, found, how, mine, known, ends)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decided_together(partial, context, beyond)


def _ends(rows: Rows) -> tuple[Ints, Ints]:
    """Return the queues, ascending, and of each the end of all that answers and logs reported."""
    seen = [rows.memo(facts.acknowledged_tops), rows.memo(facts.read_tops)]
    seen += [(claims.queue, claims.offset) for claims in map(rows.memo, (facts.final_log, facts.confirmed_appends))]
    for f in ("pull", "bounds"):
        answers = facts.calls(rows, f)
        done = answers.done[answers.ok]
        seen.append((rows.column("queue")[done], rows.numbers("maximum", done) - 1))
    queues, last = tops(*(np.concatenate(column) for column in zip(*seen, strict=True)))
    return queues, last + 1


def _beyond(queue: Ints, offset: Ints, known: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Return the places of these offsets that lie beyond the ends of their queues; and of all of them the ends, 0 for a
    queue that is not known."""
    place, there = places_in(known, queue)
    end = np.zeros(len(queue), dtype=np.int64)
    end[there] = ends[place[there]]
    return np.flatnonzero(offset > end), end


def _note_beyond(rows: Rows, found: Findings, how: str, calls: Calls, known: Ints, ends: Ints) -> None:
    answered = calls.only(calls.ok)
    mine = answered.only(_beyond(answered.queue, answered.offset, known, ends)[0])
    if len(mine.queue):
        since_ns = facts.since_load_ns(rows, mine.done)
        values = (mine.queue, mine.offset, mine.began, rows.column("index")[mine.done], since_ns)
        columns = {name: column.tolist() for name, column in zip(_COLUMNS, values, strict=True)}
        found.fact(beyond=str(mine.group[0]), how=how, **columns)


def beyond(reported: Facts) -> Partial:
    """Find commits beyond the end in the facts of all shards, of groups that committed in the queue. Where offsets have
    gaps, groups may commit behind them what nobody was told of, so that only in queues that were read to their end it
    is known where they end."""
    found = Findings(PROMISE)
    gaps = any("drained" in fact for fact in reported)
    ends = tops(*joined(reported, "known", "ends"))
    for group in sorted({str(fact["group"]) for fact in reported if "group" in fact}):
        (queues,) = joined((fact for fact in reported if fact.get("group") == group), "committed")
        if gaps:
            queues = queues[among(queues, joined(reported, "drained")[0])]
        for how in _HOW:
            columns = joined(
                (fact for fact in reported if fact.get("beyond") == group and fact["how"] == how), *_COLUMNS
            )
            order = np.argsort(columns[_COLUMNS.index("began")])
            order = order[places_in(distinct(queues), columns[0][order])[1]]
            _report_beyond(found, f"Group {group} {how}", *ends, *(column[order] for column in columns))
    return found.partial()


def _report_beyond(
    found: Findings, who: str, known: Ints, ends: Ints, queue: Ints, offset: Ints, _: Ints, row: Ints, since_ns: Ints
) -> None:
    wrong, end = _beyond(queue, offset, known, ends)

    def report_one(item: int) -> None:
        found.add(
            COMMIT_BEYOND_END,
            f"{who} offset {int(offset[item])} of queue {int(queue[item])} at {facts.in_s(int(since_ns[item]))}, but "
            f"the queue never went beyond {int(end[item])}.",
            int(row[item]),
            queue=int(queue[item]),
            offset=int(offset[item]),
        )

    found.add_each(COMMIT_BEYOND_END, wrong, report_one, queues=queue[wrong], acted_ns=since_ns[wrong])
