"""What was acknowledged is there, where it was acknowledged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chaos.findings import Findings
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import losses, reads, retention
from checkers._facts.arrays import first_in, places_in, slots
from checkers._facts.claims import ByPlace, Claims
from checkers._facts.losses import Lost, Records, explained
from checkers._facts.reads import callers, own
from checkers.durability.evidence import ACKED, ENDS, Reached, by_final, decided, present, stores_are_whole
from checkers.durability.promise import LOST, LOST_BY_POLICY, PROMISE, REDELIVERY, short

#: Where a message was sought whose queue was not drained.
ALL_CONTENT = "the final content of every replica and of the tier"

NEEDS = Needs(
    part="what was acknowledged at an offset",
    key=Key.OFFSET,
    rows=(
        own("op", "send", "delivered"),
        own("final", "tiered"),
        own("trace", "append"),
        callers("pull"),
        *losses.EVIDENCE,
        *(*reads.REPLICAS, *reads.FINAL_LOGS, *ENDS),
    ),
    columns=(*reads.BASIC, *reads.OPERATIONS, *reads.RECORDS, *reads.LIVES),
    uses=(Use.QUEUES,),
    lookups=(retention.TRIMMED,),
)


@dataclass(frozen=True, slots=True)
class Acknowledged:
    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        found.count("acked", len(rows.memo(facts.acknowledged).at))
        found.count("read", len(rows.where(kind="op", f="delivered")))
        _unjudged(rows, found)
        end = rows.beside.memo(Reached.of)
        end.note(found)
        _kept(rows, context, found, end)
        _redelivered(rows, found)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decided(partial.merge(Partial(gaps=tuple(gaps(partial.facts)))), context, ACKED)


def _unjudged(rows: Rows, found: Findings) -> None:
    """Count the answers that can't be judged, and prove nothing: an ok without a place, an end without a beginning."""
    sends = rows.memo(facts.sends)
    placed = rows.column("type")[rows.memo(facts.acknowledged).at] == rows.code("type", "ok")
    placeless = int(sends.ok.sum()) - int(placed.sum())
    unreadable = len(rows.where(kind="op", f="delivered")) - len(rows.memo(facts.read).at)
    strays = len(rows.where(kind="op", f="send")) - len(sends.invoke) - int((sends.done >= 0).sum())
    if placeless or unreadable or strays:
        found.fact(placeless=placeless, unreadable=unreadable, strays=strays)


def gaps(reported: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what the shards together leave open. What they count may be divided in any way, so it is added up here."""
    sentences = {
        "placeless": "{} acknowledged sends do not report which content stands at which offset",
        "unreadable": "{} messages were read without their offset or content",
        "strays": "{} sends ended more than once, or without an invocation on record",
    }
    for name, text in sentences.items():
        if number := sum(fact.get(name, 0) for fact in reported):
            yield text.format(number)
    gone: dict[tuple[str, int], int] = {}
    for fact in reported:
        for queue, number in fact.get("gone", ()):
            gone[fact["but"], queue] = gone.get((fact["but"], queue), 0) + number
    for (but, _), number in sorted(gone.items()):
        yield f"{number} acknowledged messages are gone, {but}"


def _kept(rows: Rows, context: RunContext, found: Findings, end: Reached) -> None:
    """Find acknowledged messages that are gone, of all queues at once."""
    judged = end.judged(rows, context)
    if not judged.any():
        return
    found.count("lost", 0)
    acked = rows.memo(facts.acknowledged)
    acked = acked.only(end.of_each(acked.queue, judged))
    missing = acked.only(~facts.holds(present(rows, context, end, judged), acked))
    if len(missing.at):
        floor = end.floors(rows.beside, context, judged).floor
        missing = missing.only(missing.offset >= floor[places_in(end.queues, missing.queue)[0]])
    _lost(rows, context, found, end, missing)


def _lost(rows: Rows, context: RunContext, found: Findings, end: Reached, missing: Claims) -> None:
    """Of what is missing, each loss that a weakness of the profile explains is one by policy. If the run itself
    destroyed every copy that was sure, nothing is owed of the rest."""
    records = Records.of(rows, missing)
    why = explained(rows, context, records, missing.at)
    for policy, mine in why.reasons(Lost.PERMITTED):
        _report_lost(rows, context, found, end, missing.only(mine), LOST_BY_POLICY, policy)
    for but, mine in why.reasons(Lost.UNDECIDED):
        _gone(found, missing.only(mine), but)
    rest = missing.only(why.where(Lost.UNEXPLAINED))
    if len(rest.at) and (destroyed := facts.all_destroyed(rows, context)):
        _gone(found, rest, f"but {destroyed}")
    else:
        _report_lost(rows, context, found, end, rest, LOST)


def _gone(found: Findings, claims: Claims, but: str) -> None:
    """Note how many acknowledged messages of each queue are gone, of which it is unknown whether they may be."""
    queues, numbers = np.unique(claims.queue, return_counts=True)
    found.fact(gone=[*zip(queues.tolist(), numbers.tolist(), strict=True)], but=but)


def _report_lost(
    rows: Rows, context: RunContext, found: Findings, end: Reached, missing: Claims, name: str, policy: str = ""
) -> None:
    index, op, message = rows.column("index"), rows.column("op"), rows.column("message")
    finals = ByPlace(rows.memo(by_final)) if len(missing.at) else None
    by_drain = end.of_each(missing.queue, end.proven & (not stores_are_whole(rows, context)))

    def report_one(number: int) -> None:
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
            f"Message {short(int(message[at]))} was acknowledged at {facts.at_s(rows, at)} by "
            f"{facts.who(rows.text('node', at), int(rows.column('epoch')[at]))} at queue {queue}, "
            f"offset {offset}, but it is missing from {where}.{other}{f' As {policy}.' if policy else ''}",
            int(op[at]),
            int(index[at]),
            end.drains.row_of(queue),
            *index[elsewhere.at[:2]],
            queue=queue,
            offset=offset,
            message=int(message[at]),
            policy=policy,
        )

    found.count("lost", len(missing.at))
    found.add_each(name, np.arange(len(missing.at)), report_one, queues=missing.queue, policy=policy)


def _redelivered(rows: Rows, found: Findings) -> None:
    """Count messages that one group got more than once; at-least-once delivery permits that."""
    read, pulls = rows.beside.memo(facts.delivered), rows.beside.memo(facts.pulls)
    code, names = rows.labels("group", pulls.invoke)
    grouped = np.append((np.array(names, dtype=np.object_) != "")[code], False)  # the last one is no pull
    mine = grouped[read.pull] & places_in(rows.where(kind="op", f="delivered"), read.at)[1]
    known, group = read.at[mine], code[read.pull[mine]]
    of, _ = slots(group, rows.column("queue")[known] + 1)
    slot, count = slots(of, rows.column("offset")[known])
    leader = first_in(slot, count, np.arange(len(known)))[slot]
    again = np.flatnonzero(leader != np.arange(len(known)))
    index = rows.column("index")

    def report_one(number: int) -> None:
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

    found.add_each(REDELIVERY, again, report_one, queues=rows.column("queue")[known[again]])
