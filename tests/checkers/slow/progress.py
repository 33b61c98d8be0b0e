"""Whether readers advance, queue by queue and reader by reader: the oracle of ``checkers/progress.py``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from chaos.findings import Findings
from chaos.kernel import Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts import losses, service, tier, waits
from checkers._facts.arrays import Flags, Ints
from checkers._facts.reads import own
from checkers._facts.service import Stretch
from checkers.progress import advance
from checkers.progress.polls import POLLS, Stall, after_recovery, bound_ns
from checkers.progress.promise import PROMISE, UNREADABLE, WRONG_NEXT_OFFSET
from tests.checkers.slow import retention
from tests.checkers.slow.ends import KnownEnds

ALL = replace(
    advance.NEEDS,
    joins="",
    rows=(own("op", *advance.DONE, "drain"), *(one for one in advance.NEEDS.rows if one.sieve is None)),
    columns=(*advance.NEEDS.columns, "message"),
)


@dataclass(frozen=True, slots=True)
class Progress:
    promise: Promise = PROMISE
    needs: Needs = ALL

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        pulls = _Pulls.of(rows)
        found.count("answered_reads", int(((pulls.ok | pulls.failed) & (pulls.replica == "")).sum()))
        final = after_recovery(rows)
        owed = [*service.stretches(rows, context, bound_ns(context), of_reads=True), *final]
        stall, tier_stall = Stall.of_reads(context), Stall.of_uploads(context)
        waits, tier_waits = [0], [0]
        for queue in np.unique(pulls.queue).tolist():
            mine = pulls.only(pulls.queue == queue)
            ends = KnownEnds.of(rows, queue, strict=_keeps(rows, context))
            unreadable = _readable(rows, context, found, mine, ends)
            _next_offset(rows, context, found, mine, unreadable)
            for reader in np.unique(mine.reader[mine.reader != ""]).tolist():
                waits += _gets_on(rows, found, _Polls.of(rows, mine, reader, queue, ends), owed, stall)
            if final and tier.has_tier(context):
                for polls in _of_tier(rows, context, mine, queue, ends):
                    tier_waits += _gets_on(rows, found, polls, final, tier_stall)
        found.fact(**{stall.count: max(waits) // 1_000_000})
        if final and tier.has_tier(context):
            found.fact(**{tier_stall.count: max(tier_waits) // 1_000_000})
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return advance.Progress().judge(partial, context)


@dataclass(frozen=True, slots=True)
class _Pulls:
    """Pulls that asked for an offset. ``replica``: which one they asked, "" for the master. ``number`` is their place
    in :func:`checkers._facts.pulls`. ``asked`` is
    the offset that they asked for, ``following`` the one to go on with, ``maximum`` the queue's end, as answered (-1:
    not told); ``count`` messages came, the last of them at ``last``. ``by_master``: the master of the epoch that the
    answer tells gave it. ``demand``: what source was asked for. ``reader`` reads on and on; "" reads here and
    there."""

    number: Ints
    invoke: Ints
    done: Ints
    began: Ints
    ok: Flags
    failed: Flags
    queue: Ints
    asked: Ints
    following: Ints
    maximum: Ints
    epoch: Ints
    count: Ints
    last: Ints
    by_master: Flags
    demand: np.ndarray
    replica: np.ndarray
    reader: np.ndarray

    @classmethod
    def of(cls, rows: Rows) -> _Pulls:
        calls, read = rows.memo(facts.pulls), rows.memo(facts.delivered)
        offset, answered = rows.column("offset"), calls.done >= 0
        known = read.pull >= 0
        count = np.bincount(read.pull[known], minlength=len(calls.invoke)).astype(np.int64)
        last = np.full(len(calls.invoke), -1, dtype=np.int64)
        np.maximum.at(last, read.pull[known], offset[read.at[known]])
        by_master = np.zeros(len(calls.invoke), dtype=np.bool_)
        by_master[answered] = facts.from_masters(rows, calls.done[answered])
        made = cls(
            number=np.arange(len(calls.invoke)),
            invoke=calls.invoke,
            done=calls.done,
            began=calls.began,
            ok=calls.ok,
            failed=calls.failed,
            queue=rows.column("queue")[calls.invoke],
            asked=offset[calls.invoke],
            following=_told(rows, "following", calls.done),
            maximum=_told(rows, "maximum", calls.done),
            epoch=np.where(answered, rows.column("epoch")[calls.done], -1),
            count=count,
            last=last,
            by_master=by_master,
            demand=_words(rows, "demand", calls.invoke),
            replica=_words(rows, "from", calls.invoke),
            reader=_readers(rows, calls.invoke),
        )
        return made.only(made.asked >= 0)

    def only(self, keep: Flags) -> _Pulls:
        return _Pulls(*(getattr(self, name)[keep] for name in self.__slots__))


def _words(rows: Rows, key: str, at: Ints) -> np.ndarray:
    """The text under this key of each row, "" where there is none."""
    code, words = rows.labels(key, at)
    return np.array(words, dtype=np.str_)[code]


def _readers(rows: Rows, at: Ints) -> np.ndarray:
    """Who asks, as people call it: a group, or the final reading that a workload does; "" for others."""
    group, by = (_words(rows, key, at) for key in ("group", "by"))
    final = np.where(by != "", np.char.add("the final reading by ", by), "")
    return np.where(group != "", np.char.add("group ", group), final)


def _told(rows: Rows, key: str, done: Ints) -> Ints:
    """A number of each answer, -1 where there is none or no answer."""
    found = np.full(len(done), -1, dtype=np.int64)
    found[done >= 0] = rows.numbers(key, done[done >= 0])
    return found


def _floor(rows: Rows, context: RunContext, pulls: _Pulls) -> Ints:
    """For each pull, below which offset messages may be gone. Where nothing tells what lawfully went, answers are
    believed: those of masters, and of a certain replica those of all."""
    floor, known = retention.lawful_floor(rows, context, int(pulls.queue[0]))
    told = np.where(pulls.ok | pulls.failed, _told(rows, "minimum", pulls.done), 0)
    by_masters = max((int(one) for one, name in zip(told, pulls.replica, strict=True) if not name), default=0)
    by_anybody = int(told.max(initial=0))
    believed = [floor if known else max(floor, by_anybody if name else by_masters) for name in pulls.replica]
    return np.array(believed, dtype=np.int64)


# What is there is given


def _readable(rows: Rows, context: RunContext, found: Findings, pulls: _Pulls, ends: KnownEnds) -> Flags:
    """An offset that is retained, and below an end of the queue that was known before the read began, is answered with
    its message, or with "later"; returns which answers were others. One that tells a lower end than was known is for
    the law about rollbacks."""
    empty = pulls.ok & (pulls.count == 0) & ((pulls.maximum < 0) | (pulls.maximum > pulls.asked))
    illegal = pulls.failed & (pulls.following >= 0) & (pulls.following != pulls.asked)
    illegal &= (pulls.maximum < 0) | (pulls.maximum > pulls.asked)
    retained = pulls.asked >= _floor(rows, context, pulls)
    bound = pulls.by_master & (pulls.asked < ends.before(pulls.began, pulls.epoch))
    admitted = (pulls.replica != "") & (pulls.maximum > pulls.asked)
    wrong = (empty | illegal) & (pulls.demand == "") & retained & (bound | admitted)

    def tell(item: int) -> None:
        one = int(pulls.done[item])
        if not bound[item]:
            found.add(
                UNREADABLE,
                f"Asked for offset {int(pulls.asked[item])} of queue {int(pulls.queue[item])}, "
                f"{rows.text('node', one)} (epoch {int(pulls.epoch[item])}) gave nothing at {facts.at_s(rows, one)}, "
                f"although it said in the same answer that the queue goes up to offset {int(pulls.maximum[item])}.",
                int(pulls.began[item]),
                int(rows.column("index")[one]),
                queue=int(pulls.queue[item]),
                offset=int(pulls.asked[item]),
            )
            return
        witness = ends.witness(int(pulls.began[item]), int(pulls.epoch[item]), int(pulls.asked[item]))
        what = (
            f"that the queue has no such offset, and to go on with {int(pulls.following[item])}"
            if illegal[item]
            else "that there is nothing"
        )
        found.add(
            UNREADABLE,
            f"Asked for offset {int(pulls.asked[item])} of queue {int(pulls.queue[item])}, "
            f"{facts.who(rows.text('node', one), int(pulls.epoch[item]))} answered at "
            f"{facts.at_s(rows, one)} {what}, though the queue had been seen to go further at "
            f"{facts.at_s(rows, witness)}.",
            int(rows.column("index")[witness]),
            int(pulls.began[item]),
            int(rows.column("index")[one]),
            queue=int(pulls.queue[item]),
            offset=int(pulls.asked[item]),
        )

    found.add_each(UNREADABLE, np.flatnonzero(wrong), tell)
    return wrong


# Readers are sent on to the next message


def _next_offset(rows: Rows, context: RunContext, found: Findings, pulls: _Pulls, unreadable: Flags) -> None:
    """The next offset is the one behind what was given; where nothing was given, the one that was asked for, or where
    the queue begins or ends. It never passes over a message that is there."""
    due = np.where(pulls.count > 0, pulls.last + 1, pulls.asked)
    judged = (pulls.ok | pulls.failed) & (pulls.following >= 0) & ~unreadable
    to_own_log = (pulls.demand == "local") & (pulls.count == 0)
    unsure = (pulls.maximum < 0) & (not _keeps(rows, context))
    ended = (pulls.count == 0) & (((pulls.maximum >= 0) & (pulls.maximum < pulls.asked)) | unsure)
    back = judged & (pulls.following < due) & ~ended
    held = _held(rows, context, int(pulls.queue[0])) if len(pulls.queue) else due
    begin = np.maximum(due, _floor(rows, context, pulls))
    first = np.searchsorted(held, begin)
    over = judged & ~to_own_log & (pulls.following > due) & (np.searchsorted(held, pulls.following) > first)

    def tell(item: int) -> None:
        one, next_offset = int(pulls.done[item]), int(pulls.following[item])
        given = f"gave offsets up to {int(pulls.last[item])}" if pulls.count[item] else "gave nothing"
        wrong = (
            f"which is back from {int(due[item])}"
            if back[item]
            else f"past offset {int(held[first[item]])}, which is there"
        )
        found.add(
            WRONG_NEXT_OFFSET,
            f"Asked for offset {int(pulls.asked[item])} of queue {int(pulls.queue[item])}, "
            f"{facts.who(rows.text('node', one), int(pulls.epoch[item]))} {given} at "
            f"{facts.at_s(rows, one)} and said to go on with offset {next_offset}, {wrong}.",
            int(pulls.began[item]),
            int(rows.column("index")[one]),
            queue=int(pulls.queue[item]),
            offset=next_offset,
        )

    found.add_each(WRONG_NEXT_OFFSET, np.flatnonzero(back | over), tell)


def _keeps(rows: Rows, context: RunContext) -> bool:
    return context.profile.acks == "all" and losses.keeps(rows, context, confirmed=False)


def _held(rows: Rows, context: RunContext, queue: int) -> Ints:
    """The offsets of a queue at which there is, or was, a message that readers must be given, ascending: every one that
    was acknowledged or read; where losses are permitted, those that are there in the end."""
    read = rows.memo(facts.read)
    if not losses.keeps(rows, context, confirmed=False):
        in_the_end = rows.memo(facts.delivered).at[rows.memo(facts.drain_reads)]
        read = facts.claims_of(rows, in_the_end)
        return np.unique(read.offset[read.queue == queue])
    acked = rows.memo(facts.acknowledged)
    return np.unique(np.concatenate([read.offset[read.queue == queue], acked.offset[acked.queue == queue]]))


# Reads don't stop


@dataclass(frozen=True, slots=True)
class _Polls:
    """What one reader asked of one queue, by time: pulls, and questions for the committed offset that failed. In vain
    is what brought nothing although there was more."""

    reader: str
    queue: int
    invoke: Ints
    began_ns: Ints
    ended_ns: Ints
    in_vain: Flags

    @classmethod
    def of(cls, rows: Rows, pulls: _Pulls, reader: str, queue: int, ends: KnownEnds) -> _Polls:
        mine = pulls.only((pulls.reader == reader) & (pulls.demand == "") & (pulls.replica == ""))
        asks = facts.calls(rows, "committed")
        refused = ~asks.ok & (_readers(rows, asks.invoke) == reader) & (rows.column("queue")[asks.invoke] == queue)
        at = int(np.max(mine.asked, initial=0))  # who knows no offset has come that far at most
        invoke = np.concatenate([mine.invoke, asks.invoke[refused]])
        done = np.concatenate([mine.done, asks.done[refused]])
        more = ends.beyond(mine.began, mine.asked, mine.maximum)
        later = ends.beyond(asks.began[refused], np.full(int(refused.sum()), at), np.full(int(refused.sum()), -1))
        moved = (mine.ok | mine.failed) & (mine.following > mine.asked)
        in_vain = np.concatenate([more & (mine.count == 0) & ~moved, later])
        return cls.by_time(rows, reader, queue, invoke, done, in_vain)

    @classmethod
    def by_time(cls, rows: Rows, reader: str, queue: int, invoke: Ints, done: Ints, in_vain: Flags) -> _Polls:
        order = np.argsort(invoke, kind="stable")
        times = rows.column("time_ns")
        began_ns = times[invoke]
        ended_ns = np.where(done >= 0, times[done], began_ns)
        return cls(reader, queue, invoke[order], began_ns[order], ended_ns[order], in_vain[order])


def _of_tier(rows: Rows, context: RunContext, pulls: _Pulls, queue: int, ends: KnownEnds) -> Iterator[_Polls]:
    """What was asked of the tier alone, by who asked. In vain is only what was answered, with nothing, although the
    queue goes on. Where no node is an object store, nobody knows whether a queue of which the tier never gave a message
    is to be there."""
    alone = pulls.only((pulls.demand == "tier") & pulls.ok & (pulls.replica == ""))
    if not (alone.count > 0).any() and not tier.has_store(context):
        return
    more = ends.beyond(alone.began, alone.asked, alone.maximum)
    in_vain = more & (alone.count == 0) & (alone.following <= alone.asked)
    # A process that was left without an answer goes on under the next number.
    names = np.array([rows.text("process", at).partition(".")[0] for at in alone.invoke.tolist()], dtype=np.str_)
    for name in np.unique(names).tolist():
        mine = names == name
        reader = f"the reader {name} of the tier alone"
        yield _Polls.by_time(rows, reader, queue, alone.invoke[mine], alone.done[mine], in_vain[mine])


def _gets_on(rows: Rows, found: Findings, polls: _Polls, owed: Sequence[Stretch], stall: Stall) -> Iterator[int]:
    """Within each stretch in which reads are owed, no reader polls in vain for longer than the bound. Yields how long
    each did."""
    bound_ns = stall.bound_ns
    for stretch in owed:
        inside = np.flatnonzero((polls.began_ns >= stretch.begin) & (polls.began_ns < stretch.end))
        if not len(inside):
            continue
        vain = polls.in_vain[inside]
        slow = np.zeros(len(inside), dtype=np.bool_)
        slow[1:] = polls.began_ns[inside[1:]] - polls.ended_ns[inside[:-1]] > bound_ns // 2
        number = np.cumsum(~vain | slow)  # polls in vain with the same number belong together
        for run in np.unique(number[vain]).tolist():
            mine = inside[vain & (number == run)]
            first, last = int(mine[0]), int(mine[-1])
            waited_ns = min(int(polls.ended_ns[last]), stretch.end) - int(polls.began_ns[first])
            yield waited_ns
            if waited_ns > bound_ns and len(mine) >= POLLS:
                _tell_stall(rows, found, polls, mine, stretch, stall, waited_ns)


def _tell_stall(
    rows: Rows, found: Findings, polls: _Polls, mine: Ints, stretch: Stretch, stall: Stall, waited_ns: int
) -> None:
    first, last = int(polls.invoke[mine[0]]), int(polls.invoke[mine[-1]])
    told = (
        f"{polls.reader[0].upper()}{polls.reader[1:]} polled queue {polls.queue} {len(mine)} times in "
        f"{waited_ns / 1e9:.1f} s, from {facts.at_s(rows, first)} on, and got nothing"
    )
    stood_ns = rows.column("time_ns")[rows.where(kind="harness", f="stall")]
    if not stretch.certain:
        found.gap(f"{told}, while a fault was in force that declares no effects: it is unknown whether reads were owed")
    elif ((stood_ns >= polls.began_ns[mine[0]]) & (stood_ns <= polls.ended_ns[mine[-1]])).any():
        found.gap(f"{told}, but the harness itself stood still meanwhile")
    else:
        found.add(
            stall.name,
            f"{told}, {stall.why}; {stall.bound_ns / 1e9:g} s are permitted."
            f"{waits.in_words(waits.of_reader(rows, last, polls.reader, stall.owed))}",
            stretch.cause,
            int(rows.column("index")[first]),
            int(rows.column("index")[last]),
            queue=polls.queue,
        )
