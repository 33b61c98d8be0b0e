"""What clients were given: the end of a queue does not fall, and what was read is there in the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from chaos.driver import Evidence
from chaos.findings import Findings
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import losses, reads, retention
from checkers._facts.arrays import Flags, Highest, Ints, among, any_in, distinct, only, stable_order
from checkers._facts.reads import own
from checkers.no_rollback.promise import MAX_OFFSET_REGRESSION, PROMISE, ROLLBACK, decided

READ = Needs(
    part="what clients read",
    key=Key.OFFSET,
    rows=(
        own("op", "send", "pull", "bounds", "delivered"),
        *(*losses.TERMS, reads.FIRST_ANSWERS, reads.beside("op", "drain"), *reads.RETENTION),
    ),
    columns=(*reads.BASIC, *reads.OPERATIONS, *reads.RECORDS, *reads.LIVES),
    uses=(Use.QUEUES,),
    lookups=(retention.TRIMMED,),
    on_prefix=True,
)

#: What shows a queue's end to readers, and all that shows it.
SHOWN = ("pull", "bounds")

ANSWERS = ("send", *SHOWN)

#: Of a queue, the values that were the highest when they came, and their places.
_Records = Callable[[int], tuple[Ints, Ints]]


@dataclass(frozen=True, slots=True)
class Read:
    """Answers: a queue's end as masters report it does not fall, and what was read is there in the end."""

    promise: Promise = PROMISE
    needs: Needs = READ

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        read = rows.memo(facts.read)
        found.count("read", len(read.at))
        if context.unfinished and not context.strict:  # what permits a cut may be reported later
            return found.partial()
        if context.unfinished and Evidence.ROLES in context.evidence and not rows.memo(facts.masters):
            return found.partial()  # a master that reports its role will show which of the answers count
        if context.meta.has_transactions:  # pulls may name the end of what is decided, and bounds that of the log
            _ends_do_not_fall(rows, context, found, of=("pull",), by=("pull",))
            _ends_do_not_fall(rows, context, found, of=("bounds",), by=("bounds",))
            _ends_do_not_fall(rows, context, found, of=("send",), by=ANSWERS)
        elif _readers_see_acknowledged(context):
            _ends_do_not_fall(rows, context, found, of=ANSWERS, by=ANSWERS, slaves=context.strict)
        else:  # an acknowledgement may come before readers see the message
            _ends_do_not_fall(rows, context, found, of=SHOWN, by=SHOWN)
            _ends_do_not_fall(rows, context, found, of=("send",), by=ANSWERS)
        if not context.unfinished:  # what permits a message to be gone may be reported later, and so may the message
            _nothing_vanishes(rows, context, found)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decided(partial, context)


def _readers_see_acknowledged(context: RunContext) -> bool:
    """Return whether what is acknowledged is shown to readers from then on."""
    reports = Evidence.CONFIRM in context.evidence or facts.are_confirmed(context)
    return reports and context.profile.acks == "all"


def _nothing_vanishes(rows: Rows, context: RunContext, found: Findings) -> None:
    """Check that what was read is there at the end, acknowledged or not, unless the queue begins above it by then:
    wherever the queue was drained beyond it, the drain was given a message at its offset."""
    queue, offset, index = (rows.column(name) for name in ("queue", "offset", "index"))
    once = _read_once(rows)
    drains = facts.calls(rows.beside, "drain")
    asked, done = only(drains.ok, drains.invoke, drains.done)
    asked, done = only(among(queue[asked], queue[once]), asked, done)
    drained = distinct(queue[asked])
    floors = retention.lawful_floors(rows.beside, context, drained)[0]
    floor = floors[np.searchsorted(drained, queue[asked])]
    begin, end = np.maximum(offset[asked], floor), offset[done]
    gone, drain = _each_with_drains(once, queue, queue[asked])
    missed = (offset[gone] >= begin[drain]) & (offset[gone] < end[drain])
    gone, drain = gone[missed], drain[missed]
    order, firsts = facts.groups(drain, offset[gone])
    once = np.sort(order[firsts])
    gone, drain = gone[once], drain[once]
    permits = losses.cuts_of_read(rows.beside, context)
    permitted = permits.loosened(rows, gone)
    losses.note(found, rows, permits, gone[permitted])
    gone, drain = gone[~permitted], drain[~permitted]

    def report(number: int) -> None:
        at, until = int(gone[number]), int(done[drain[number]])
        found.add(
            ROLLBACK,
            f"Queue {int(queue[at])}, offset {int(offset[at])} was read at {facts.at_s(rows, at)} from "
            f"{rows.text('node', at) or 'the system'}; the final reading of the queue, up to offset "
            f"{int(offset[until])}, was given no message there.",
            int(index[at]),
            int(index[until]),
            queue=int(queue[at]),
            offset=int(offset[at]),
            message=int(rows.column("message")[at]),
        )

    found.add_each(ROLLBACK, np.arange(len(gone)), report, queues=queue[gone])


def _read_once(rows: Rows) -> Ints:
    """Return messages that were read at places where the final reading was given none."""
    read, final = rows.memo(facts.delivered).at, rows.memo(facts.drain_reads)
    grid = rows.memo(facts.places)
    place = grid.places(rows.column("queue")[read], rows.column("offset")[read])
    return read[~final & ~any_in(place[final], grid.count)[place]]


def _each_with_drains(at: Ints, queue: Ints, drained: Ints) -> tuple[Ints, Ints]:
    """Return rows, each with every drain of its queue, by drain; ``drained`` has the queue of each drain."""
    by_queue = np.argsort(drained, kind="stable")
    first, last = (np.searchsorted(drained[by_queue], queue[at], side=side) for side in ("left", "right"))
    number = last - first
    before = np.repeat(np.cumsum(number) - number, number)
    drain = by_queue[np.repeat(first, number) + np.arange(len(before)) - before]
    order = stable_order(drain)
    return np.repeat(at, number)[order], drain[order]


@dataclass(frozen=True, slots=True)
class _Ends:
    """What answers say of a queue's end: it was at least ``least`` when the answer came (row ``at``), and
    at most ``most`` at some time after the question left (row ``asked``). ``judged``: whether it may be too low.
    ``last``: whether it is what masters say only while they are known to be those of the last epoch."""

    asked: Ints
    epoch: Ints
    queue: Ints
    least: Ints
    most: Ints
    at: Ints
    judged: Flags
    last: Flags


def _ends(rows: Rows, of: Sequence[str], by: Sequence[str], *, slaves: bool, are_confirmed: bool) -> _Ends:
    """Return what answers say of ends. Those of other parts of the queue are known and not judged, nor are those of
    ``slaves``, which may be behind: what they show to readers is confirmed, so each later master has it."""
    parts, own, rows = [], rows.own, rows.beside
    for f in by:
        found = facts.calls(rows, f)
        asked, done = only(found.ok, found.invoke, found.done)
        by_master = facts.from_masters(rows, done)
        binds = by_master | (facts.ask_replica(rows, asked) & (rows.column("epoch")[done] >= 0) & slaves)
        asked, done, by_master = only(binds, asked, done, by_master)
        if f == "send":
            most = rows.column("offset")[done]
            least = most + 1
        else:
            least = most = rows.numbers("maximum", done)
        epoch, queue = rows.column("epoch")[done], rows.column("queue")[done]
        judged = own[done] & by_master & (f in of)
        last = np.full(len(done), are_confirmed and f in SHOWN)
        if f == "pull":  # with messages there may come an end that is old
            last &= most <= rows.column("offset")[asked]
        parts.append(only(most >= 0, asked, epoch, queue, least, most, done, judged, last))
    return _Ends(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _ends_do_not_fall(
    rows: Rows, context: RunContext, found: Findings, *, of: Sequence[str], by: Sequence[str], slaves: bool = False
) -> None:
    """Check of each answer ``of`` these kinds that no answer ``by`` these, of an epoch up to its own (or of any, where
    it is confirmed), that was complete before it was asked shows a higher end, unless the profile permits that this is
    gone. Where a queue is parted, of each part those are enough that came first."""
    ends = _ends(rows, of, by, slaves=slaves, are_confirmed=facts.are_confirmed(context))
    found.count("ends", int(ends.judged.sum()))
    permits = losses.cuts(rows.beside, context, confirmed=False)
    of_read = losses.cuts_of_read(rows.beside, context)
    only_producers = np.full(len(ends.at), len(of_read.every) == len(permits.every))
    only_producers |= rows.column("f")[ends.at] == rows.code("f", "send")
    for later, binding in permits.stretches(rows.beside, ends.at, ends.at, only_producers):
        _no_fall_among(rows, found, ends, ends.judged & later, binding)
    if len(permits.certain.every) < len(permits.every):
        sure = Findings(PROMISE)
        for later, binding in permits.certain.stretches(rows.beside, ends.at, ends.at, only_producers):
            _no_fall_among(rows, sure, ends, ends.judged & later, binding)
        if sure.partial().anomalies and not found.partial().anomalies:
            found.gap(losses.UNDECIDED)


def _no_fall_among(rows: Rows, found: Findings, ends: _Ends, judged: Flags, binds: Flags) -> None:
    epochs = distinct(ends.epoch[judged & ~ends.last]).tolist()
    by_epoch = [(ends.epoch <= epoch, ~ends.last & (ends.epoch == epoch)) for epoch in epochs]
    for older, of_epoch in (*by_epoch, (np.ones(len(binds), dtype=np.bool_), ends.last)):
        binding, later = binds & older, judged & of_epoch
        queue, at, least, known = only(binding, ends.queue, ends.at, ends.least, np.arange(len(binding)))
        high = Highest(queue, at, least, len(rows))
        records = cache(high.records)
        queue, asked, most, number = only(later, ends.queue, ends.asked, ends.most, np.arange(len(later)))
        fallen = number[most < high.before(queue, asked)]
        found.add_each(
            MAX_OFFSET_REGRESSION,
            fallen,
            partial(_report_fallen, rows, found, ends, records, known),
            queues=ends.queue[fallen],
            acted_ns=facts.since_load_ns(rows, ends.at[fallen]),
        )


def _report_fallen(rows: Rows, found: Findings, ends: _Ends, records: _Records, known: Ints, answer: int) -> None:
    """Report an answer with a lower end. ``records``: of the ends that bind it; ``known``: their places among all."""
    index = rows.column("index")
    highest, places = records(int(ends.queue[answer]))
    high = int(known[places[np.searchsorted(highest, ends.most[answer], side="right")]])
    one, two = int(ends.at[high]), int(ends.at[answer])
    what = (
        f"gave out offset {int(rows.column('offset')[two])}"
        if rows.text("f", two) == "send"
        else f"said the queue ends at {int(ends.most[answer])}"
    )
    found.add(
        MAX_OFFSET_REGRESSION,
        f"{facts.who(rows.text('node', one), int(ends.epoch[high]))} had shown at {facts.at_s(rows, one)} "
        f"that queue {int(ends.queue[answer])} ends at {int(ends.least[high])} or later, but "
        f"{facts.who(rows.text('node', two), int(ends.epoch[answer]))} {what} at {facts.at_s(rows, two)}.",
        int(index[one]),
        int(index[ends.asked[answer]]),
        int(index[two]),
        queue=int(ends.queue[answer]),
        offset=int(ends.most[answer]),
    )
