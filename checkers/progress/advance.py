"""Each reader of a queue is given what is there, is sent on to the next message, and is not kept waiting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.findings import Findings, decide
from chaos.kernel import Key, Needs, Reads, Sieve
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import losses, reads, retention, service, tier
from checkers._facts.arrays import Flags, Ints
from checkers._facts.reads import everywhere, own
from checkers.progress import held
from checkers.progress.ends import KnownEnds
from checkers.progress.needed import DELIVERIES, needed
from checkers.progress.polls import Polls, Stall, after_recovery, bound_ns, gets_on
from checkers.progress.promise import ANSWERED, PROMISE, UNREADABLE, WRONG_NEXT_OFFSET
from checkers.progress.pulls import Pulls

#: What is done to a queue that this kernel reads. Of a large queue it is given what bears on polls in vain and on
#: strange answers, which is little.
DONE = ("send", "pull", "delivered", "bounds", "committed")
NEEDS = Needs(
    part="how each reader comes forward",
    key=Key.QUEUE,
    joins=(held.NEEDS.part,),
    rows=(
        Reads(
            kind="op",
            f=DONE,
            sieve=Sieve(
                rows=(own("op", *DONE),),
                columns=("op", "type", "process", "queue", "offset", "node", "epoch", "value"),
                keep=needed,
                streamed=True,
                apart=DELIVERIES,
            ),
        ),
        *reads.SERVICE_OWED,
        *reads.RETENTION,
        everywhere("trace", "crash"),
        *losses.TERMS,
    ),
    columns=(*reads.BASIC, *reads.OPERATIONS, *losses.COLUMNS, "hash", "position"),
    uses=(Use.QUEUES,),
    lookups=(retention.TRIMMED,),
)


@dataclass(frozen=True, slots=True)
class Progress:
    """Of a reader that was sent on too far, each shard reports how far: whether it passed over a message that is there,
    the judgement finds (:mod:`.held`)."""

    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        pulls = Pulls.of(rows)
        found.fact(any_answer=bool(pulls.answered.any()))
        final = after_recovery(rows)
        owed = [*service.stretches(rows, context, bound_ns(context), of_reads=True), *final]
        kept = context.profile.acks == "all" and losses.keeps(rows, context, confirmed=False)
        ends = KnownEnds.of(rows, context, strict=kept)
        floor = _floor(rows, context, pulls)
        unreadable = _readable(rows, found, pulls, ends, floor)
        _next_offset(rows, context, found, pulls, floor, unreadable, kept=kept)
        gets_on(rows, found, Polls.of_readers(rows, pulls, ends), owed, Stall.of_reads(context))
        if final and tier.has_tier(context):
            gets_on(rows, found, Polls.of_tier(rows, context, pulls, ends), final, Stall.of_uploads(context))
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        """Count also the longest times for which a reader, and one of the tier alone, polled in vain although it was
        owed an answer. Where no read was answered, another kernel says so."""
        longest = {
            count: max((int(fact[count]) for fact in partial.facts if count in fact), default=0)
            for count in (Stall.of_reads(context).count, Stall.of_uploads(context).count)
        }
        merged = partial.merge(held.passed_over(partial.facts)).merge(Partial(counts=longest))
        shown = any(fact.get("any_answer") for fact in partial.facts)
        nothing = () if shown or not context.no_queues else (ANSWERED,)
        return decide(PROMISE, merged, needs=nothing, unless=context.no_queues)


def _floor(rows: Rows, context: RunContext, pulls: Pulls) -> Ints:
    """For each pull, below which offset messages may be gone. Where nothing says what retention has removed, answers
    are believed: those of masters, and about a certain replica's those of all."""
    queues, number = np.unique(pulls.queue, return_inverse=True)
    floor, known = retention.lawful_floors(rows, context, queues)
    of_all, of_masters = np.zeros((2, len(queues)), dtype=np.int64)
    for most, some in ((of_all, pulls.answered), (of_masters, pulls.answered & pulls.of_master)):
        np.maximum.at(most, number[some], pulls.minimum[some])
    believed = np.where(pulls.of_master, of_masters[number], of_all[number])
    return np.where(known[number], floor[number], np.maximum(floor[number], believed))


# What is there is given


def _readable(rows: Rows, found: Findings, pulls: Pulls, ends: KnownEnds, floor: Ints) -> Flags:
    """Check that an offset that is retained, and below an end of the queue that was known before the read began, is
    answered with its message, or with "later"; return which answers were others. One that names a lower end than was
    known is for the law about rollbacks. A certain replica may be behind, so that what binds it is the end that its own
    answer names. Where offsets have gaps, who is given nothing and sent on is right, unless it passed over a message
    (:mod:`.held`); and an end that an answer names says nothing of messages."""
    empty = pulls.ok & (pulls.count == 0) & ((pulls.maximum < 0) | (pulls.maximum > pulls.asked))
    illegal = pulls.failed & (pulls.following >= 0) & (pulls.following != pulls.asked)
    illegal &= (pulls.maximum < 0) | (pulls.maximum > pulls.asked)
    before = pulls.asked < ends.before(pulls.queue, pulls.began, pulls.epoch)
    named = (pulls.maximum > pulls.asked) & (illegal | (not ends.gaps))
    empty &= (pulls.following <= pulls.asked) | (not ends.gaps)
    there = (pulls.by_master & before) | (~pulls.of_master & named)
    wrong = (empty | illegal) & there & (pulls.asked >= floor) & (pulls.demand == "")

    def report_one(item: int) -> None:
        one = int(pulls.done[item])
        if not (pulls.by_master[item] and before[item]):
            _report_denied(rows, found, pulls, item)
            return
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
            f"{facts.who(rows.text('node', one), int(pulls.epoch[item]))} answered at "
            f"{facts.at_s(rows, one)} {what}, though the queue had been seen to go further at "
            f"{facts.at_s(rows, witness)}.",
            int(rows.column("index")[witness]),
            int(pulls.began[item]),
            int(rows.column("index")[one]),
            queue=int(pulls.queue[item]),
            offset=int(pulls.asked[item]),
        )

    acted_ns = facts.since_load_ns(rows, pulls.done[wrong])
    found.add_each(UNREADABLE, np.flatnonzero(wrong), report_one, queues=pulls.queue[wrong], acted_ns=acted_ns)
    return wrong


def _report_denied(rows: Rows, found: Findings, pulls: Pulls, item: int) -> None:
    one = int(pulls.done[item])
    found.add(
        UNREADABLE,
        f"Asked for offset {int(pulls.asked[item])} of queue {int(pulls.queue[item])}, {rows.text('node', one)} (epoch "
        f"{int(pulls.epoch[item])}) gave nothing at {facts.at_s(rows, one)}, although it said in the same answer that "
        f"the queue goes up to offset {int(pulls.maximum[item])}.",
        int(pulls.began[item]),
        int(rows.column("index")[one]),
        queue=int(pulls.queue[item]),
        offset=int(pulls.asked[item]),
    )


# Readers are sent on to the next message


def _next_offset(
    rows: Rows, context: RunContext, found: Findings, pulls: Pulls, floor: Ints, unreadable: Flags, *, kept: bool
) -> None:
    """Check that the next offset is the one behind what was given; where nothing was given, the one that was asked for,
    or where the queue begins or ends. It never passes over a message that is there. All this holds of masters and other
    replicas. Only who demanded what is local, and was given nothing, may be sent on to where that replica's own log
    begins. ``kept``: nothing that was answered may be gone."""
    due = pulls.due
    judged = pulls.answered & (pulls.following >= 0) & ~unreadable
    unsure = (pulls.maximum < 0) & (not kept)
    ended = (pulls.count == 0) & (((pulls.maximum >= 0) & (pulls.maximum < pulls.asked)) | unsure)
    back = judged & (pulls.following < due) & ~ended
    over = judged & (pulls.following > np.maximum(due, floor)) & ~pulls.sent_to_local
    held.note_sent_on(rows, found, pulls.only(over), np.maximum(due, floor)[over])

    def report_one(item: int) -> None:
        one, next_offset = int(pulls.done[item]), int(pulls.following[item])
        found.add(
            WRONG_NEXT_OFFSET,
            f"Asked for offset {int(pulls.asked[item])} of queue {int(pulls.queue[item])}, "
            f"{facts.who(rows.text('node', one), int(pulls.epoch[item]))} "
            f"{held.given(int(pulls.last[item]))} at {facts.at_s(rows, one)} and said to go on with offset "
            f"{next_offset}, which is back from {int(due[item])}.",
            int(pulls.began[item]),
            int(rows.column("index")[one]),
            queue=int(pulls.queue[item]),
            offset=next_offset,
        )

    acted_ns = facts.since_load_ns(rows, pulls.done[back])
    found.add_each(WRONG_NEXT_OFFSET, np.flatnonzero(back), report_one, queues=pulls.queue[back], acted_ns=acted_ns)
