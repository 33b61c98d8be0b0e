"""What was acknowledged is there until retention removes it, message by message: the oracle of the kernels in
``checkers/durability``. What explains a loss has an oracle of its own, :mod:`slow.losses`. It tells no story:
explanations are the kernels' own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from chaos.findings import Findings, decide
from chaos.history.columns import COLUMNS
from chaos.kernel import Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts.claims import Claims
from checkers._facts.losses import Lost, Records, explained
from checkers._facts.retention import EARLY_RETENTION, TRIMMED
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
from tests.checkers.slow import retention, stands
from tests.checkers.slow.plain import Call, Row, calls, read, some
from tests.checkers.slow.stands import Statement

#: What the kernels need that this is the oracle of, of whole queues.
ALL = replace(
    ACKNOWLEDGED,
    part="",
    columns=COLUMNS,
    rows=tuple(
        replace(one, beside=False)
        for rows in (ACKNOWLEDGED.rows, MESSAGES.rows, QUEUES.rows, TRIMMED.rows)
        for one in rows
    ),
)


@dataclass(frozen=True, slots=True)
class Durability:
    promise: Promise = PROMISE
    needs: Needs = ALL

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found, of_all = Findings(PROMISE), Findings(PROMISE)
        it = _Run.of(rows, context)
        found.count("acked", len(it.acked))
        _untold(rows, it, found)
        found.count("read", len(it.given))
        found.count("drained_queues", len(it.drained))
        for queue in sorted({one.queue for one in (*read(rows, "send"), *it.given) if one.queue >= 0}):
            _judge_queue(rows, context, it, found, of_all, queue)
        _unexpected(it, found)
        _appended_twice(it, found)
        _redelivered(rows, it, found)
        retention.examine(rows, context, of_all)
        return found.partial().merge(of_all.partial())

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decide(PROMISE, partial, unless=context.no_queues)


@dataclass(frozen=True, slots=True)
class _Run:
    """``given``: all that clients were given, ``final`` of that what the final reading gave. ``stored``: what logs and
    the tier hold in the end; ``whole``: that is all of it. ``drained``: queue → the widest final reading of it, from
    where to where, and its row. ``ends``: queue → its end, as masters tell it."""

    sends: list[Call]
    acked: list[Statement]
    given: list[Row]
    final: list[Row]
    stored: list[Statement]
    whole: bool
    drained: dict[int, tuple[int, int, Row]]
    ends: dict[int, int]

    @classmethod
    def of(cls, rows: Rows, context: RunContext) -> _Run:
        given, names = read(rows, "delivered"), set(facts.brokers(rows, context))
        begins = [one.index for one in some(rows, "harness", "phase") if one.value.get("phase") == "drain"]
        provers = {one.process for one in read(rows, "drain")}
        complete = {one.node for one in some(rows, "final", "complete")}
        drained: dict[int, tuple[int, int, Row]] = {}
        for call in calls(rows, "drain"):
            if call.ok and call.end is not None:
                begin, end = max(0, call.begin.offset), call.end.offset
                known = drained.get(call.begin.queue)
                if known is None or (end, -begin) > (known[1], -known[0]):
                    drained[call.begin.queue] = (begin, end, call.end)
        ends: dict[int, int] = {}
        for one in some(rows, "final", "node"):
            if one.value.get("role") == "master":
                for queue, maximum in (one.value.get("maximums") or {}).items():
                    ends[int(queue)] = max(ends.get(int(queue), -1), int(maximum))
        return cls(
            sends=calls(rows, "send"),
            acked=stands.acknowledged(rows),
            given=given,
            final=[one for one in given if (one.op >= begins[0] if begins else one.process in provers)],
            stored=stands.in_the_end(rows) + stands.tiered(rows),
            whole=bool(names) and names <= complete and bool(some(rows, "harness", "recovered")),
            drained=drained,
            ends=ends,
        )


def _untold(rows: Rows, it: _Run, found: Findings) -> None:
    """Answers that can't be judged are no proof of anything: an ok without a place, an end without a beginning."""
    if placeless := sum(call.ok for call in it.sends) - sum(one.row.type == "ok" for one in it.acked):
        found.gap(f"{placeless} acknowledged sends do not report which content stands at which offset")
    if unreadable := len(it.given) - len(stands.delivered(rows)):
        found.gap(f"{unreadable} messages were read without their offset or content")
    if strays := len(read(rows, "send")) - len(it.sends) - sum(call.end is not None for call in it.sends):
        found.gap(f"{strays} sends ended more than once, or without an invocation on record")


def _judge_queue(rows: Rows, context: RunContext, it: _Run, found: Findings, of_all: Findings, queue: int) -> None:
    """Find acknowledged messages of one queue that are gone, and unclear ones that are there."""
    acked = [one for one in it.acked if one.queue == queue]
    seen = [one for one in stands.by_rows(it.given) if one.queue == queue]
    needed = max(it.ends.get(queue, 0), *(one.offset + 1 for one in (*acked, *seen)), 0)
    begin, reached, _ = it.drained.get(queue, (0, -1, None))
    proven = reached >= needed
    if not proven:
        what = f"reached offset {reached} of {needed}" if queue in it.drained else "is missing"
        if context.uses_queues:
            found.gap(f"queue {queue} was not read to its end after the run: the drain {what}")
        if not it.whole:
            return
    found.count("lost", 0)
    present = stands.by_rows(it.final) + ([] if proven else it.stored)
    present = [one for one in present if one.queue == queue]
    floor, known = retention.lawful_floor(rows, context, queue)
    if proven and begin > floor and not known:
        found.gap(
            f"queue {queue} begins at offset {begin}, and nothing shows whether retention was allowed to remove what "
            "is below"
        )
        floor = begin
    for call in calls(rows, "pull") + calls(rows, "bounds") if known else ():
        if call.ok and call.end is not None and call.end.queue == queue and call.end.number("minimum") > floor:
            found.add(EARLY_RETENTION, "", call.end.index, queue=queue, offset=floor)  # who believes it passes over it
    held = {(one.offset, one.content) for one in present}
    missing = [one for one in acked if one.offset >= floor and (one.offset, one.content) not in held]
    _lost(rows, context, it, found, missing)
    _recovered(it, found, {one.row.message for one in present}, queue)


def _lost(rows: Rows, context: RunContext, it: _Run, found: Findings, missing: Sequence[Statement]) -> None:
    places = [[one.row.at, one.queue, one.offset, one.content] for one in missing]
    claims = Claims.of(*np.array(places, dtype=np.int64).reshape(-1, 4).T)
    why = explained(rows, context, Records.of(rows, claims), claims.at)
    numbers = np.arange(len(missing))
    for policy, mine in why.reasons(Lost.PERMITTED):
        _report_lost(it, found, [missing[number] for number in numbers[mine]], LOST_BY_POLICY, policy)
    for but, mine in why.reasons(Lost.UNDECIDED):
        found.gap(f"{len(numbers[mine])} acknowledged messages are gone, {but}")
    rest = [missing[number] for number in numbers[why.where(Lost.UNEXPLAINED)]]
    if rest and (destroyed := facts.all_destroyed(rows, context)):
        found.gap(f"{len(rest)} acknowledged messages are gone, but {destroyed}")
    else:
        _report_lost(it, found, rest, LOST)


def _report_lost(it: _Run, found: Findings, missing: Sequence[Statement], name: str, policy: str = "") -> None:
    found.count("lost", len(missing))
    elsewhere: dict[tuple[int, int], list[int]] = {(one.queue, one.offset): [] for one in missing}
    for other in it.stored:
        elsewhere.get((other.queue, other.offset), []).append(other.row.index)
    for one in missing:
        drain = [it.drained[one.queue][2].index] if one.queue in it.drained else []
        story = (one.row.op, one.row.index, *drain, *elsewhere[one.queue, one.offset][:2])
        found.add(name, "", *story, queue=one.queue, offset=one.offset, message=one.row.message, policy=policy)


def _recovered(it: _Run, found: Findings, there: set[int], queue: int) -> None:
    """Count the sends of unknown outcome, and of those whose message is there after all."""
    mine = [call for call in it.sends if call.begin.queue == queue]
    unclear = [call.begin for call in mine if call.end is None or call.end.type not in ("ok", "fail")]
    found.count("unclear", len(unclear))
    acknowledged = {call.begin.message for call in mine if call.ok}
    back: dict[int, Row] = {}
    for one in unclear:
        if one.message in there and one.message not in acknowledged:
            back.setdefault(one.message, one)
    for message, one in sorted(back.items()):
        found.add(RECOVERED, "", one.index, queue=queue, message=message)


def _unexpected(it: _Run, found: Findings) -> None:
    """Everything that was read or stands somewhere was sent, to this queue, with this content, and not by sends that
    surely failed alone. Each place is told once."""
    origin: dict[int, Row] = {}
    possible = set()
    for call in it.sends:
        origin.setdefault(call.begin.message, call.begin)
        if call.end is None or call.end.type != "fail":
            possible.add(call.begin.message)
    wrong: dict[str, dict[tuple[int, int, int], tuple[Row | None, Row]]] = {"astray": {}, "refused": {}, "damaged": {}}
    for one in sorted([*it.given, *(said.row for said in it.stored)], key=lambda one: one.at):
        sent, place = origin.get(one.message), (one.queue, one.offset, one.message)
        if sent is None or sent.queue != one.queue:
            wrong["astray"].setdefault(place, (None, one))
            continue
        if one.message not in possible:
            wrong["refused"].setdefault(place, (sent, one))
        if sent.hash != one.hash:
            wrong["damaged"].setdefault(place, (sent, one))
    for how, places in wrong.items():
        for (queue, offset, message), (sent, one) in places.items():
            name, story = CORRUPT if how == "damaged" else UNEXPECTED, [one.index]
            story = story if sent is None else [sent.index, *story]
            found.add(name, how, *story, queue=queue, offset=offset, message=message)


def _appended_twice(it: _Run, found: Findings) -> None:
    """A message stands at no more offsets of a queue than it had attempts there that may have succeeded."""
    places: dict[tuple[int, int], dict[int, Row]] = {}
    for one in [*(said.row for said in it.stored), *it.final]:
        if one.message >= 0:
            places.setdefault((one.message, one.queue), {}).setdefault(one.offset, one)
    tried: Counter[tuple[int, int]] = Counter()
    for call in it.sends:
        repeats = call.end is not None and call.end.number("again") > 0
        refused = call.end is not None and call.end.type == "fail"
        tried[call.begin.message, call.begin.queue] += not (repeats or refused)
    retried = 0
    for (message, queue), by_offset in sorted(places.items()):
        if len(by_offset) <= max(1, tried[message, queue]):
            retried += len(by_offset) - 1
            continue
        asked = [call.begin for call in it.sends if (call.begin.message, call.begin.queue) == (message, queue)]
        where = [by_offset[offset] for offset in sorted(by_offset)]
        story = (one.index for one in (*asked[:4], *where[:8]))
        found.add(DUPLICATE_APPEND, "", *story, queue=queue, offset=where[-1].offset, message=message)
    found.count("duplicates_by_retry", retried)


def _redelivered(rows: Rows, it: _Run, found: Findings) -> None:
    """Count messages that one group got more than once; at-least-once delivery permits that."""
    groups = {call.begin.index: call.begin.value.get("group", "") for call in calls(rows, "pull")}
    before: dict[tuple[str, int, int], Row] = {}
    for one in it.given:
        if group := groups.get(one.op, ""):
            first = before.setdefault((group, one.queue, one.offset), one)
            if first is not one:
                story = (first.index, one.index)
                found.add(REDELIVERY, "", *story, queue=one.queue, offset=one.offset, message=one.message)
