"""Whether groups are given what is theirs, message by message: the oracle of ``checkers/deliveries``. Explanations are
the kernels' own. What final logs and faults say, it takes from the views of all laws."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from chaos.fault import Effect
from chaos.findings import Findings, decide
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import losses, reads
from checkers._facts.nodes.logs import final_log
from checkers._facts.reads import own
from checkers.deliveries.given import DRIFT_NS, LATE_NS, LONGEST_MS
from checkers.deliveries.promise import (
    NEVER_DELIVERED,
    NEVER_DELIVERED_BY_POLICY,
    NEVER_RETURNED,
    OUT_OF_ORDER,
    PROMISE,
    ROLLED_BACK,
    TOO_EARLY,
    WITHHELD,
)
from checkers.deliveries.returned import LATE_NS as AGAIN_NS
from tests.checkers.slow.plain import Call, Row, calls, read, row

CLIENTS = (
    *("send", "delay", "transact", "receive", "receive_again", "send_back", "ack"),
    *("pull", "delivered", "drain", "caught_up"),
)
NEEDS = Needs(
    key=Key.QUEUE,
    rows=(own("op", *CLIENTS), *reads.FINAL_LOGS, *losses.TERMS),
    columns=(*reads.BASIC, *reads.OPERATIONS, *reads.RECORDS, *reads.LIVES),
    uses=(Use.DELIVERIES,),
)


@dataclass(frozen=True, slots=True)
class Deliveries:
    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        if Use.DELIVERIES not in context.uses:
            return found.partial()
        it = _History.of(rows)
        found.count("delivered", sum(map(len, it.given.values())))
        found.count("later", sum(sent.call.ok for sent in it.later))
        found.count("rolled_back", sum(sent.rolled_back for sent in it.later))
        _promised_times(rows, it, found)
        _in_order(it, found)
        _again(it, found)
        if facts.has_recovered(rows):
            _came_at_all(rows, context, it, found)
            _came_to_each(rows, context, it, found)
        if it.back:
            _came_again(rows, context, it, found)
        if facts.has_recovered(rows):
            pass
        elif any(it.given.values()):
            found.gap("the system did not recover, so what it would still have delivered is unknown")
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        unless = "" if Use.DELIVERIES in context.uses else f"no workload uses {Use.DELIVERIES}"
        return decide(PROMISE, partial, needs=[("delivered", "no group was given a message")], unless=unless)


@dataclass(frozen=True, slots=True)
class _Sent:
    """A message that was sent. ``delay_ms``: None for one that is not delayed."""

    call: Call
    delay_ms: int | None
    rolled_back: bool

    @property
    def due_ns(self) -> int:
        return self.call.begin.time_ns + min(self.delay_ms or 0, LONGEST_MS) * 1_000_000

    def must_have_come(self, now_ns: int) -> bool:
        return self.delay_ms is None or self.due_ns + LATE_NS <= now_ns


@dataclass(slots=True)
class _History:
    """``later``: what comes later than it is sent. ``came``: the first row that shows each message. ``stands``: what is
    in the queues in the end. ``given``: by group, all that it was given, also from its own copies. ``ordered``: by
    group and queue, what a group that reads in order was given. ``waits``: those that ended, with the group."""

    sends: list[Call]
    later: list[_Sent]
    acks: list[Call]
    back: list[Call]
    handed: list[Call]
    waits: list[tuple[str, Row, Row]]
    awaited: set[tuple[str, int]]
    known: set[int]
    came: dict[int, Row] = field(default_factory=dict)
    stands: list[Row] = field(default_factory=list)
    given: dict[str, list[Row]] = field(default_factory=dict)
    ordered: dict[tuple[str, int], list[Row]] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Rows) -> _History:
        asked = calls(rows, "caught_up")
        it = cls(
            sends=[call for call in calls(rows, "send") if call.ok],
            later=[_sent(call) for call in calls(rows, "delay", "transact")],
            acks=sorted((call for call in calls(rows, "ack") if call.ok), key=lambda call: call.end.at),  # type: ignore[union-attr]
            back=calls(rows, "send_back"),
            handed=[call for call in calls(rows, "receive_again") if call.ok],
            waits=[(_group(one), one.begin, one.end) for one in asked if one.ok and one.end is not None],
            awaited={(_group(one), one.begin.queue) for one in asked},
            known={one.begin.queue for one in calls(rows, "drain") if one.ok},
        )
        it._read(rows)
        return it

    def _read(self, rows: Rows) -> None:
        receives = {one.begin.index: one for one in calls(rows, "receive") if one.ok}
        again = {one.end.at: one for one in calls(rows, "receive_again") if one.ok and one.end is not None}
        delivered = read(rows, "delivered")
        phases = [row(rows, at) for at in rows.where(kind="harness", f="phase").tolist()]
        drain = [one.index for one in phases if one.value["phase"] == "drain"]
        provers = {one.begin.process for one in calls(rows, "drain")}
        logs = [row(rows, at) for at in rows.memo(final_log).at.tolist()]
        ends = [one.end for one in again.values() if one.end is not None]
        self.stands = logs + [one for one in delivered if (one.op >= drain[0] if drain else one.process in provers)]
        self.known |= {one.queue for one in self.stands}
        for one in sorted([*delivered, *ends, *logs], key=lambda one: one.at):
            self.came.setdefault(one.message, one)
        for one in sorted([*delivered, *ends], key=lambda one: one.at):
            call = again.get(one.at) or receives.get(one.op)
            if call is None:
                continue
            group = _group(call)
            self.given.setdefault(group, []).append(one)
            if one.at not in again and call.begin.number("in_order") == 1:
                self.ordered.setdefault((group, one.queue), []).append(one)

    @property
    def owed(self) -> list[_Sent]:
        """What was accepted, and not rolled back."""
        return [sent for sent in self.later if sent.call.ok and not sent.rolled_back]


def _group(call: Call) -> str:
    return str(call.begin.value.get("group", ""))


def _sent(call: Call) -> _Sent:
    delay = call.begin.number("delay_ms")
    return _Sent(call, delay if delay >= 0 else None, call.begin.value.get("decision") == "rollback")


def _promised_times(rows: Rows, it: _History, found: Findings) -> None:
    """Nothing comes before its time, and what is rolled back never. Clocks of nodes that a fault has set excuse the
    first."""
    skewed = [one.began_ns for one in rows.memo(facts.faults) if one.effects is None or one.hits(Effect.SKEWS_CLOCKS)]
    for sent in it.later:
        begin, first = sent.call.begin, it.came.get(sent.call.begin.message)
        if first is None:
            continue
        names = [ROLLED_BACK] * sent.rolled_back
        if sent.delay_ms is not None and first.time_ns < sent.due_ns - DRIFT_NS:
            if any(first.time_ns >= began_ns for began_ns in skewed):
                found.gap("delayed messages came early, but a fault has, or may have, set clocks of nodes")
            else:
                names.append(TOO_EARLY)
        for name in names:
            found.add(name, "", begin.index, first.index, queue=begin.queue, offset=first.offset, message=begin.message)


def _in_order(it: _History, found: Findings) -> None:
    """A group may begin anew at a lower offset; but it is given the one below each, or one above that, before."""
    for (_, queue), given in sorted(it.ordered.items()):
        found.count("in_order", len(given))
        seen: dict[int, Row] = {}
        for one in given:
            if seen and not any(offset >= one.offset - 1 for offset in seen):
                below = next((other.index for other in given if other.offset == one.offset - 1), -1)
                found.add(OUT_OF_ORDER, "", one.index, below, queue=queue, offset=one.offset, message=one.message)
            seen.setdefault(one.offset, one)


def _again(it: _History, found: Findings) -> None:
    """How often groups that acknowledge each message were given one again, which is no violation."""
    found.count("acks", len(it.acks))
    acked: dict[str, dict[int, int]] = {}
    for call in it.acks:
        assert call.end is not None
        acked.setdefault(str(call.end.value.get("group", "")), {}).setdefault(call.end.message, call.end.at)
    for group, first in acked.items():
        given = it.given.get(group, [])
        found.count("given_again", len(given) - len({one.message for one in given}))
        found.count("given_again_after_ack", sum(one.at > first.get(one.message, one.at) for one in given))


def _came_at_all(rows: Rows, context: RunContext, it: _History, found: Findings) -> None:
    """What is owed came, if somebody read its queue for long enough: of transactions, somebody who reached the system
    while he waited, since nobody else is asked what was decided. What a profile permits to be lost, the view of all
    laws says."""
    found.count("owed", len(it.owed))
    for sent in it.owed:
        begin, done = sent.call.begin, sent.call.end
        assert done is not None
        ends = [end for _, _, end in it.waits if end.queue == begin.queue]
        heard = any(end.number("received") > 0 for end in ends)
        if begin.message in it.came:
            continue
        if not (ends and (heard or sent.delay_ms is not None)):
            found.gap(
                f"messages that were to come to queue {begin.queue} later never came, but nobody waited for them, or"
                " the client that waited was given nothing at all"
            )
        elif not sent.must_have_come(ends[-1].time_ns):
            found.gap(f"the wait for queue {begin.queue} ended before delayed messages had to come to it")
        else:
            state, policy = losses.cuts(rows, context, confirmed=False).why(rows, done.at)
            if state is losses.Lost.UNDECIDED:
                found.gap(f"messages that were to come later never came, and {policy}")
                continue
            permitted = state is losses.Lost.PERMITTED
            name, policy = (NEVER_DELIVERED_BY_POLICY, policy) if permitted else (NEVER_DELIVERED, "")
            story = (begin.index, done.index, ends[-1].index)
            found.add(name, "", *story, queue=begin.queue, message=begin.message, policy=policy)


def _came_again(rows: Rows, context: RunContext, it: _History, found: Findings) -> None:
    """What was taken back came to its group after that, if somebody waited for long enough."""
    taken = [call for call in it.back if call.ok and call.end is not None]
    found.count("sent_back", len(taken))
    if not facts.has_recovered(rows):
        if taken:
            found.gap("the system did not recover, so what it would still have given again is unknown")
        return
    for call in taken:
        begin, done = call.begin, call.end
        assert done is not None
        group = _group(call)
        if any(
            (_group(one), one.begin.message) == (group, begin.message) and one.end and one.end.at > begin.at
            for one in it.handed
        ):
            continue
        ends = [end for who, wait, end in it.waits if (who, wait.queue) == (group, begin.queue)]
        late_ns = done.time_ns + max(0, done.number("again_ms")) * 1_000_000 + AGAIN_NS
        if not ends or ends[-1].number("received") <= 0 or ends[-1].time_ns < late_ns:
            found.gap(f"messages that group {group} sent back did not come again, but the run did not wait long enough")
            continue
        state, policy = losses.cuts(rows, context, confirmed=False).why(rows, done.at)
        if state is losses.Lost.UNDECIDED:
            found.gap(f"messages that group {group} sent back did not come again, and {policy}")
            continue
        permitted = state is losses.Lost.PERMITTED
        name, policy = (NEVER_DELIVERED_BY_POLICY, policy) if permitted else (NEVER_RETURNED, "")
        found.add(name, "", begin.index, done.index, queue=begin.queue, message=begin.message, policy=policy)


def _due(it: _History) -> Iterator[_Sent]:
    """What stands in a queue in the end, and was acknowledged or is owed."""
    sent = [*(_Sent(call, None, False) for call in it.sends), *it.owed]
    return (one for one in sorted(sent, key=lambda one: one.call.begin.at) if _is_in(one.call.begin, it.stands))


def _is_in(message: Row, rows: Iterable[Row]) -> bool:
    """With its content, and with its id or without any."""
    return any(
        (one.queue, one.hash) == (message.queue, message.hash) and one.message in (message.message, -1) for one in rows
    )


def _came_to_each(rows: Rows, context: RunContext, it: _History, found: Findings) -> None:
    """It came to each group that was waited for; for what nobody waited, nobody knows."""
    due, waits = list(_due(it)), set()
    for group, _, end in it.waits:
        waits.add((group, end.queue))
        given = it.given.get(group, [])
        lacks = [one for one in due if one.call.begin.queue == end.queue and not _is_in(one.call.begin, given)]
        owed = [one for one in lacks if one.must_have_come(end.time_ns)]
        if len(owed) < len(lacks):
            found.gap(
                f"the wait for group {group} in queue {end.queue} ended before delayed messages had to come to it"
            )
        if owed and end.number("received") <= 0:
            found.gap(
                f"group {group} lacks messages of queue {end.queue}, but nobody was given anything while it read on"
            )
            continue
        if owed and not losses.keeps_read(rows, context):
            found.gap(
                f"group {group} lacks messages of queue {end.queue}, but the profile lets what it has read be"
                " taken back, and others come below its place"
            )
            continue
        for one in owed:
            begin = one.call.begin
            found.add(WITHHELD, "", begin.index, end.index, queue=begin.queue, message=begin.message)
    found.count("groups_awaited", len(waits))
    for queue in {queue for _, queue in waits} - it.known:
        found.gap(f"what stands in queue {queue} after the run is unknown, and so what a group was never given")
    wanted = it.awaited | {(group, one.queue) for group, given in it.given.items() for one in given}
    for group, queue in wanted - waits:
        found.gap(f"group {group} was not waited for in queue {queue}: what it was never given is unknown")
