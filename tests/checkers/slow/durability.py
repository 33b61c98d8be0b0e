"""Durability, queue by queue: the oracle of the kernels in ``checkers/durability``."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from chaos.findings import Findings, decide
from chaos.kernel import Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts.arrays import Flags, Ints
from checkers._facts.claims import Claims
from checkers._facts.losses import Lost, Records, explained
from checkers._facts.retention import EARLY_RETENTION
from checkers.durability.acknowledged import NEEDS as ACKNOWLEDGED
from checkers.durability.messages import NEEDS as MESSAGES
from checkers.durability.promise import (
    CORRUPT,
    DUPLICATE_APPEND,
    LOST,
    LOST_BY_POLICY,
    PROMISE,
    RECOVERED,
    REDELIVERY,
    UNEXPECTED,
)
from checkers.durability.queues import NEEDS as QUEUES
from tests.checkers.slow import retention

#: What the kernels need that this is the oracle of, of whole queues.
ALL = replace(
    ACKNOWLEDGED,
    part="",
    rows=tuple(replace(one, beside=False) for needs in (ACKNOWLEDGED, MESSAGES, QUEUES) for one in needs.rows),
)


@dataclass(frozen=True, slots=True)
class Durability:
    promise: Promise = PROMISE
    needs: Needs = ALL

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found, of_all = Findings(PROMISE), Findings(PROMISE)
        acked = rows.memo(facts.acknowledged)
        found.count("acked", len(acked.at))
        _untold(rows, found)
        found.count("read", len(rows.memo(facts.delivered).at))
        end = _Evidence.gather(rows, context)
        found.count("drained_queues", len(end.drained))
        for queue in _queues(rows):
            _judge_queue(rows, context, found, of_all, end, queue)
        _unexpected(rows, found)
        _appended_twice(rows, found)
        _redelivered(rows, found)
        retention.examine(rows, context, of_all)
        return found.partial().merge(of_all.partial())

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        needs = [
            ("acked", "no acknowledged send: nothing was promised"),
            ("drained_queues", "no queue was read to its end after the run"),
        ]
        return decide(PROMISE, partial, needs=needs, unless=context.no_queues)


def _untold(rows: Rows, found: Findings) -> None:
    """Answers that can't be judged are no proof of anything: an ok without a place, an end without a beginning."""
    sends = rows.memo(facts.sends)
    placeless = int(sends.ok.sum()) - len(rows.memo(facts.acknowledged).at)
    if placeless:
        found.gap(f"{placeless} acknowledged sends do not report which content stands at which offset")
    read = rows.memo(facts.delivered).at
    unreadable = len(read) - len(rows.memo(facts.read).at)
    if unreadable:
        found.gap(f"{unreadable} messages were read without their offset or content")
    every = rows.where(kind="op", f="send")
    strays = len(every) - len(sends.invoke) - int((sends.done >= 0).sum())
    if strays:
        found.gap(f"{strays} sends ended more than once, or without an invocation on record")


def _queues(rows: Rows) -> list[int]:
    """The queues of this shard that clients worked with."""
    at = np.concatenate([rows.where(kind="op", f="send"), rows.where(kind="op", f="delivered")])
    return [int(queue) for queue in np.unique(rows.column("queue")[at]) if queue >= 0]


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What is known of the content after recovery. ``drained``: queue → (begin, end, row) of a completed drain."""

    drained: dict[int, tuple[int, int, int]]
    by_drain: Claims
    by_final: Claims
    finals_are_whole: bool
    system_end: dict[int, int]

    @classmethod
    def gather(cls, rows: Rows, context: RunContext) -> _Evidence:
        drains = facts.calls(rows, "drain")
        queue, offset, index = rows.column("queue"), rows.column("offset"), rows.column("index")
        drained: dict[int, tuple[int, int, int]] = {}
        for asked, done in zip(drains.invoke[drains.ok], drains.done[drains.ok], strict=True):
            begin, end = max(0, int(offset[asked])), int(offset[done])
            known = drained.get(int(queue[asked]))
            if known is None or end - begin > known[1] - known[0]:
                drained[int(queue[asked])] = (begin, end, int(index[done]))
        read = rows.memo(facts.delivered)
        by_drain = facts.claims_of(rows, read.at[rows.memo(facts.drain_reads)])
        by_final = facts.join(rows.memo(facts.final_log), rows.memo(facts.tiered))
        names = facts.brokers(rows, context)
        whole = bool(names) and set(names) <= facts.complete_nodes(rows) and facts.has_recovered(rows)
        return cls(drained, by_drain, by_final, whole, _system_ends(rows))


def _system_ends(rows: Rows) -> dict[int, int]:
    """The end of each queue as masters told it after the run."""
    ends: dict[int, int] = {}
    for at in rows.where(kind="final", f="node"):
        told = rows.value(at)
        if told.get("role") == "master":
            for queue, end in (told.get("maximums") or {}).items():
                ends[int(queue)] = max(ends.get(int(queue), -1), int(end))
    return ends


def _judge_queue(
    rows: Rows, context: RunContext, found: Findings, of_all: Findings, end: _Evidence, queue: int
) -> None:
    """Find acknowledged messages of one queue that are gone, and unclear ones that are there."""
    acked = rows.memo(facts.acknowledged)
    acked = acked.only(acked.queue == queue)
    read = rows.memo(facts.read)
    seen = read.offset[read.queue == queue]
    needed = max(acked.offset.max(initial=-1), seen.max(initial=-1), end.system_end.get(queue, 0) - 1) + 1
    begin, reached, _ = end.drained.get(queue, (0, -1, -1))
    proven = reached >= needed
    if not proven:
        what = f"reached offset {reached} of {needed}" if queue in end.drained else "is missing"
        if context.uses_queues:
            found.gap(f"queue {queue} was not read to its end after the run: the drain {what}")
        if not end.finals_are_whole:
            return
    found.count("lost", 0)
    present = end.by_drain if proven else facts.join(end.by_drain, end.by_final)
    present = present.only(present.queue == queue)
    floor, known = retention.lawful_floor(rows, context, queue, of_all)
    if proven and begin > floor and not known:
        found.gap(
            f"queue {queue} begins at offset {begin}, and nothing shows whether retention was allowed to remove what "
            "is below"
        )
        floor = begin
    if known:
        _denied(rows, found, queue, floor)
    missing = acked.only(~_holds(present, acked) & (acked.offset >= floor))
    _lost(rows, context, found, end, missing, proven)
    _recovered(rows, found, present, queue)


def _denied(rows: Rows, found: Findings, queue: int, floor: int) -> None:
    """No replica tells a client that a queue begins above what retention has lawfully removed: it would pass over what
    is there."""
    index = rows.column("index")
    for f in ("pull", "bounds"):
        calls = facts.calls(rows, f)
        done = calls.done[calls.ok]
        done = done[rows.column("queue")[done] == queue]
        wrong = done[rows.numbers("minimum", done) > floor]

        def tell(at: int) -> None:
            minimum = int(rows.value(at).get("minimum", -1))
            found.add(
                EARLY_RETENTION,
                f"{rows.text('node', at) or 'The system'} said at {facts.at_s(rows, at)} that queue {queue} begins at "
                f"offset {minimum}, but retention was allowed to remove only what is below offset {floor}.",
                int(index[at]),
                queue=queue,
                offset=floor,
            )

        found.add_each(EARLY_RETENTION, wrong, tell, queues=rows.column("queue")[wrong])


def _holds(present: Claims, claims: Claims) -> Flags:
    """For each claim: is the same content at the same offset? Both of one queue."""
    order, starts = facts.groups(present.offset, present.hash)
    known = order[starts]
    offset, content = present.offset[known], present.hash[known]
    low, high = (np.searchsorted(offset, claims.offset, side=side) for side in ("left", "right"))
    held = np.zeros(len(claims.at), dtype=np.bool_)
    for step in range(int((high - low).max(initial=0))):  # more than one content at an offset is rare
        there = low + step < high
        held[there] |= content[low[there] + step] == claims.hash[there]
    return held


def _lost(rows: Rows, context: RunContext, found: Findings, end: _Evidence, missing: Claims, by_drain: bool) -> None:
    """What explains a loss has an oracle of its own, :mod:`slow.losses`."""
    why = explained(rows, context, Records.of(rows, missing), missing.at)
    for policy, mine in why.reasons(Lost.PERMITTED):
        _tell_lost(rows, found, end, missing.only(mine), by_drain, LOST_BY_POLICY, policy)
    for but, mine in why.reasons(Lost.UNDECIDED):
        found.gap(f"{len(mine)} acknowledged messages are gone, {but}")
    rest = missing.only(why.where(Lost.UNEXPLAINED))
    if len(rest.at) and (destroyed := facts.all_destroyed(rows, context)):
        found.gap(f"{len(rest.at)} acknowledged messages are gone, but {destroyed}")
    else:
        _tell_lost(rows, found, end, rest, by_drain, LOST)


def _tell_lost(
    rows: Rows, found: Findings, end: _Evidence, missing: Claims, by_drain: bool, name: str, policy: str = ""
) -> None:
    index, op, message = rows.column("index"), rows.column("op"), rows.column("message")

    def tell(number: int) -> None:
        at = int(missing.at[number])
        queue, offset = int(missing.queue[number]), int(missing.offset[number])
        where = "the final read of the queue" if by_drain else "the final content of every replica and of the tier"
        elsewhere = end.by_final.only((end.by_final.queue == queue) & (end.by_final.offset == offset))
        other = (
            f" Another message has its offset on {rows.text('node', elsewhere.at[0])}."
            if (len(elsewhere.at) and int(elsewhere.hash[0]) != int(missing.hash[number]))
            else ""
        )
        found.add(
            name,
            f"Message {_short(int(message[at]))} was acknowledged at {facts.at_s(rows, at)} by "
            f"{facts.who(rows.text('node', at), int(rows.column('epoch')[at]))} at queue {queue}, "
            f"offset {offset}, but it is missing from {where}.{other}{f' As {policy}.' if policy else ''}",
            int(op[at]),
            int(index[at]),
            end.drained.get(queue, (0, 0, -1))[2],
            *index[elsewhere.at[:2]],
            queue=queue,
            offset=offset,
            message=int(message[at]),
            policy=policy,
        )

    found.count("lost", len(missing.at))
    found.add_each(name, np.arange(len(missing.at)), tell, queues=missing.queue, policy=policy)


def _short(message: int) -> str:
    return f"{message >> 40}/{message & (1 << 40) - 1}" if message >= 0 else "without an id"


def _recovered(rows: Rows, found: Findings, present: Claims, queue: int) -> None:
    """Count the unclear sends whose message is there after all."""
    sends = rows.memo(facts.sends)
    message, index = rows.column("message"), rows.column("index")
    mine = rows.column("queue")[sends.invoke] == queue
    unclear = mine & ~sends.ok & ~sends.failed
    acknowledged = message[sends.invoke[mine & sends.ok]]
    asked = sends.invoke[unclear]
    there = np.isin(message[asked], message[present.at]) & ~np.isin(message[asked], acknowledged)
    _, first = np.unique(message[asked[there]], return_index=True)
    back = asked[there][first]
    found.count("unclear", int(unclear.sum()))

    def tell(at: int) -> None:
        found.add(
            RECOVERED,
            f"The result of sending message {_short(int(message[at]))} at {facts.at_s(rows, at)} was unknown;"
            " it was stored.",
            int(index[at]),
            queue=queue,
            message=int(message[at]),
        )

    found.add_each(RECOVERED, back, tell, queues=rows.column("queue")[back])


def _unexpected(rows: Rows, found: Findings) -> None:
    """Everything read or stored was sent, to this queue, with this content, and not by a send that surely failed."""
    sends = rows.memo(facts.sends)
    message, queue, content, index = (rows.column(name) for name in ("message", "queue", "hash", "index"))
    stored = [rows.memo(facts.final_log).at, rows.memo(facts.tiered).at]
    at = np.sort(np.concatenate([rows.memo(facts.delivered).at, *stored]))
    ids, first = np.unique(message[sends.invoke], return_index=True)
    origin = sends.invoke[first]
    slot = np.minimum(np.searchsorted(ids, message[at]), max(0, len(ids) - 1))
    sent = (ids[slot] == message[at]) if len(ids) else np.zeros(len(at), dtype=np.bool_)
    source = origin[slot] if len(ids) else np.zeros(len(at), dtype=np.int64)
    astray = ~sent | (queue[source] != queue[at])
    damaged = ~astray & (content[source] != content[at])
    possible = np.isin(message[at], message[sends.invoke[~sends.failed]])
    refused = ~astray & ~possible
    index_of = dict(zip(at.tolist(), source.tolist(), strict=True))

    def tell(name: str, why: str, told: Ints) -> None:
        places = np.stack([queue[told], rows.column("offset")[told], message[told]])
        _, firsts = np.unique(places, axis=1, return_index=True)
        once = told[np.sort(firsts)]
        found.add_each(name, once, lambda at: tell_one(name, why, at), queues=queue[once])

    def tell_one(name: str, why: str, at: int) -> None:
        place, node = int(rows.column("offset")[at]), rows.text("node", at)
        sent = index_of[at]
        stranger = name is UNEXPECTED and (message[at] != message[sent] or queue[at] != queue[sent])
        found.add(
            name,
            f"Queue {int(queue[at])}, offset {place}, seen at {facts.at_s(rows, at)}"
            f"{' on ' if node else ''}{node}: {why}",
            -1 if stranger else int(index[sent]),
            int(index[at]),
            queue=int(queue[at]),
            offset=place,
            message=int(message[at]),
        )

    tell(UNEXPECTED, "a message that nobody sent to this queue.", at[astray])
    tell(UNEXPECTED, "a message whose every send was definitely refused.", at[refused])
    tell(CORRUPT, "the message arrived with another content than was sent.", at[damaged])


def _appended_twice(rows: Rows, found: Findings) -> None:
    """A message stands at no more offsets of a queue than it had attempts there that may have succeeded."""
    sends = rows.memo(facts.sends)
    message, offset, queue, index = (rows.column(name) for name in ("message", "offset", "queue", "index"))
    read = rows.memo(facts.delivered)
    parts = [
        rows.memo(facts.final_log).at,
        rows.memo(facts.tiered).at,
        read.at[rows.memo(facts.drain_reads)],
    ]
    at = np.concatenate(parts)
    at = at[message[at] >= 0]
    order, starts = facts.groups(message[at], queue[at], offset[at])
    at = at[order[starts]]
    places = [*zip(message[at].tolist(), queue[at].tolist(), strict=True)]
    ids = sorted(set(places))
    begin = np.array([places.index(one) for one in ids], dtype=np.int64)
    copies = np.array([places.count(one) for one in ids], dtype=np.int64)
    sent = sends.invoke[~sends.failed]
    tried = [*zip(message[sent].tolist(), queue[sent].tolist(), strict=True)]
    allowed = np.array([max(1, tried.count(one)) for one in ids], dtype=np.int64)
    found.count("duplicates_by_retry", int((copies[copies <= allowed] - 1).sum()))

    def tell(number: int) -> None:
        where = at[begin[number] : begin[number] + copies[number]]
        message_, queue_ = ids[number]
        asked = sends.invoke[(message[sends.invoke] == message_) & (queue[sends.invoke] == queue_)]
        found.add(
            DUPLICATE_APPEND,
            f"Message {_short(message_)} was sent {len(asked)} times to queue {queue_}, of which "
            f"{int(allowed[number])} may have been stored, but stands there at the offsets "
            f"{', '.join(str(int(o)) for o in offset[where][:8])}.",
            *index[asked[:4]],
            *index[where[:8]],
            queue=int(queue[where[0]]),
            offset=int(offset[where[-1]]),
            message=message_,
        )

    many = np.flatnonzero(copies > allowed)
    found.add_each(DUPLICATE_APPEND, many, tell, queues=queue[at[begin[many]]])


def _redelivered(rows: Rows, found: Findings) -> None:
    """Count messages that one group got more than once; at-least-once delivery permits that."""
    read, pulls = rows.memo(facts.delivered), rows.memo(facts.pulls)
    known = read.at[read.pull >= 0]
    groups = rows.words("group", pulls.invoke)
    names, code = np.unique(np.array(groups, dtype=np.str_), return_inverse=True) if groups else (np.array([]), None)
    if code is None or not len(known):
        return
    group = code.reshape(-1)[read.pull[read.pull >= 0]]
    mine = names[group] != ""
    known, group = known[mine], group[mine]
    order, starts = facts.groups(group, rows.column("queue")[known], rows.column("offset")[known])
    first = np.zeros(len(known), dtype=np.bool_)
    first[starts] = True
    leader = np.empty(len(known), dtype=np.int64)
    leader[order] = order[np.maximum.accumulate(np.where(first, np.arange(len(known)), 0))]
    again = np.flatnonzero(leader != np.arange(len(known)))
    index = rows.column("index")

    def tell(number: int) -> None:
        at, before = int(known[number]), int(known[leader[number]])
        found.add(
            REDELIVERY,
            f"Group {names[group[number]]} got offset {int(rows.column('offset')[at])} of queue "
            f"{int(rows.column('queue')[at])} again at {facts.at_s(rows, at)}.",
            int(index[before]),
            int(index[at]),
            queue=int(rows.column("queue")[at]),
            offset=int(rows.column("offset")[at]),
            message=int(rows.column("message")[at]),
        )

    found.add_each(REDELIVERY, again, tell, queues=rows.column("queue")[known[again]])
