"""An acknowledged message stays readable at its queue and offset until retention removes it by its rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from chaos.fault import Effect
from chaos.judging.findings import Findings, decide
from chaos.law import AnomalyKind, Key, Needs, Partial, Promise, Rows, RunContext
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _views as views
from checkers._views import reads, retention
from checkers._views.arrays import (
    Flags,
    Ints,
    among,
    any_in,
    distinct,
    first_in,
    message_slots,
    occur,
    parts,
    slots,
)
from checkers._views.claims import ByQueue, Claims
from checkers._views.reads import everywhere, own
from checkers._views.retention import EARLY_RETENTION

LOST = "lost"
LOST_BY_POLICY = "lost-by-policy"
RECOVERED = "recovered"
DUPLICATE_APPEND = "duplicate-append"
REDELIVERY = "redelivery"
UNEXPECTED = "unexpected"
CORRUPT = "corrupt"
PROMISE = Promise(
    name="durability",
    place=10,
    meaning="An acknowledged message is readable at its queue and offset until retention removes it by its rules.",
    anomalies=(
        AnomalyKind(name=LOST, meaning="acknowledged, not removed by retention, and not found with the same content"),
        AnomalyKind(name=LOST_BY_POLICY, meaning="the same under a profile that permits it", lawful=True),
        AnomalyKind(name=RECOVERED, meaning="the result of the send was unknown; the message was stored", lawful=True),
        AnomalyKind(
            name=DUPLICATE_APPEND,
            meaning="the message is stored at more offsets than it had attempts that may have succeeded",
        ),
        AnomalyKind(
            name=REDELIVERY, meaning="a group got the same offset again, as at-least-once permits", lawful=True
        ),
        AnomalyKind(
            name=UNEXPECTED,
            meaning="a message in a queue that nobody sent there, or whose every send was definitely refused",
        ),
        AnomalyKind(name=CORRUPT, meaning="a known message with another content than was sent"),
        AnomalyKind(name=EARLY_RETENTION, meaning="something that had to be kept was deleted, or reported as deleted"),
    ),
)


NEEDS = Needs(
    key=Key.QUEUE,
    rows=(
        own("op", "send", "pull", "delivered", "drain", "bounds"),
        own("final", "tiered"),
        everywhere("trace", "applied"),
        *(reads.RUN, reads.FAULTS),
        *(*reads.REPLICAS, *reads.FINAL_LOGS, *reads.RETENTION),
    ),
    columns=(*reads.BASIC, *reads.OPERATIONS, *reads.RECORDS),
    uses=(Use.QUEUES,),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


@dataclass(frozen=True, slots=True)
class Durability:
    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        acked = rows.memo(views.acknowledged)
        found.count("acked", len(acked.at))
        _untold(rows, found)
        found.count("read", len(rows.memo(views.delivered).at))
        end = _Evidence.gather(rows, context)
        found.count("drained_queues", len(end.drained))
        for queue in _queues(rows):
            _judge_queue(rows, context, found, end, queue)
        _unexpected(rows, found)
        _appended_twice(rows, found)
        _redelivered(rows, found)
        retention.examine(rows, context, found)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        needs = [
            ("acked", "no acknowledged send: nothing was promised"),
            ("drained_queues", "no queue was read to its end after the run"),
        ]
        return decide(PROMISE, partial, needs=needs, unless=context.no_queues)


def _untold(rows: Rows, found: Findings) -> None:
    """Answers that can't be judged are no proof of anything: an ok without a place, an end without a beginning."""
    sends = rows.memo(views.sends)
    placeless = int(sends.ok.sum()) - len(rows.memo(views.acknowledged).at)
    if placeless:
        found.gap(f"{placeless} acknowledged sends do not tell which content stands at which offset")
    read = rows.memo(views.delivered).at
    unreadable = len(read) - len(rows.memo(views.read).at)
    if unreadable:
        found.gap(f"{unreadable} messages were read without their offset or content")
    every = rows.where(kind="op", f="send")
    strays = len(every) - len(sends.invoke) - int((sends.done >= 0).sum())
    if strays:
        found.gap(f"{strays} sends ended more than once, or without an invocation on record")


def _queues(rows: Rows) -> list[int]:
    """The queues of this shard that clients worked with."""
    at = np.concatenate([rows.where(kind="op", f="send"), rows.where(kind="op", f="delivered")])
    return [int(queue) for queue in distinct(rows.column("queue")[at]) if queue >= 0]


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What is known of all queues. ``drained``: queue → (begin, end, row) of a completed drain. ``minimums``: for each
    operation that tells them, queue → (rows, where the queue begins)."""

    acked: ByQueue
    read: ByQueue
    drained: dict[int, tuple[int, int, int]]
    by_drain: ByQueue
    by_final: ByQueue
    finals_are_whole: bool
    system_end: dict[int, int]
    minimums: Sequence[Mapping[int, tuple[Ints, Ints]]]
    sends: Mapping[int, Ints]

    @classmethod
    def gather(cls, rows: Rows, context: RunContext) -> _Evidence:
        read = rows.memo(views.delivered)
        by_drain = views.claims_of(rows, read.at[rows.memo(views.drain_reads)])
        by_final = views.join(rows.memo(views.final_log), rows.memo(views.tiered))
        names = views.brokers(rows, context)
        return cls(
            acked=ByQueue(rows.memo(views.acknowledged)),
            read=ByQueue(rows.memo(views.read)),
            drained=_drained(rows),
            by_drain=ByQueue(by_drain),
            by_final=ByQueue(by_final),
            finals_are_whole=bool(names) and set(names) <= views.complete_nodes(rows) and views.has_recovered(rows),
            system_end=_system_ends(rows),
            minimums=[_minimums(rows, f) for f in ("pull", "bounds")],
            sends=parts(rows.column("queue")[rows.memo(views.sends).invoke]),
        )


def _drained(rows: Rows) -> dict[int, tuple[int, int, int]]:
    drains = views.calls(rows, "drain")
    queue, offset, index = rows.column("queue"), rows.column("offset"), rows.column("index")
    drained: dict[int, tuple[int, int, int]] = {}
    for asked, done in zip(drains.invoke[drains.ok], drains.done[drains.ok], strict=True):
        begin, end = max(0, int(offset[asked])), int(offset[done])
        known = drained.get(int(queue[asked]))
        if known is None or end - begin > known[1] - known[0]:
            drained[int(queue[asked])] = (begin, end, int(index[done]))
    return drained


def _minimums(rows: Rows, f: str) -> dict[int, tuple[Ints, Ints]]:
    """Where masters told clients that each queue begins."""
    calls = views.calls(rows, f)
    done = calls.done[calls.ok]
    done = done[views.from_masters(rows, done)]
    minimum = rows.numbers("minimum", done)
    return {queue: (done[mine], minimum[mine]) for queue, mine in parts(rows.column("queue")[done]).items()}


def _system_ends(rows: Rows) -> dict[int, int]:
    """The end of each queue as masters told it after the run."""
    ends: dict[int, int] = {}
    for at in rows.where(kind="final", f="node"):
        told = rows.value(at)
        if told.get("role") == "master":
            for queue, end in (told.get("maximums") or {}).items():
                ends[int(queue)] = max(ends.get(int(queue), -1), int(end))
    return ends


def _judge_queue(rows: Rows, context: RunContext, found: Findings, end: _Evidence, queue: int) -> None:
    """Find acknowledged messages of one queue that are gone, and unclear ones that are there."""
    acked, read = end.acked.of(queue), end.read.of(queue)
    needed = max(acked.offset.max(initial=-1), read.offset.max(initial=-1), end.system_end.get(queue, 0) - 1) + 1
    begin, reached, _ = end.drained.get(queue, (0, -1, -1))
    proven = reached >= needed
    if not proven:
        what = f"reached offset {reached} of {needed}" if queue in end.drained else "is missing"
        if context.uses_queues:
            found.gap(f"queue {queue} was not read to its end after the run: the drain {what}")
        if not end.finals_are_whole:
            return
    present = end.by_drain.of(queue)
    if not proven:
        present = views.join(present, end.by_final.of(queue))
    floor, known = retention.lawful_floor(rows, context, queue, found)
    if proven and begin > floor and not known:
        found.gap(f"queue {queue} begins at offset {begin}, and nothing tells whether that was lawful retention")
        floor = begin
    if known:
        _denied(rows, found, end, queue, floor)
    missing = acked.only(~_holds(present, acked) & (acked.offset >= floor))
    _lost(rows, context, found, end, missing, proven)
    _recovered(rows, found, end, present, queue)


def _denied(rows: Rows, found: Findings, end: _Evidence, queue: int, floor: int) -> None:
    """No master tells a client that a queue begins above what retention has lawfully removed: it would pass over what
    is there."""
    index = rows.column("index")

    def tell(at: int) -> None:
        minimum = int(rows.value(at).get("minimum", -1))
        found.add(
            EARLY_RETENTION,
            f"{rows.text('node', at) or 'The system'} said at {views.at_s(rows, at)} that queue {queue} begins at "
            f"offset {minimum}, but only what is below offset {floor} was ever lawfully removed.",
            int(index[at]),
            queue=queue,
            offset=floor,
        )

    for told in end.minimums:
        at, minimum = told.get(queue, (index[:0], index[:0]))
        found.add_each(EARLY_RETENTION, at[minimum > floor], tell)


def _holds(present: Claims, claims: Claims) -> Flags:
    """For each claim: is the same content at the same offset? Both of one queue."""
    both = views.join(present, claims)
    slot, count = slots(both.queue, both.offset)
    mine = slot[len(present.at) :]
    held = first_in(slot[: len(present.at)], count, present.hash)[mine] == claims.hash
    others = np.flatnonzero(any_in(mine[~held], count)[slot[: len(present.at)]])
    if len(others):  # more than one content at an offset is rare
        places = np.concatenate([others, len(present.at) + np.flatnonzero(~held)])
        group, number = slots(slot[places], both.hash[places])
        held[~held] = any_in(group[: len(others)], number)[group[len(others) :]]
    return held


def _lost(rows: Rows, context: RunContext, found: Findings, end: _Evidence, missing: Claims, by_drain: bool) -> None:
    if len(missing.at) and (why := views.all_destroyed(rows, context)):
        found.gap(f"{len(missing.at)} acknowledged messages are gone, but {why}")
        return
    permitted, unknown = _loss_permitted(rows, context, missing)
    if unknown.any():
        found.gap(
            f"{int(unknown.sum())} acknowledged messages are gone, and nobody knows whether a fault that declares no "
            "effects made another replica the master, which the profile lets lose them"
        )
    _tell_lost(rows, found, end, missing.only(~permitted & ~unknown), by_drain, LOST)
    _tell_lost(rows, found, end, missing.only(permitted), by_drain, LOST_BY_POLICY)


#: Effects that don't make another replica the master, nor restart one.
KEEPS_MASTER = (Effect.HARMS_TIER, Effect.ADDS_REPLICA, Effect.CUTS_CLIENTS)


def _loss_permitted(rows: Rows, context: RunContext, missing: Claims) -> tuple[Flags, Flags]:
    """Which losses the profile permits: those of messages that only a master knew who was then replaced, or restarted.
    Both begin a newer mastership; where no node tells of its role, any fault will do that can bring this about. And of
    which losses nobody knows, because only faults of unknown effect could have."""
    none, every = (np.full(len(missing.at), value, dtype=np.bool_) for value in (False, True))
    known = rows.memo(views.faults)
    if context.strict or not known:
        return none, none
    masterships = [epoch for _, epoch in rows.memo(views.masters)]
    if masterships:
        return rows.column("epoch")[missing.at] < max(masterships), none
    if any(fault.hits(*(effect for effect in Effect if effect not in KEEPS_MASTER)) for fault in known):
        return every, none
    return none, every if any(fault.effects is None for fault in known) else none


def _tell_lost(rows: Rows, found: Findings, end: _Evidence, missing: Claims, by_drain: bool, name: str) -> None:
    index, op, message = rows.column("index"), rows.column("op"), rows.column("message")

    def tell(number: int) -> None:
        at = int(missing.at[number])
        queue, offset = int(missing.queue[number]), int(missing.offset[number])
        where = "the final read of the queue" if by_drain else "the final content of every replica and of the tier"
        final = end.by_final.of(queue)
        elsewhere = final.only(final.offset == offset)
        other = (
            f" Another message has its offset on {rows.text('node', elsewhere.at[0])}."
            if (len(elsewhere.at) and int(elsewhere.hash[0]) != int(missing.hash[number]))
            else ""
        )
        found.add(
            name,
            f"Message {_short(int(message[at]))} was acknowledged at {views.at_s(rows, at)} by "
            f"{rows.text('node', at) or 'the system'} (epoch {int(rows.column('epoch')[at])}) at queue {queue}, "
            f"offset {offset}, but it is missing from {where}.{other}",
            int(op[at]),
            int(index[at]),
            end.drained.get(queue, (0, 0, -1))[2],
            *index[elsewhere.at[:2]],
            queue=queue,
            offset=offset,
            message=int(message[at]),
        )

    found.count("lost", len(missing.at))
    found.add_each(name, np.arange(len(missing.at)), tell)


def _short(message: int) -> str:
    return f"{message >> 40}/{message & (1 << 40) - 1}" if message >= 0 else "without an id"


def _recovered(rows: Rows, found: Findings, end: _Evidence, present: Claims, queue: int) -> None:
    """Count the unclear sends whose message is there after all."""
    sends, index = rows.memo(views.sends), rows.column("index")
    mine = end.sends.get(queue, index[:0])
    asked, ok = sends.invoke[mine], sends.ok[mine]
    unclear = asked[~ok & ~sends.failed[mine]]
    found.count("unclear", len(unclear))
    message = rows.column("message")
    there = occur(message[unclear], message[present.at]) & ~occur(message[unclear], message[asked[ok]])
    _, first = np.unique(message[unclear[there]], return_index=True)

    def tell(at: int) -> None:
        found.add(
            RECOVERED,
            f"The result of sending message {_short(int(message[at]))} at {views.at_s(rows, at)} was unknown;"
            " it was stored.",
            int(index[at]),
            queue=queue,
            message=int(message[at]),
        )

    found.add_each(RECOVERED, unclear[there][first], tell)


def _unexpected(rows: Rows, found: Findings) -> None:
    """Everything read or stored was sent, to this queue, with this content, and not by a send that surely failed."""
    sends = rows.memo(views.sends)
    message, queue, content, index = (rows.column(name) for name in ("message", "queue", "hash", "index"))
    stored = [rows.memo(views.final_log).at, rows.memo(views.tiered).at]
    at = np.sort(np.concatenate([rows.memo(views.delivered).at, *stored]))
    slot, count = message_slots(np.concatenate([message[sends.invoke], message[at]]))
    asked_in, seen_in = slot[: len(sends.invoke)], slot[len(sends.invoke) :]
    source = first_in(asked_in, count, sends.invoke)[seen_in]
    astray = (source < 0) | (queue[source] != queue[at])
    damaged = ~astray & (content[source] != content[at])
    possible = any_in(asked_in[~sends.failed], count)[seen_in]
    refused = ~astray & ~possible

    def tell(name: str, why: str, told: Ints) -> None:
        order, firsts = views.groups(queue[told], rows.column("offset")[told], message[told])
        once = told[np.sort(order[firsts])]
        found.add_each(name, once, lambda seen: tell_one(name, why, seen), queues=queue[once])

    def tell_one(name: str, why: str, seen: int) -> None:
        place, node = int(rows.column("offset")[seen]), rows.text("node", seen)
        asked = source[np.searchsorted(at, seen)]
        found.add(
            name,
            f"Queue {int(queue[seen])}, offset {place}, seen at {views.at_s(rows, seen)}"
            f"{' on ' if node else ''}{node}: {why}",
            int(index[asked]) if asked >= 0 else -1,
            int(index[seen]),
            queue=int(queue[seen]),
            offset=place,
            message=int(message[seen]),
        )

    tell(UNEXPECTED, "a message that nobody sent to this queue.", at[astray])
    tell(UNEXPECTED, "a message whose every send was definitely refused.", at[refused])
    tell(CORRUPT, "the message arrived with another content than was sent.", at[damaged])


def _appended_twice(rows: Rows, found: Findings) -> None:
    """A message stands at no more offsets than it had attempts that may have succeeded."""
    sends = rows.memo(views.sends)
    message, offset, queue, index = (rows.column(name) for name in ("message", "offset", "queue", "index"))
    read = rows.memo(views.delivered)
    parts = [
        rows.memo(views.final_log).at,
        rows.memo(views.tiered).at,
        read.at[rows.memo(views.drain_reads)],
    ]
    at = np.concatenate(parts)
    at = _at_several(rows, at[message[at] >= 0])
    order, starts = views.groups(message[at], queue[at], offset[at])
    at = at[order[starts]]
    ids, begin, copies = np.unique(message[at], return_index=True, return_counts=True)
    tried = message[sends.invoke[~sends.failed]]
    if not len(tried):
        return
    attempts_of, attempts = np.unique(tried[among(tried, ids)], return_counts=True)
    allowed = np.ones(len(ids), dtype=np.int64)
    allowed[np.searchsorted(ids, attempts_of)] = attempts
    found.count("duplicates_by_retry", int((copies[copies <= allowed] - 1).sum()))

    def tell(number: int) -> None:
        where = at[begin[number] : begin[number] + copies[number]]
        asked = sends.invoke[message[sends.invoke] == ids[number]]
        found.add(
            DUPLICATE_APPEND,
            f"Message {_short(int(ids[number]))} was sent {len(asked)} times, of which {int(allowed[number])} may have "
            f"been stored, but stands at the offsets {', '.join(str(int(o)) for o in offset[where][:8])} of queue "
            f"{int(queue[where[0]])}.",
            *index[asked[:4]],
            *index[where[:8]],
            queue=int(queue[where[0]]),
            offset=int(offset[where[-1]]),
            message=int(ids[number]),
        )

    many = np.flatnonzero(copies > allowed)
    found.add_each(DUPLICATE_APPEND, many, tell, queues=queue[at[begin[many]]])


def _at_several(rows: Rows, at: Ints) -> Ints:
    """Of records, those of messages that stand at more than one place."""
    message, offset, queue = (rows.column(name)[at] for name in ("message", "offset", "queue"))
    slot, count = message_slots(message)
    other = first_in(slot, count, offset)[slot] != offset
    other |= first_in(slot, count, queue)[slot] != queue
    return at[any_in(slot[other], count)[slot]]


def _redelivered(rows: Rows, found: Findings) -> None:
    """Count messages that one group got more than once; at-least-once delivery permits that."""
    read, pulls = rows.memo(views.delivered), rows.memo(views.pulls)
    known = read.at[read.pull >= 0]
    code, names = rows.labels("group", pulls.invoke)
    group = code[read.pull[read.pull >= 0]]
    mine = np.array(names, dtype=np.object_)[group] != ""
    known, group = known[mine], group[mine]
    of, _ = slots(group, rows.column("queue")[known] + 1)
    slot, count = slots(of, rows.column("offset")[known])
    leader = first_in(slot, count, np.arange(len(known)))[slot]
    again = np.flatnonzero(leader != np.arange(len(known)))
    index = rows.column("index")

    def tell(number: int) -> None:
        at, before = int(known[number]), int(known[leader[number]])
        found.add(
            REDELIVERY,
            f"Group {names[group[number]]} got offset {int(rows.column('offset')[at])} of queue "
            f"{int(rows.column('queue')[at])} again at {views.at_s(rows, at)}.",
            int(index[before]),
            int(index[at]),
            queue=int(rows.column("queue")[at]),
            offset=int(rows.column("offset")[at]),
            message=int(rows.column("message")[at]),
        )

    found.add_each(REDELIVERY, again, tell, queues=rows.column("queue")[known[again]])


def create(options: Options) -> Durability:
    return Durability()
