"""Whether readers come forward: no one polls in vain for longer than the bound while reads are owed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chaos.findings import Findings
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts import tier, waits
from checkers._facts.arrays import Flags, Ints, among, any_in, slots
from checkers._facts.service import Stretch
from checkers.progress.ends import KnownEnds
from checkers.progress.promise import GIVE, STALLED, TIER_STALLED, UPLOAD
from checkers.progress.pulls import Pulls, processes, readers

AVAILABLE_S = 10.0
#: Reads may take so many times as long as sends: each consumer asks for its queues in turn.
SLACK = 2
#: So many polls in vain, at least, make a stall.
POLLS = 3


def after_recovery(rows: Rows) -> list[Stretch]:
    """Return the final reads of a run that has recovered, in which everything is owed; none of another run."""
    begin, end = facts.phase_time(rows, "drain"), facts.phase_time(rows, "collect")
    if not facts.has_recovered(rows) or begin < 0 or len(rows.where(kind="harness", f="host_lost")):
        return []
    return [Stretch(begin, end if end >= 0 else facts.NEVER, -1, True)]


def bound_ns(context: RunContext) -> int:
    bound_s = facts.bound(context, "available_s", AVAILABLE_S)
    return int(SLACK * bound_s * 1e9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """What is said of polls in vain that last for longer than the bound, and under which name the longest is counted.
    ``why``: what makes them a stall; ``owed``: what the master has to do, "" where nobody waits for a master."""

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

    @classmethod
    def of_replicas(cls, context: RunContext) -> Stall:
        why = "although each answer said that the queue goes further, and no fault was in the way"
        within_ns = int(facts.bound(context, "available_s", AVAILABLE_S) * 1e9)
        return cls(name=STALLED, bound_ns=within_ns, count="longest_replica_wait_ms", why=why, owed="")


@dataclass(frozen=True, slots=True)
class Polls:
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
    def of_readers(cls, rows: Rows, pulls: Pulls, ends: KnownEnds) -> Polls:
        """Of those who read on and on: groups, and the final readings that workloads do."""
        asks = facts.calls(rows, "committed")
        names, reader = readers(rows, np.concatenate([pulls.invoke, asks.invoke]))
        reader, asking = reader[: len(pulls.invoke)], reader[len(pulls.invoke) :]
        wanted = rows.column("queue")[asks.invoke]
        slot, count = slots(np.concatenate([pulls.queue, wanted]), np.concatenate([reader, asking]))
        slot, asked = slot[: len(reader)], slot[len(reader) :]
        named = np.array([name != "" for name in names], dtype=np.bool_)
        pulling = named[reader] & (pulls.demand == "") & pulls.of_master
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
    def of_tier(cls, rows: Rows, context: RunContext, pulls: Pulls, ends: KnownEnds) -> Polls:
        """Return what was asked of the tier alone, by who asked. In vain is only what was answered, with nothing,
        although the queue goes on. Where no node is an object store, it is unknown whether a queue of which the tier
        never gave a message is to be there."""
        alone = pulls.only((pulls.demand == "tier") & pulls.ok & pulls.of_master)
        if not tier.has_store(context):
            alone = alone.only(among(alone.queue, alone.queue[alone.count > 0]))
        more = ends.beyond(alone.queue, alone.began, alone.asked, alone.maximum)
        in_vain = more & (alone.count == 0) & (alone.following <= alone.asked)
        names, reader = processes(rows, alone.invoke)
        return cls.by_time(rows, names, reader, alone.queue, alone.invoke, alone.done, in_vain)

    @classmethod
    def of_replicas(cls, rows: Rows, pulls: Pulls) -> Polls:
        """Return what certain replicas were asked, by replica and by where they looked for it. In vain is only what was
        answered, with nothing, although the same answer said that the queue goes further. That the tier alone need not
        hold it yet is left out."""
        asked = pulls.only(in_vain_at_replicas(pulls) | given_by_replicas(pulls))
        keys = np.stack([asked.replica, asked.demand, asked.source])
        ways, reader = np.unique(keys, axis=1, return_inverse=True)
        names = [f"readers of {replica} ({source or 'the log'})" for replica, _, source in ways.T.tolist()]
        return cls.by_time(
            rows, names, reader.reshape(-1), asked.queue, asked.invoke, asked.done, in_vain_at_replicas(asked)
        )

    @classmethod
    def by_time(
        cls, rows: Rows, names: Sequence[str], reader: Ints, queue: Ints, invoke: Ints, done: Ints, in_vain: Flags
    ) -> Polls:
        order = np.lexsort((invoke, reader, queue))
        reader, queue, invoke, done = reader[order], queue[order], invoke[order], done[order]
        times = rows.column("time_ns")
        began_ns = times[invoke]
        begins = np.ones(len(order), dtype=np.bool_)
        begins[1:] = (reader[1:] != reader[:-1]) | (queue[1:] != queue[:-1])
        ended_ns = np.where(done >= 0, times[done], began_ns)
        return cls(names, reader, queue, invoke, began_ns, ended_ns, in_vain[order], begins)


def in_vain_at_replicas(pulls: Pulls) -> Flags:
    """Return which pulls a certain replica answered with nothing, though it said that the queue goes further."""
    vain = ~pulls.of_master & pulls.answered & (pulls.demand != "tier") & (pulls.count == 0)
    found: Flags = vain & (pulls.maximum > pulls.asked) & (pulls.following <= pulls.asked)
    return found


def given_by_replicas(pulls: Pulls) -> Flags:
    """Return which pulls a certain replica answered with messages."""
    found: Flags = ~pulls.of_master & pulls.ok & (pulls.demand != "tier") & (pulls.count > 0)
    return found


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
    def of(cls, polls: Polls, owed: Sequence[Stretch], bound_ns: int) -> _Waits:
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


def _in_vain(polls: Polls, stretch: Stretch, bound_ns: int) -> tuple[Ints, Ints, Ints]:
    """Return the first and the last of each row of polls in vain within the stretch, and how many they are. A poll that
    comes long after the one before had ended begins another row."""
    inside = np.flatnonzero((polls.began_ns >= stretch.begin) & (polls.began_ns < stretch.end))
    vain, began_ns, of = polls.in_vain[inside], polls.began_ns[inside], np.cumsum(polls.begins)[inside]
    new = ~vain
    new[1:] |= (began_ns[1:] - polls.ended_ns[inside][:-1] > bound_ns // 2) | (of[1:] != of[:-1])
    number, mine = np.cumsum(new)[vain], inside[vain]  # polls in vain with the same number belong together
    starts = np.flatnonzero(np.diff(number, prepend=number[:1] - 1))
    ends = np.append(starts[1:], len(mine))[: len(starts)]
    return mine[starts], mine[ends - 1], ends - starts


def gets_on(rows: Rows, found: Findings, polls: Polls, owed: Sequence[Stretch], stall: Stall) -> None:
    """Check that within each stretch in which reads are owed, no reader polls in vain for longer than the bound."""
    vain = _Waits.of(polls, owed, stall.bound_ns)
    found.fact(**{stall.count: int(vain.waited_ns.max(initial=0)) // 1_000_000})
    vain = vain.only(np.flatnonzero((vain.waited_ns > stall.bound_ns) & (vain.count >= POLLS)))
    stood_ns = np.sort(rows.column("time_ns")[rows.where(kind="harness", f="stall")])
    stood = np.searchsorted(stood_ns, polls.began_ns[vain.first]) < np.searchsorted(
        stood_ns, polls.ended_ns[vain.last], "right"
    )
    certain = np.array([stretch.certain for stretch in owed], dtype=np.bool_)[vain.stretch]

    def sentence(item: int) -> str:
        first = int(vain.first[item])
        reader, since = polls.names[polls.reader[first]], facts.at_s(rows, int(polls.invoke[first]))
        return (
            f"{reader[0].upper()}{reader[1:]} polled queue {polls.queue[first]} {vain.count[item]} times in "
            f"{vain.waited_ns[item] / 1e9:.1f} s, from {since} on, and got nothing"
        )

    def report_one(item: int) -> None:
        first, last = (int(polls.invoke[poll]) for poll in (vain.first[item], vain.last[item]))
        reader = polls.names[polls.reader[vain.first[item]]]
        waiting = waits.of_reader(rows, last, reader, stall.owed) if stall.owed else []
        index = rows.column("index")
        found.add(
            stall.name,
            f"{sentence(item)}, {stall.why}; {stall.bound_ns / 1e9:g} s are permitted.{waits.in_words(waiting)}",
            owed[vain.stretch[item]].cause,
            int(index[first]),
            int(index[last]),
            queue=int(polls.queue[vain.first[item]]),
        )

    sure = certain & ~stood
    queues, acted_ns = polls.queue[vain.first[sure]], facts.since_load_ns(rows, polls.invoke[vain.last[sure]])
    found.add_each(stall.name, np.flatnonzero(sure), report_one, queues=queues, acted_ns=acted_ns)
    for item in np.flatnonzero(~sure).tolist():
        why = (
            "but the harness itself stood still meanwhile"
            if certain[item]
            else "while a fault was in force that declares no effects: it is unknown whether reads were owed"
        )
        found.gap(f"{sentence(item)}, {why}")
