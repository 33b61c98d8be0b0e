"""Readers advance: they are given what is there, are sent on to the next message, and are not kept waiting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chaos.judging.findings import Findings, decide
from chaos.law import AnomalyKind, Key, Needs, Partial, Promise, Rows, RunContext
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _views as views
from checkers._views import reads, retention, service, tier, waits
from checkers._views.arrays import Flags, Ints, Line, among, any_in, distinct, places_in, slots
from checkers._views.ends import KnownEnds
from checkers._views.reads import everywhere, own
from checkers._views.service import Stretch

AVAILABLE_S = 10.0
#: Reads may take so many times as long as sends: each consumer asks for its queues in turn.
SLACK = 2
#: So many polls in vain, at least, make a stall.
POLLS = 3
STALLED = "stalled"
TIER_STALLED = "tier-stalled"
#: What a reader in vain waits for the master to do.
GIVE, UPLOAD = "give it what stands next", "upload what stands next to the tier"
WRONG_NEXT_OFFSET = "wrong-next-offset"
UNREADABLE = "unreadable"
PROMISE = Promise(
    name="progress",
    place=105,
    meaning="Readers are given what is there, are sent on to the next message, and are not kept waiting.",
    anomalies=(
        AnomalyKind(
            name=STALLED,
            meaning="readers polled for longer than the bound, got nothing, and confirmed messages were there",
        ),
        AnomalyKind(
            name=TIER_STALLED,
            meaning="after recovery the tier gave nothing new for longer than the bound, though the queue went on",
        ),
        AnomalyKind(
            name=WRONG_NEXT_OFFSET, meaning="an answer sent its reader back, or on past messages that are there"
        ),
        AnomalyKind(
            name=UNREADABLE, meaning="a retained offset was answered as empty, or as one that the queue does not have"
        ),
    ),
)


NEEDS = Needs(
    key=Key.QUEUE,
    rows=(
        own("op", "send", "pull", "delivered", "bounds", "commit", "committed", "drain"),
        *reads.SERVICE,
        *reads.RETENTION,
        everywhere("trace", "crash"),
    ),
    columns=(*reads.BASIC, *reads.OPERATIONS, "hash", "epoch", "position"),
    uses=(Use.QUEUES,),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


@dataclass(frozen=True, slots=True)
class Progress:
    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        pulls = _Pulls.of(rows)
        found.count("answered_reads", int((pulls.ok | pulls.failed).sum()))
        final = after_recovery(rows)
        owed = [*service.stretches(rows, context, bound_ns(context), of_reads=True), *final]
        ends = KnownEnds.of(rows, strict=context.strict)
        floor = _floor(rows, context, pulls)
        unreadable = _readable(rows, found, pulls, ends, floor)
        _next_offset(rows, context, found, pulls, floor, unreadable)
        _gets_on(rows, found, _Polls.of_readers(rows, pulls, ends), owed, Stall.of_reads(context))
        if final and tier.has_tier(context):
            _gets_on(rows, found, _Polls.of_tier(rows, context, pulls, ends), final, Stall.of_uploads(context))
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        """The counts also tell the longest times for which a reader, and one of the tier alone, polled in vain although
        it was owed an answer."""
        longest = {
            count: max((int(fact[count]) for fact in partial.facts if count in fact), default=0)
            for count in (Stall.of_reads(context).count, Stall.of_uploads(context).count)
        }
        summary = Partial(counts=longest)
        needs = [("answered_reads", "no read was answered: nothing tells whether readers come forward")]
        return decide(PROMISE, partial.merge(summary), needs=needs, unless=context.no_queues)


@dataclass(frozen=True, slots=True)
class _Pulls:
    """Pulls that asked for no certain replica. ``asked`` is the offset that they asked for, ``following`` the one to go
    on with, ``maximum`` and ``minimum`` the queue's ends, as answered (-1: not told); ``count`` messages came, the last
    of them at ``last``. ``by_master``: the master of the epoch that the answer tells gave it. ``demand``: what source
    was asked for."""

    invoke: Ints
    done: Ints
    began: Ints
    ok: Flags
    failed: Flags
    queue: Ints
    asked: Ints
    following: Ints
    minimum: Ints
    maximum: Ints
    epoch: Ints
    count: Ints
    last: Ints
    by_master: Flags
    demand: np.ndarray

    @classmethod
    def of(cls, rows: Rows) -> _Pulls:
        calls, read = rows.memo(views.pulls), rows.memo(views.delivered)
        offset, answered = rows.column("offset"), calls.done >= 0
        known = read.pull >= 0
        count = np.bincount(read.pull[known], minlength=len(calls.invoke)).astype(np.int64)
        last = np.full(len(calls.invoke), -1, dtype=np.int64)
        np.maximum.at(last, read.pull[known], offset[read.at[known]])
        by_master = np.zeros(len(calls.invoke), dtype=np.bool_)
        by_master[answered] = views.from_masters(rows, calls.done[answered])
        made = cls(
            invoke=calls.invoke,
            done=calls.done,
            began=calls.began,
            ok=calls.ok,
            failed=calls.failed,
            queue=rows.column("queue")[calls.invoke],
            asked=offset[calls.invoke],
            following=_told(rows, "following", calls.done),
            minimum=_told(rows, "minimum", calls.done),
            maximum=_told(rows, "maximum", calls.done),
            epoch=np.where(answered, rows.column("epoch")[calls.done], -1),
            count=count,
            last=last,
            by_master=by_master,
            demand=_words(rows, "demand", calls.invoke),
        )
        return made.only((_words(rows, "from", calls.invoke) == "") & (made.asked >= 0))

    def only(self, keep: Flags) -> _Pulls:
        return _Pulls(*(getattr(self, name)[keep] for name in self.__slots__))


def _words(rows: Rows, key: str, at: Ints) -> np.ndarray:
    """The text under this key of each row, "" where there is none."""
    code, words = rows.labels(key, at)
    return np.array(words, dtype=np.str_)[code]


def _told(rows: Rows, key: str, done: Ints) -> Ints:
    """A number of each answer, -1 where there is none or no answer."""
    found = np.full(len(done), -1, dtype=np.int64)
    found[done >= 0] = rows.numbers(key, done[done >= 0])
    return found


def _floor(rows: Rows, context: RunContext, pulls: _Pulls) -> Ints:
    """For each pull, below which offset messages may be gone. Where nothing tells what lawfully went, answers are
    believed."""
    queues, number = np.unique(pulls.queue, return_inverse=True)
    floor, known = retention.lawful_floors(rows, context, queues)
    told = np.zeros(len(queues), dtype=np.int64)
    np.maximum.at(told, number, pulls.minimum)
    return np.where(known, floor, np.maximum(floor, told))[number]


# What is there is given


def _readable(rows: Rows, found: Findings, pulls: _Pulls, ends: KnownEnds, floor: Ints) -> Flags:
    """An offset that is retained, and below an end of the queue that was known before the read began, is answered with
    its message, or with "later"; returns which answers were others. One that tells a lower end than was known is for
    the law about rollbacks."""
    empty = pulls.ok & (pulls.count == 0) & ((pulls.maximum < 0) | (pulls.maximum > pulls.asked))
    illegal = pulls.failed & (pulls.following >= 0) & (pulls.following != pulls.asked)
    illegal &= (pulls.maximum < 0) | (pulls.maximum > pulls.asked)
    there = (pulls.asked >= floor) & (pulls.asked < ends.before(pulls.queue, pulls.began, pulls.epoch))
    wrong = (empty | illegal) & pulls.by_master & (pulls.demand == "") & there

    def tell(item: int) -> None:
        one = int(pulls.done[item])
        which = (pulls.queue[item], pulls.began[item], pulls.epoch[item], pulls.asked[item])
        witness = ends.witness(*map(int, which))
        what = (
            f"that the queue has no such offset, and to go on with {int(pulls.following[item])}"
            if illegal[item]
            else "that there is nothing"
        )
        found.add(
            UNREADABLE,
            f"Asked for offset {int(pulls.asked[item])} of queue {int(pulls.queue[item])}, "
            f"{rows.text('node', one) or 'the system'} (epoch {int(pulls.epoch[item])}) answered at "
            f"{views.at_s(rows, one)} {what}, though the queue had been seen to go further at "
            f"{views.at_s(rows, witness)}.",
            int(rows.column("index")[witness]),
            int(pulls.began[item]),
            int(rows.column("index")[one]),
            queue=int(pulls.queue[item]),
            offset=int(pulls.asked[item]),
        )

    found.add_each(UNREADABLE, np.flatnonzero(wrong), tell, queues=pulls.queue[wrong])
    return wrong


# Readers are sent on to the next message


def _next_offset(
    rows: Rows, context: RunContext, found: Findings, pulls: _Pulls, floor: Ints, unreadable: Flags
) -> None:
    """The next offset is the one behind what was given; where nothing was given, the one that was asked for, or where
    the queue begins or ends. It never passes over a message that is there."""
    due = np.where(pulls.count > 0, pulls.last + 1, pulls.asked)
    judged = (pulls.ok | pulls.failed) & (pulls.following >= 0) & pulls.by_master & (pulls.demand != "local")
    judged &= ~unreadable
    unsure = (pulls.maximum < 0) & (not context.strict)
    ended = (pulls.count == 0) & (((pulls.maximum >= 0) & (pulls.maximum < pulls.asked)) | unsure)
    back = judged & (pulls.following < due) & ~ended
    queues, number = np.unique(pulls.queue, return_inverse=True)
    place, offset = _held(rows, context, queues)
    line = Line.of(offset)
    held = distinct(line.places(place, offset))
    first = np.searchsorted(held, line.places(number, np.maximum(due, floor)))
    over = judged & (pulls.following > due)
    over &= np.searchsorted(held, line.places(number, pulls.following)) > first

    def tell(item: int) -> None:
        one, next_offset = int(pulls.done[item]), int(pulls.following[item])
        given = f"gave offsets up to {int(pulls.last[item])}" if pulls.count[item] else "gave nothing"
        wrong = (
            f"which is back from {int(due[item])}"
            if back[item]
            else f"past offset {line.numbers(held[first[item]])}, which is there"
        )
        found.add(
            WRONG_NEXT_OFFSET,
            f"Asked for offset {int(pulls.asked[item])} of queue {int(pulls.queue[item])}, "
            f"{rows.text('node', one) or 'the system'} (epoch {int(pulls.epoch[item])}) {given} at "
            f"{views.at_s(rows, one)} and said to go on with offset {next_offset}, {wrong}.",
            int(pulls.began[item]),
            int(rows.column("index")[one]),
            queue=int(pulls.queue[item]),
            offset=next_offset,
        )

    found.add_each(WRONG_NEXT_OFFSET, np.flatnonzero(back | over), tell, queues=pulls.queue[back | over])


def _held(rows: Rows, context: RunContext, queues: Ints) -> tuple[Ints, Ints]:
    """The places among these queues, and the offsets, at which there is, or was, a message that readers must be given:
    every one that was acknowledged or read; where losses are permitted, those that are there in the end."""
    read = rows.memo(views.read)
    if not context.strict:
        in_the_end = rows.memo(views.delivered).at[rows.memo(views.drain_reads)]
        read = views.claims_of(rows, in_the_end)
    acked = rows.memo(views.acknowledged)
    parts = (read, acked) if context.strict else (read,)
    queue, offset = (np.concatenate([getattr(part, name) for part in parts]) for name in ("queue", "offset"))
    place, asked = places_in(queues, queue)
    return place[asked], offset[asked]


# Reads don't stop


def after_recovery(rows: Rows) -> list[Stretch]:
    """The final readings of a run that has recovered, in which everything is owed; none of another run."""
    begin, end = views.phase_time(rows, "drain"), views.phase_time(rows, "collect")
    if not views.has_recovered(rows) or begin < 0 or len(rows.where(kind="harness", f="host_lost")):
        return []
    return [Stretch(begin, end if end >= 0 else int(rows.column("time_ns").max()), -1, True)]


def bound_ns(context: RunContext) -> int:
    bound_s = views.bound(context, "available_s", AVAILABLE_S)
    return int(SLACK * bound_s * 1e9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """What is said of polls in vain that last for longer than the bound, and under which name the longest is counted.
    ``why``: what makes them a stall; ``owed``: what the master has to do."""

    name: str
    bound_ns: int
    count: str
    why: str
    owed: str

    @classmethod
    def of_reads(cls, context: RunContext) -> Stall:
        why = "although there were confirmed messages and enough nodes were well"
        return cls(name=STALLED, bound_ns=bound_ns(context), count="longest_wait_ms", why=why, owed=GIVE)

    @classmethod
    def of_uploads(cls, context: RunContext) -> Stall:
        why = "although the queue was known to go further and the system had recovered"
        within_ns = int(tier.upload_bound_s(context) * 1e9)
        return cls(name=TIER_STALLED, bound_ns=within_ns, count="longest_tier_wait_ms", why=why, owed=UPLOAD)


@dataclass(frozen=True, slots=True)
class _Polls:
    """What readers asked of queues, each ``reader`` of each queue for itself, and by time: pulls, and questions for the
    committed offset that failed. In vain is what brought nothing although there was more. ``reader``: a place in
    ``names``, which ascend; ``begins``: the first poll of this reader of this queue."""

    names: Sequence[str]
    reader: Ints
    queue: Ints
    invoke: Ints
    began_ns: Ints
    ended_ns: Ints
    in_vain: Flags
    begins: Flags

    @classmethod
    def of_readers(cls, rows: Rows, pulls: _Pulls, ends: KnownEnds) -> _Polls:
        """Of those who read on and on: groups, and the final readings that workloads do."""
        asks = views.calls(rows, "committed")
        names, reader = _readers(rows, np.concatenate([pulls.invoke, asks.invoke]))
        reader, asking = reader[: len(pulls.invoke)], reader[len(pulls.invoke) :]
        wanted = rows.column("queue")[asks.invoke]
        slot, count = slots(np.concatenate([pulls.queue, wanted]), np.concatenate([reader, asking]))
        slot, asked = slot[: len(reader)], slot[len(reader) :]
        named = np.array([name != "" for name in names], dtype=np.bool_)
        pulling = named[reader] & (pulls.demand == "")
        refused = np.flatnonzero(~asks.ok & named[asking] & any_in(slot, count)[asked])
        furthest = np.zeros(count, dtype=np.int64)  # who knows no offset has come that far at most
        np.maximum.at(furthest, slot[pulling], pulls.asked[pulling])
        more = ends.beyond(pulls.queue, pulls.began, pulls.asked, pulls.maximum)
        moved = (pulls.ok | pulls.failed) & (pulls.following > pulls.asked)
        in_vain = more & (pulls.count == 0) & ~moved
        unknown = np.full(len(refused), -1, dtype=np.int64)
        later = ends.beyond(wanted[refused], asks.began[refused], furthest[asked[refused]], unknown)
        return cls.by_time(
            rows,
            names,
            np.concatenate([reader[pulling], asking[refused]]),
            np.concatenate([pulls.queue[pulling], wanted[refused]]),
            np.concatenate([pulls.invoke[pulling], asks.invoke[refused]]),
            np.concatenate([pulls.done[pulling], asks.done[refused]]),
            np.concatenate([in_vain[pulling], later]),
        )

    @classmethod
    def of_tier(cls, rows: Rows, context: RunContext, pulls: _Pulls, ends: KnownEnds) -> _Polls:
        """What was asked of the tier alone, by who asked. In vain is only what was answered, with nothing, although the
        queue goes on. Where no node is an object store, nobody knows whether a queue of which the tier never gave a
        message is to be there."""
        alone = pulls.only((pulls.demand == "tier") & pulls.ok)
        if not tier.has_store(context):
            alone = alone.only(among(alone.queue, alone.queue[alone.count > 0]))
        more = ends.beyond(alone.queue, alone.began, alone.asked, alone.maximum)
        in_vain = more & (alone.count == 0) & (alone.following <= alone.asked)
        names, reader = _processes(rows, alone.invoke)
        return cls.by_time(rows, names, reader, alone.queue, alone.invoke, alone.done, in_vain)

    @classmethod
    def by_time(
        cls, rows: Rows, names: Sequence[str], reader: Ints, queue: Ints, invoke: Ints, done: Ints, in_vain: Flags
    ) -> _Polls:
        order = np.lexsort((invoke, reader, queue))
        reader, queue, invoke, done = reader[order], queue[order], invoke[order], done[order]
        times = rows.column("time_ns")
        began_ns = times[invoke]
        begins = np.ones(len(order), dtype=np.bool_)
        begins[1:] = (reader[1:] != reader[:-1]) | (queue[1:] != queue[:-1])
        ended_ns = np.where(done >= 0, times[done], began_ns)
        return cls(names, reader, queue, invoke, began_ns, ended_ns, in_vain[order], begins)


def _readers(rows: Rows, at: Ints) -> tuple[Sequence[str], Ints]:
    """Who asks, as people call it: a group, or the final reading that a workload does; "" for others. Returns the
    names, ascending, and the place of each row's."""
    group, groups = rows.labels("group", at)
    by, ways = rows.labels("by", at)
    called = [
        f"group {name}" if name else f"the final reading by {way}" if way else "" for name in groups for way in ways
    ]
    return _places(called, group * len(ways) + by)


def _processes(rows: Rows, at: Ints) -> tuple[Sequence[str], Ints]:
    """As :func:`_readers`, of readers of the tier alone. A process that was left without an answer goes on under the
    next number, as the same reader."""
    _, first, place = np.unique(rows.column("process")[at], return_index=True, return_inverse=True)
    called = [rows.text("process", int(at[one])).partition(".")[0] for one in first.tolist()]
    return _places([f"the reader {name} of the tier alone" for name in called], place)


def _places(called: Sequence[str], code: Ints) -> tuple[Sequence[str], Ints]:
    names = sorted({*called})
    return names, np.array([names.index(name) for name in called], dtype=np.int64)[code]


@dataclass(frozen=True, slots=True)
class _Waits:
    """Rows of polls in vain, one a reader of a queue: from the poll ``first`` to the poll ``last``, ``count`` in all,
    within a stretch in which reads are owed."""

    first: Ints
    last: Ints
    count: Ints
    waited_ns: Ints
    stretch: Ints

    @classmethod
    def of(cls, polls: _Polls, owed: Sequence[Stretch], bound_ns: int) -> _Waits:
        """By queue, then reader, then time."""
        within = [_in_vain(polls, stretch, bound_ns) for stretch in owed]
        first, last, count = (np.concatenate(part) for part in zip(_NOTHING, *within, strict=True))
        stretch = np.repeat(np.arange(len(owed)), np.array([len(one[0]) for one in within], dtype=np.int64))
        until = np.array([one.end for one in owed], dtype=np.int64)[stretch]
        waited_ns = np.minimum(polls.ended_ns[last], until) - polls.began_ns[first]
        return cls(first, last, count, waited_ns, stretch).only(np.lexsort((stretch, first)))

    def only(self, which: Ints) -> _Waits:
        return _Waits(*(getattr(self, name)[which] for name in self.__slots__))


_NOTHING = (np.empty(0, dtype=np.int64),) * 3


def _in_vain(polls: _Polls, stretch: Stretch, bound_ns: int) -> tuple[Ints, Ints, Ints]:
    """The first and the last of each row of polls in vain within the stretch, and how many they are. A poll that comes
    long after the one before had ended begins another row."""
    inside = np.flatnonzero((polls.began_ns >= stretch.begin) & (polls.began_ns < stretch.end))
    vain, began_ns, of = polls.in_vain[inside], polls.began_ns[inside], np.cumsum(polls.begins)[inside]
    new = ~vain
    new[1:] |= (began_ns[1:] - polls.ended_ns[inside][:-1] > bound_ns // 2) | (of[1:] != of[:-1])
    number, mine = np.cumsum(new)[vain], inside[vain]  # polls in vain with the same number belong together
    starts = np.flatnonzero(np.diff(number, prepend=number[:1] - 1))
    ends = np.append(starts[1:], len(mine))[: len(starts)]
    return mine[starts], mine[ends - 1], ends - starts


def _gets_on(rows: Rows, found: Findings, polls: _Polls, owed: Sequence[Stretch], stall: Stall) -> None:
    """Within each stretch in which reads are owed, no reader polls in vain for longer than the bound."""
    vain = _Waits.of(polls, owed, stall.bound_ns)
    found.fact(**{stall.count: int(vain.waited_ns.max(initial=0)) // 1_000_000})
    vain = vain.only(np.flatnonzero((vain.waited_ns > stall.bound_ns) & (vain.count >= POLLS)))
    stood_ns = np.sort(rows.column("time_ns")[rows.where(kind="harness", f="stall")])
    stood = np.searchsorted(stood_ns, polls.began_ns[vain.first]) < np.searchsorted(
        stood_ns, polls.ended_ns[vain.last], "right"
    )
    certain = np.array([stretch.certain for stretch in owed], dtype=np.bool_)[vain.stretch]

    def told(item: int) -> str:
        first = int(vain.first[item])
        reader, since = polls.names[polls.reader[first]], views.at_s(rows, int(polls.invoke[first]))
        return (
            f"{reader[0].upper()}{reader[1:]} polled queue {polls.queue[first]} {vain.count[item]} times in "
            f"{vain.waited_ns[item] / 1e9:.1f} s, from {since} on, and got nothing"
        )

    def tell(item: int) -> None:
        first, last = (int(polls.invoke[poll]) for poll in (vain.first[item], vain.last[item]))
        waiting = waits.of_reader(rows, last, polls.names[polls.reader[vain.first[item]]], stall.owed)
        index = rows.column("index")
        found.add(
            stall.name,
            f"{told(item)}, {stall.why}; {stall.bound_ns / 1e9:g} s are permitted.{waits.in_words(waiting)}",
            owed[vain.stretch[item]].cause,
            int(index[first]),
            int(index[last]),
            queue=int(polls.queue[vain.first[item]]),
        )

    sure = certain & ~stood
    found.add_each(stall.name, np.flatnonzero(sure), tell, queues=polls.queue[vain.first[sure]])
    for item in np.flatnonzero(~sure).tolist():
        why = (
            "but the harness itself stood still meanwhile"
            if certain[item]
            else "while a fault was in force that declares no effects: nobody knows whether reads were owed"
        )
        found.gap(f"{told(item)}, {why}")


def create(options: Options) -> Progress:
    return Progress()
