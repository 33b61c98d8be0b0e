"""An acknowledged message stays readable at its queue and offset until retention removes it by its rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chaos.fault import Effect
from chaos.judging.findings import Findings, decide
from chaos.law import AnomalyKind, Key, Needs, Partial, Promise, Rows, RunContext
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _views as views
from checkers._views import later, reads, retention
from checkers._views.arrays import (
    Flags,
    Ints,
    among,
    any_in,
    ascends,
    distinct,
    first_in,
    only,
    pairs_occur,
    parts,
    places_in,
    slots,
)
from checkers._views.claims import ByPlace, Claims
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


#: Where a message was sought whose queue was not drained.
ALL_CONTENT = "the final content of every replica and of the tier"

NEEDS = Needs(
    key=Key.QUEUE,
    rows=(
        own("op", "send", "delay", "transact", "pull", "delivered", "drain", "bounds"),
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
        _judge_content(rows, context, found)
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


def _queues(rows: Rows) -> Ints:
    """The queues of this shard that clients worked with, ascending."""
    queue = rows.column("queue")
    queues = distinct(np.concatenate([distinct(queue[rows.where(kind="op", f=f)]) for f in ("send", "delivered")]))
    return queues[queues >= 0]


@dataclass(frozen=True, slots=True)
class _Drains:
    """Of each queue that was drained the drain that went furthest: from where, to where, and its row's index. The
    queues ascend."""

    queue: Ints
    begin: Ints
    end: Ints
    index: Ints

    @classmethod
    def of(cls, rows: Rows) -> _Drains:
        drains = views.calls(rows, "drain")
        asked, done = drains.invoke[drains.ok], drains.done[drains.ok]
        offset, queue = rows.column("offset"), rows.column("queue")[asked]
        begin, end = np.maximum(offset[asked], 0), offset[done]
        order = np.lexsort((begin - end, queue))
        _, first = np.unique(queue[order], return_index=True)
        best = order[first]
        return cls(queue[best], begin[best], end[best], rows.column("index")[done[best]])

    def row_of(self, queue: int) -> int:
        """The index of the row that completed the drain of this queue, -1 without one."""
        place, there = places_in(self.queue, np.array([queue], dtype=np.int64))
        return int(self.index[place[0]]) if there[0] else -1


def _system_ends(rows: Rows) -> tuple[Ints, Ints]:
    """Queues, ascending, and the end of each as masters told it after the run."""
    ends: dict[int, int] = {}
    for at in rows.where(kind="final", f="node"):
        told = rows.value(at)
        if told.get("role") == "master":
            for queue, end in (told.get("maximums") or {}).items():
                ends[int(queue)] = max(ends.get(int(queue), -1), int(end))
    queues = np.array(sorted(ends), dtype=np.int64)
    return queues, np.array([ends[queue] for queue in queues.tolist()], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What is known of the content of queues after the run: an element for each of ``queues``, which ascend.

    ``needed``: how far it must be read; ``begin``, ``reached``: from where to where it was drained (-1: not at all).
    """

    queues: Ints
    drains: _Drains
    needed: Ints
    begin: Ints
    reached: Ints
    by_drain: Claims
    by_final: Claims
    finals_are_whole: bool

    @classmethod
    def gather(cls, rows: Rows, context: RunContext) -> _Evidence:
        queues, drains = _queues(rows), _Drains.of(rows)
        read = rows.memo(views.delivered)
        names = views.brokers(rows, context)
        place, drained = places_in(drains.queue, queues)
        return cls(
            queues=queues,
            drains=drains,
            needed=_needed(rows, queues),
            begin=np.where(drained, drains.begin[place] if len(drains.queue) else 0, 0),
            reached=np.where(drained, drains.end[place] if len(drains.queue) else -1, -1),
            by_drain=views.claims_of(rows, read.at[rows.memo(views.drain_reads)]),
            by_final=views.join(rows.memo(views.final_log), rows.memo(views.tiered)),
            finals_are_whole=bool(names) and set(names) <= views.complete_nodes(rows) and views.has_recovered(rows),
        )

    def of(self, queue: Ints, flags: Flags) -> Flags:
        """For each of these queues its flag; False for those that clients did not work with."""
        if not flags.any():
            return np.zeros(len(queue), dtype=np.bool_)
        place, known = places_in(self.queues, queue)
        return known & flags[place]


def _needed(rows: Rows, queues: Ints) -> Ints:
    """The highest of three ends of each queue: behind what was acknowledged, behind what was read, and the system's."""
    needed = np.zeros(len(queues), dtype=np.int64)
    tops = [(of, top + 1) for of, top in (rows.memo(views.acknowledged_tops), rows.memo(views.read_tops))]
    for queue, end in (*tops, _system_ends(rows)):
        place, known = places_in(queues, queue)
        np.maximum.at(needed, place[known], end[known])
    return needed


def _judge_content(rows: Rows, context: RunContext, found: Findings) -> None:
    """Find acknowledged messages that are gone, and unclear ones that are there, of all queues at once."""
    end = _Evidence.gather(rows, context)
    found.count("drained_queues", len(end.drains.queue))
    proven = end.reached >= end.needed
    if context.uses_queues:
        for place in np.flatnonzero(~proven).tolist():
            queue, needed = int(end.queues[place]), int(end.needed[place])
            reached = f"reached offset {int(end.reached[place])} of {needed}"
            what = reached if end.drains.row_of(queue) >= 0 else "is missing"
            found.gap(f"queue {queue} was not read to its end after the run: the drain {what}")
    judged = proven | end.finals_are_whole
    if not judged.any():
        return
    present = views.join(
        end.by_drain.only(end.of(end.by_drain.queue, judged)),
        end.by_final.only(end.of(end.by_final.queue, judged & ~proven)),
    )
    floor, known = _floors(rows, context, found, end, judged, proven)
    _denied(rows, found, end, floor, known)
    acked = rows.memo(views.acknowledged)
    acked = acked.only(end.of(acked.queue, judged))
    due = acked.offset >= floor[places_in(end.queues, acked.queue)[0]]
    _lost(rows, context, found, end, acked.only(due & ~views.holds(present, acked)), judged, proven)
    _recovered(rows, found, end, present, judged)


def _floors(
    rows: Rows, context: RunContext, found: Findings, end: _Evidence, judged: Flags, proven: Flags
) -> tuple[Ints, Flags]:
    """Below which offset each judged queue lawfully holds nothing, and whether anything tells; where nothing does, what
    lies below the drain's beginning is not judged."""
    floor, known = np.zeros(len(judged), dtype=np.int64), np.zeros(len(judged), dtype=np.bool_)
    floor[judged], known[judged] = retention.lawful_floors(rows, context, end.queues[judged], found)
    unexplained = proven & (end.begin > floor) & ~known
    for place in np.flatnonzero(unexplained).tolist():
        found.gap(
            f"queue {int(end.queues[place])} begins at offset {int(end.begin[place])}, and nothing tells whether that "
            "was lawful retention"
        )
    return np.where(unexplained, end.begin, floor), known


def _denied(rows: Rows, found: Findings, end: _Evidence, floor: Ints, known: Flags) -> None:
    """No master tells a client that a queue begins above what retention has lawfully removed: it would pass over what
    is there."""
    index, queue = rows.column("index"), rows.column("queue")

    def tell(at: int) -> None:
        minimum, above = int(rows.value(at).get("minimum", -1)), int(floor[np.searchsorted(end.queues, queue[at])])
        found.add(
            EARLY_RETENTION,
            f"{rows.text('node', at) or 'The system'} said at {views.at_s(rows, at)} that queue {int(queue[at])} "
            f"begins at offset {minimum}, but only what is below offset {above} was ever lawfully removed.",
            int(index[at]),
            queue=int(queue[at]),
            offset=above,
        )

    for f in ("pull", "bounds"):
        calls = views.calls(rows, f)
        done = calls.done[calls.ok]
        done = done[views.from_masters(rows, done)]
        minimum = rows.numbers("minimum", done)
        place, mine = places_in(end.queues, queue[done])
        mine &= known[place] & (minimum > floor[place])
        found.add_each(EARLY_RETENTION, done[mine], tell, queues=queue[done[mine]])


def _lost(
    rows: Rows,
    context: RunContext,
    found: Findings,
    end: _Evidence,
    missing: Claims,
    judged: Flags,
    proven: Flags,
) -> None:
    queues, numbers = np.unique(missing.queue, return_counts=True)
    if len(queues) and (why := views.all_destroyed(rows, context)):
        for number in distinct(numbers).tolist():
            found.gap(f"{number} acknowledged messages are gone, but {why}")
        if len(queues) < int(judged.sum()):
            found.count("lost", 0)
        return
    permitted, unknown = _loss_permitted(rows, context, missing)
    for number in distinct(np.unique(missing.queue[unknown], return_counts=True)[1]).tolist():
        found.gap(
            f"{number} acknowledged messages are gone, and nobody knows whether a fault that declares no "
            "effects made another replica the master, which the profile lets lose them"
        )
    _tell_lost(rows, found, end, missing.only(~permitted & ~unknown), proven, LOST)
    _tell_lost(rows, found, end, missing.only(permitted), proven, LOST_BY_POLICY)


#: Effects that make another replica the master, or restart one.
CHANGES_MASTER = tuple(
    effect for effect in Effect if effect not in (Effect.HARMS_TIER, Effect.ADDS_REPLICA, Effect.CUTS_CLIENTS)
)
#: So long after its undo a fault may still do that, unless the run has another bound for recovery.
RECOVER_S = 30.0


def _loss_permitted(rows: Rows, context: RunContext, missing: Claims) -> tuple[Flags, Flags]:
    """Which losses the profile permits: those of messages that only a master knew who was then replaced, or restarted.
    Both begin a newer master term of its group; where no node tells of its role, any fault will do that can bring this
    about in the group, and that was not long over when the message was acknowledged. And of which losses nobody knows,
    because only faults of unknown effect could have."""
    permitted, unknown = (np.zeros(len(missing.at), dtype=np.bool_) for _ in range(2))
    known, masters = rows.memo(views.faults), rows.memo(views.masters)
    if context.strict or not known:
        return permitted, unknown
    acked_ns, epoch, node = (rows.column(name)[missing.at] for name in ("time_ns", "epoch", "node"))
    late_ns = int(views.bound(context, "recover_s", RECOVER_S) * 1e9)
    for mine in parts(node).values():
        others = _of_other_groups(rows, rows.text("node", int(missing.at[mine[0]])))
        if masters:
            permitted[mine] = epoch[mine] < max((one for name, one in masters if name not in others), default=-1)
            continue
        sure_ns, perhaps_ns = _last_change(known, others, late_ns)
        permitted[mine] = acked_ns[mine] <= sure_ns
        unknown[mine] = ~permitted[mine] & (acked_ns[mine] <= perhaps_ns)
    return permitted, unknown


def _of_other_groups(rows: Rows, node: str) -> frozenset[str]:
    """The replicas that tell another group than this one does; none of one that tells none."""
    groups = rows.memo(views.replica_groups)
    return frozenset(name for name, group in groups.items() if node in groups and group != groups[node])


def _last_change(known: Sequence[views.Fault], others: frozenset[str], late_ns: int) -> tuple[int, int]:
    """Until when faults that have hit anybody but these ``others`` surely may have changed the master, and until when
    those may have of which nobody knows what they did; -1 where there are none."""
    sure = perhaps = -1
    for fault in known:
        until = min(fault.until_ns, views.NEVER - late_ns) + late_ns
        if fault.hits(*CHANGES_MASTER) - others:
            sure = max(sure, until)
        elif fault.effects is None and (not fault.targets or fault.targets - others):
            perhaps = max(perhaps, until)
    return sure, perhaps


def _tell_lost(rows: Rows, found: Findings, end: _Evidence, missing: Claims, proven: Flags, name: str) -> None:
    index, op, message = rows.column("index"), rows.column("op"), rows.column("message")
    finals = ByPlace(end.by_final) if len(missing.at) else None
    by_drain = end.of(missing.queue, proven)

    def tell(number: int) -> None:
        at = int(missing.at[number])
        queue, offset = int(missing.queue[number]), int(missing.offset[number])
        where = "the final read of the queue" if by_drain[number] else ALL_CONTENT
        elsewhere = finals.of(queue, offset) if finals is not None else missing
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
            end.drains.row_of(queue),
            *index[elsewhere.at[:2]],
            queue=queue,
            offset=offset,
            message=int(message[at]),
        )

    found.count("lost", len(missing.at))
    found.add_each(name, np.arange(len(missing.at)), tell, queues=missing.queue)


def _short(message: int) -> str:
    return f"{message >> 40}/{message & (1 << 40) - 1}" if message >= 0 else "without an id"


def _recovered(rows: Rows, found: Findings, end: _Evidence, present: Claims, judged: Flags) -> None:
    """Count the unclear sends whose message is there after all."""
    sends, index, message = rows.memo(views.sends), rows.column("index"), rows.column("message")
    queue = rows.column("queue")
    unclear = sends.invoke[~sends.ok & ~sends.failed]
    unclear = unclear[end.of(queue[unclear], judged)]
    found.count("unclear", len(unclear))
    asked = queue[unclear], message[unclear]
    number, count = rows.memo(views.messages)
    sought = any_in(number[unclear], count)
    stored = np.flatnonzero(sought[number[present.at]])
    acked = sends.invoke[sends.ok & sought[number[sends.invoke]]]
    there = pairs_occur(asked, (present.queue[stored], message[present.at[stored]]))
    there &= ~pairs_occur(asked, (queue[acked], message[acked]))
    order, firsts = views.groups(asked[0][there], asked[1][there])
    once = unclear[there][order[firsts]]

    def tell(at: int) -> None:
        found.add(
            RECOVERED,
            f"The result of sending message {_short(int(message[at]))} at {views.at_s(rows, at)} was unknown;"
            " it was stored.",
            int(index[at]),
            queue=int(queue[at]),
            message=int(message[at]),
        )

    found.add_each(RECOVERED, once, tell, queues=queue[once])


def _unexpected(rows: Rows, found: Findings) -> None:
    """Everything read or stored was sent, to this queue, with this content, and not by a send that surely failed."""
    sends = rows.memo(later.offered)
    message, queue, content, index = (rows.column(name) for name in ("message", "queue", "hash", "index"))
    stored = [rows.memo(views.final_log).at, rows.memo(views.tiered).at]
    at = np.concatenate([rows.memo(views.delivered).at, *stored])
    at = at if ascends(at) else np.sort(at)
    number, count = rows.memo(views.messages)
    asked_in, seen_in = number[sends.invoke], number[at]
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
    at = _at_several(rows, *only(message[at] >= 0, at))
    order, starts = views.groups(message[at], queue[at], offset[at])
    at = at[order[starts]]
    at = at[~among(message[at], distinct(message[rows.memo(later.later).invoke]))]  # those may come more than once
    ids, begin, copies = np.unique(message[at], return_index=True, return_counts=True)
    tried = sends.invoke[~sends.failed]
    if not len(tried):
        return
    number, count = rows.memo(views.messages)
    tried = tried[any_in(number[at], count)[number[tried]]]
    attempts_of, attempts = np.unique(message[tried], return_counts=True)
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
    number, count = rows.memo(views.messages)
    number, place = number[at], rows.memo(views.places).places(rows.column("queue")[at], rows.column("offset")[at])
    one = np.empty(count, dtype=np.int64)
    one[number] = place
    return at[any_in(number[one[number] != place], count)[number]]


def _redelivered(rows: Rows, found: Findings) -> None:
    """Count messages that one group got more than once; at-least-once delivery permits that."""
    read, pulls = rows.memo(views.delivered), rows.memo(views.pulls)
    code, names = rows.labels("group", pulls.invoke)
    grouped = np.append((np.array(names, dtype=np.object_) != "")[code], False)  # the last one is no pull
    mine = grouped[read.pull]
    known, group = read.at[mine], code[read.pull[mine]]
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
