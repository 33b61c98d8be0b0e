"""What was once read or confirmed never changes and is never taken back, whichever replica is master."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from chaos.driver import Evidence
from chaos.judging.findings import Findings, decide
from chaos.law import AnomalyKind, Key, Needs, Partial, Promise, Rows, RunContext
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _views as views
from checkers._views import losses, reads, retention
from checkers._views.arrays import Flags, Highest, Ints, among, any_in, distinct, only, stable_order
from checkers._views.nodes import cuts, logs, own_logs
from checkers._views.nodes.cuts import CONFIRM_ROLLBACK
from checkers._views.reads import own

ROLLBACK = "rollback"
CONFIRM_BEYOND_SET = "confirm-beyond-set"
MAX_OFFSET_REGRESSION = "max-offset-regression"
PROMISE = Promise(
    name="no-rollback",
    place=30,
    meaning="What was read stays, and what was confirmed stays, whichever replica is master.",
    anomalies=(
        AnomalyKind(name=ROLLBACK, meaning="an offset that was read holds another message later, or none"),
        AnomalyKind(
            name=CONFIRM_ROLLBACK,
            meaning="what a replica had confirmed is gone from its log, or from that of a later master",
        ),
        AnomalyKind(
            name=CONFIRM_BEYOND_SET, meaning="a master confirmed what a member of its SyncStateSet did not have"
        ),
        AnomalyKind(
            name=MAX_OFFSET_REGRESSION, meaning="a master showed a lower end of a queue than a replica had shown before"
        ),
    ),
)


READ = Needs(
    part="what clients read",
    key=Key.OFFSET,
    rows=(
        own("op", "send", "pull", "bounds", "delivered"),
        *(*losses.TERMS, reads.FIRST_ANSWERS, reads.beside("op", "drain"), *reads.RETENTION_OF_PARTS),
    ),
    columns=(*reads.BASIC, *reads.OPERATIONS, *reads.RECORDS, *reads.LIVES),
    uses=(Use.QUEUES,),
    on_prefix=True,
)
CONTENT = Needs(
    part="what clients read",
    key=Key.OFFSET,
    rows=(own("op", "delivered"), *losses.TERMS, *(*reads.FINAL_LOGS, *reads.CONFIRMED_APPENDS)),
    columns=(*reads.BASIC, *reads.OPERATIONS, *reads.RECORDS, *reads.LIVES),
    uses=(Use.QUEUES,),
    on_prefix=True,
)
OWN_LOG = Needs(
    part="what replicas confirmed",
    key=Key.NODE,
    rows=(
        own("trace", *own_logs.TAKES),
        own_logs.own_log("confirm", "acked", "retention"),
        own("final", "node"),
        reads.RUN,
    ),
    columns=(*reads.BASIC, *reads.LIVES, "epoch", "position"),
    evidence=(Evidence.CONFIRM,),
    on_prefix=True,
)
#: Under a weaker profile a node's own log is judged beside the terms of all.
UNDER_CUTS = Needs(
    part="what replicas confirmed, under weaker profiles",
    key=Key.RUN,
    rows=(own("trace", *own_logs.TAKES), *losses.CONFIRMS, own("final", "node"), *losses.TERMS_OF_RUN),
    columns=(*reads.BASIC, *losses.COLUMNS, "position"),
    evidence=(Evidence.CONFIRM,),
)
OTHERS = Needs(
    part="what others had of it",
    key=Key.RUN,
    rows=(*reads.CONFIRMED_BY_OTHERS, losses.TAKEN, own("trace", "role"), *losses.TERMS_OF_RUN),
    columns=(*reads.BASIC, *losses.COLUMNS, "position"),
    evidence=(Evidence.CONFIRM,),
    on_prefix=True,
)
#: What a member of the set had, by whose word.
REPORTED, ON_DISK, TAKEN = "reported only {} to it", "only {} on its disk", "taken only {}"
#: What shows a queue's end to readers, and all that shows it.
SHOWN = ("pull", "bounds")
ANSWERS = ("send", *SHOWN)
#: Of a queue, the values that were the highest when they came, and their places.
_Records = Callable[[int], tuple[Ints, Ints]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


@dataclass(frozen=True, slots=True)
class Read:
    """Answers: a queue's end as masters report it does not fall, and what was read is there in the end."""

    promise: Promise = PROMISE
    needs: Needs = READ

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        read = rows.memo(views.read)
        found.count("read", len(read.at))
        if context.unfinished and not context.strict:  # what permits a cut may be reported later
            return found.partial()
        if context.unfinished and Evidence.ROLES in context.evidence and not rows.memo(views.masters):
            return found.partial()  # a master that reports its role will show which of the answers count
        if Evidence.CONFIRM in context.evidence and context.profile.acks == "all":
            _ends_do_not_fall(rows, context, found, of=ANSWERS, by=ANSWERS, slaves=context.strict)
        else:  # an acknowledgement may come before readers see the message
            _ends_do_not_fall(rows, context, found, of=SHOWN, by=SHOWN)
            _ends_do_not_fall(rows, context, found, of=("send",), by=ANSWERS)
        if not context.unfinished:  # what permits a message to be gone may be reported later, and so may the message
            _nothing_vanishes(rows, context, found)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return _decide(partial, context)


@dataclass(frozen=True, slots=True)
class Content:
    """Answers: what was read at an offset stays its content, in later reads, and in logs that are confirmed."""

    promise: Promise = PROMISE
    needs: Needs = CONTENT

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        read = rows.memo(views.read)
        found.count("read", len(read.at))
        if context.unfinished and not context.strict:
            return found.partial()
        held = views.join(rows.memo(views.confirmed_appends), rows.memo(views.final_log))
        index, queue, offset = (rows.column(name) for name in ("index", "queue", "offset"))
        claims, conflicts = losses.contradictions(rows, context, found, views.join(read, held))
        is_read = rows.column("f")[claims.at] == rows.code("f", "delivered")
        conflicts = conflicts[is_read[conflicts[:, 0]]]  # of the others nobody has read what is at the offset

        def report(number: int) -> None:
            first, other = conflicts[number].tolist()
            one, two = int(claims.at[first]), int(claims.at[other])
            what = "was read there later" if is_read[other] else "stands there, confirmed, in a log"
            found.add(
                ROLLBACK,
                f"Queue {int(queue[one])}, offset {int(offset[one])} was read at {views.at_s(rows, one)} from "
                f"{rows.text('node', one) or 'the system'}; another message {what}: "
                f"{views.who(rows.text('node', two), int(rows.column('epoch')[two]))}.",
                int(index[one]),
                int(index[two]),
                queue=int(queue[one]),
                offset=int(offset[one]),
                message=int(rows.column("message")[one]),
            )

        found.add_each(ROLLBACK, np.arange(len(conflicts)), report, queues=claims.queue[conflicts[:, 0]])
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        counts = {name: number for name, number in partial.counts.items() if name != "read"}  # the other kernel's
        return replace(_decide(partial, context), counts=counts)


def _decide(partial: Partial, context: RunContext) -> Verdict:
    needs = [("read", "nothing was read, so nothing could roll back")]
    return decide(PROMISE, partial, needs=needs, unless=context.no_queues)


def _nothing_vanishes(rows: Rows, context: RunContext, found: Findings) -> None:
    """Check that what was read is there at the end, acknowledged or not, unless the queue begins above it by then:
    wherever the queue was drained beyond it, the drain was given a message at its offset."""
    queue, offset, index = (rows.column(name) for name in ("queue", "offset", "index"))
    once = _read_once(rows)
    drains = views.calls(rows.beside, "drain")
    asked, done = only(drains.ok, drains.invoke, drains.done)
    asked, done = only(among(queue[asked], queue[once]), asked, done)
    drained = distinct(queue[asked])
    floors = retention.lawful_floors(rows.beside, context, drained)[0]
    floor = floors[np.searchsorted(drained, queue[asked])]
    begin, end = np.maximum(offset[asked], floor), offset[done]
    gone, drain = _each_with_drains(once, queue, queue[asked])
    missed = (offset[gone] >= begin[drain]) & (offset[gone] < end[drain])
    gone, drain = gone[missed], drain[missed]
    order, firsts = views.groups(drain, offset[gone])
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
            f"Queue {int(queue[at])}, offset {int(offset[at])} was read at {views.at_s(rows, at)} from "
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
    read, final = rows.memo(views.delivered).at, rows.memo(views.drain_reads)
    grid = rows.memo(views.places)
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
    at most ``most`` at some time after the question left (row ``asked``). ``judged``: whether it may be too low."""

    asked: Ints
    epoch: Ints
    queue: Ints
    least: Ints
    most: Ints
    at: Ints
    judged: Flags


def _ends(rows: Rows, of: Sequence[str], by: Sequence[str], *, slaves: bool) -> _Ends:
    """Return what answers say of ends. Those of other parts of the queue are known and not judged, nor are those of
    ``slaves``, which may be behind: what they show to readers is confirmed, so each later master has it."""
    parts, own, rows = [], rows.own, rows.beside
    for f in by:
        found = views.calls(rows, f)
        asked, done = only(found.ok, found.invoke, found.done)
        by_master = views.from_masters(rows, done)
        binds = by_master | (views.ask_replica(rows, asked) & (rows.column("epoch")[done] >= 0) & slaves)
        asked, done, by_master = only(binds, asked, done, by_master)
        if f == "send":
            most = rows.column("offset")[done]
            least = most + 1
        else:
            least = most = rows.numbers("maximum", done)
        epoch, queue = rows.column("epoch")[done], rows.column("queue")[done]
        judged = own[done] & by_master & (f in of)
        parts.append(only(most >= 0, asked, epoch, queue, least, most, done, judged))
    return _Ends(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _ends_do_not_fall(
    rows: Rows, context: RunContext, found: Findings, *, of: Sequence[str], by: Sequence[str], slaves: bool = False
) -> None:
    """Check of each answer ``of`` these kinds that no answer ``by`` these, of an epoch up to its own, that was complete
    before it was asked shows a higher end, unless the profile permits that this is gone. Where a queue is parted, of
    each part those are enough that came first."""
    ends = _ends(rows, of, by, slaves=slaves)
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
    for epoch in distinct(ends.epoch[judged]).tolist():
        binding, later = binds & (ends.epoch <= epoch), judged & (ends.epoch == epoch)
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
        f"{views.who(rows.text('node', one), int(ends.epoch[high]))} had shown at {views.at_s(rows, one)} "
        f"that queue {int(ends.queue[answer])} ends at {int(ends.least[high])} or later, but "
        f"{views.who(rows.text('node', two), int(ends.epoch[answer]))} {what} at {views.at_s(rows, two)}.",
        int(index[one]),
        int(index[ends.asked[answer]]),
        int(index[two]),
        queue=int(ends.queue[answer]),
        offset=int(ends.most[answer]),
    )


@dataclass(frozen=True, slots=True)
class OwnLog:
    """What a replica has called confirmed stays in its own log, and what a master gives an ok for is confirmed."""

    promise: Promise = PROMISE
    needs: Needs = OWN_LOG

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        confirms = rows.where(kind="trace", f="confirm")
        summary = Partial(counts={"confirming_nodes": len(_one_each(rows, confirms))})
        return summary.merge(_own_logs(rows, context)) if context.strict else summary

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decide(PROMISE, partial, needs=[("confirming_nodes", "no replica reported its confirm offset")])


@dataclass(frozen=True, slots=True)
class UnderCuts:
    """The same under a weaker profile: what it permits to be cut, a replica need not keep."""

    promise: Promise = PROMISE
    needs: Needs = UNDER_CUTS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        return Partial() if context.strict or context.unfinished else _own_logs(rows, context)

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decide(PROMISE, partial)  # whether anything was confirmed at all, the other kernel says


def _own_logs(rows: Rows, context: RunContext) -> Partial:
    """Judge each replica's log by itself, so that what is reported does not depend on who shares a shard."""
    confirms, acked = (rows.where(kind="trace", f=f) for f in ("confirm", "acked"))
    permits = losses.cuts(rows, context, confirmed=True)
    masters, summary = np.zeros(len(rows), dtype=np.bool_), Partial()
    for form in rows.memo(views.confirm_forms):
        masters[confirms[form.at]] = "set" in form.value
    for node in sorted({rows.text("node", at) for f in (confirms, acked) for at in _one_each(rows, f)}):
        found = Findings(PROMISE)
        if len(rows.where(kind="trace", f="confirm", node=node)):
            log = cuts.never_cut_below(rows, found, node, masters, permits)
            if not context.unfinished:  # else the node may have reported since then why its log is shorter
                cuts.ends_with_all(rows, found, node, log)
        if context.profile.acks == "all":
            _what_is_acked_is_confirmed(rows, found, node)
        summary = summary.merge(found.partial())
    return summary


@dataclass(frozen=True, slots=True)
class Others:
    """What a master has called confirmed each member that it counts on has, and every later master."""

    promise: Promise = PROMISE
    needs: Needs = OTHERS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        if context.strict or not context.unfinished:
            confirms = rows.where(kind="trace", f="confirm")
            _masters_have_all(rows, context, found, confirms)
            _whole_set_has(rows, context, found, confirms)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decide(PROMISE, partial)  # whether anything was confirmed at all, the other kernel says


def _one_each(rows: Rows, at: Ints) -> Ints:
    _, first = np.unique(rows.column("node")[at], return_index=True)
    return at[first]


@dataclass(frozen=True, slots=True)
class _Lack:
    """Confirms, by their places, that ``member`` of the set did not have: it had only ``had``, on its disk or
    acknowledged."""

    member: str
    where: str
    place: Ints
    had: Ints


def _whole_set_has(rows: Rows, context: RunContext, found: Findings, confirms: Ints) -> None:
    """Check that each member that a master counts on has reported to it what it calls confirmed, and has that on its
    disk, or under asynchronous flush has taken it (in a simulated run: by then; elsewhere: at some time, which may come
    as long as the run goes on)."""
    index, end = rows.column("index")[confirms], rows.column("position")[confirms]
    durably = context.profile.flush == "sync"
    ends = rows.memo(views.durable_ends if durably else logs.taken_ends)
    had = ON_DISK if durably else TAKEN
    lacks: list[_Lack] = []
    silent: dict[str, int] = {}
    for form in rows.memo(views.confirm_forms):
        acks = form.value.get("acks")
        for member in {*(form.value.get("set") or ()), *(form.value.get("proposed") or ())}:
            said = form.whole(acks.get(member, -1)) if isinstance(acks, dict) else end[form.at]
            less = said < end[form.at]
            lacks.append(_Lack(member, REPORTED, form.at[less], said[less]))
            asked = form.at[~less]
            if context.unfinished and not context.one_clock:
                continue
            if member in ends:
                durable = _durable(context, *ends[member], index[asked])
                less = durable < end[asked]
                if views.may_lack_ends(rows) and less.any():
                    found.gap(views.ENDS_LACKING.format(member))
                else:
                    lacks.append(_Lack(member, had, asked[less], durable[less]))
            elif len(asked):
                silent[member] = min(int(asked[0]), silent.get(member, views.NEVER))
    for _, member in sorted((place, member) for member, place in silent.items()):
        found.gap(f"{member} reported nothing of what is durable on its disk")
    _report_lacks(rows, found, confirms, lacks)


def _durable(context: RunContext, indexes: Ints, ends: Ints, at_index: Ints) -> Ints:
    """Return how far a replica's log was on its disk when these rows were written, -1 where it had reported nothing."""
    if not context.one_clock:
        return np.full(len(at_index), ends.max())
    return np.append(-1, ends)[np.searchsorted(indexes, at_index, side="right")]


def _report_lacks(rows: Rows, found: Findings, confirms: Ints, lacks: Sequence[_Lack]) -> None:
    """Report them in the order of the confirms, and of the members' names."""
    lacks = sorted((lack for lack in lacks if len(lack.place)), key=lambda lack: lack.member)
    which = np.repeat(np.arange(len(lacks)), [len(lack.place) for lack in lacks])
    place, had = (
        np.concatenate([*columns, confirms[:0]]) for columns in ([x.place for x in lacks], [x.had for x in lacks])
    )

    def report(number: int) -> None:
        lack, at = lacks[which[number]], int(confirms[place[number]])
        _report_beyond(
            rows,
            found,
            at,
            f"called position {int(rows.column('position')[at])} confirmed, though {lack.member}, a member of its "
            f"SyncStateSet, had {lack.where.format(max(0, int(had[number])))}",
        )

    found.add_each(CONFIRM_BEYOND_SET, np.lexsort((which, place)), report)


def _what_is_acked_is_confirmed(rows: Rows, found: Findings, node: str) -> None:
    """Check that what a master gives an ok for is confirmed."""
    position = rows.column("position")
    acked = rows.where(kind="trace", f="acked", node=node)
    early = acked[rows.numbers("confirm", acked) < position[acked]]
    known = [form.at for form in rows.forms(early) if isinstance(form.value.get("confirm"), int | np.ndarray)]

    def report(at: int) -> None:
        what = f"that ends at {int(position[at])}, when it had confirmed {rows.value(at).get('confirm')}"
        _report_beyond(rows, found, at, f"gave an ok for a record {what}")

    found.add_each(CONFIRM_BEYOND_SET, early[np.sort(np.concatenate([*known, early[:0]]))], report)


def _report_beyond(rows: Rows, found: Findings, at: int, what: str) -> None:
    found.add(
        CONFIRM_BEYOND_SET,
        f"{rows.text('node', at)}, master of epoch {int(rows.column('epoch')[at])}, {what} ({views.at_s(rows, at)}).",
        int(rows.column("index")[at]),
    )


def _masters_have_all(rows: Rows, context: RunContext, found: Findings, confirms: Ints) -> None:
    """Check that the log of a new master reaches every position that was confirmed under an older epoch, but what the
    profile permits to be gone by then."""
    permits = losses.cuts(rows, context, confirmed=True)
    position, epoch, index = (rows.column(name) for name in ("position", "epoch", "index"))
    by_epoch = confirms[np.argsort(epoch[confirms], kind="stable")]
    highest = np.maximum.accumulate(position[by_epoch])
    for at in rows.where(kind="trace", f="role"):
        value = rows.value(at)
        start = value.get("start", -1)
        if value.get("role") != "master" or not isinstance(start, int) or start < 0:
            continue
        older = by_epoch[: int(np.searchsorted(epoch[by_epoch], epoch[at]))]
        if len(older) and int(highest[len(older) - 1]) > start:
            older = older[position[older] > start]
            permitted = permits.separate(rows, older, np.full(len(older), at))
            losses.note(found, rows, permits, older[permitted], np.full(int(permitted.sum()), at))
            if permitted.all():
                continue
            older = older[~permitted]
            witness = int(older[np.argmax(position[older])])
            found.add(
                CONFIRM_ROLLBACK,
                f"{rows.text('node', witness)} had confirmed position {int(position[witness])} in epoch "
                f"{int(epoch[witness])} at {views.at_s(rows, witness)}, but the log of {rows.text('node', at)} ended "
                f"at {start} when it became master of epoch {int(epoch[at])}.",
                int(index[witness]),
                int(index[at]),
            )


def create(options: Options) -> Sequence[Read | OwnLog | Content | Others | UnderCuts]:
    return (Read(), OwnLog(), Content(), Others(), UnderCuts())
