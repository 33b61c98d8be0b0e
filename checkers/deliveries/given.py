"""Groups are given every message that is theirs; a delay is kept; a transaction decides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.fault import Effect
from chaos.findings import Findings, decide
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import later, losses, reads
from checkers._facts.arrays import Flags, Ints, among, distinct, only, pairs_occur, places_in, slots
from checkers._facts.later import Later
from checkers._facts.reads import callers, own
from checkers.deliveries import missing
from checkers.deliveries.groups import Groups
from checkers.deliveries.promise import (
    NEVER_DELIVERED,
    NEVER_DELIVERED_BY_POLICY,
    PROMISE,
    ROLLED_BACK,
    TOO_EARLY,
    no_deliveries,
)

#: The clocks of the harness and of a node may drift apart by so much during a delay.
DRIFT_NS = 50_000_000
#: So long after its time a delayed message may come, and no delay counts as longer than this (139 years).
LATE_NS, LONGEST_MS = 5_000_000_000, 1 << 42
NEEDS = Needs(
    part="what groups were given",
    key=Key.MESSAGE,
    rows=(
        own("op", "send", "delay", "transact", "receive_again", "ack", "delivered"),
        callers("receive"),
        reads.beside("op", "drain", "caught_up"),
        *(*losses.TERMS, *reads.FINAL_LOGS),
    ),
    columns=(*reads.BASIC, *reads.OPERATIONS, *reads.RECORDS, *reads.LIVES),
    uses=(Use.DELIVERIES,),
)


@dataclass(frozen=True, slots=True)
class Given:
    """Of each message: when it came, and whether it came at all, to its queue and to each group. What was given without
    an id, and whether anybody waited for a group, each shard reports (:mod:`.missing`)."""

    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        if no_deliveries(context):
            return found.partial()
        groups = Groups.of(rows)
        found.count("delivered", len(groups.at))
        found.count("later", int(rows.memo(later.later).ok.sum()))
        _not_too_early(rows, found)
        _not_rolled_back(rows, found)
        _acknowledged(rows, found, groups)
        if facts.has_recovered(rows):
            _delivered_at_all(rows, context, found)
            _note_missing(rows, context, found, groups)
            _note_known(rows, found, groups)
        elif len(groups.at):
            found.fact(unknown="the system did not recover, so what it would still have delivered is unknown")
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        """Where a shard was not examined, what it would have reported is not missing."""
        merged = partial.merge(missing.repeated(partial.facts)).merge(missing.unknown(partial.facts))
        if not partial.gaps:
            merged = merged.merge(missing.withheld(partial.facts))
        needs = [("delivered", "no group was given a message")]
        return decide(PROMISE, merged, needs=needs, unless=no_deliveries(context))


def _due_ns(rows: Rows) -> Ints:
    """For each message that comes later, when it is due."""
    sent = rows.memo(later.later)
    delay_ms = np.clip(sent.delay_ms, 0, LONGEST_MS)
    due: Ints = rows.column("time_ns")[sent.invoke] + delay_ms * 1_000_000
    return due


def _must_have_come(rows: Rows, asked: Ints, at: Ints) -> Flags:
    """Return which of these messages are to have come by the time of these rows, as far as their delays say."""
    sent = rows.memo(later.later)
    place, is_later = places_in(sent.invoke, asked)
    slack_ns = np.append(np.where(sent.delay_ms >= 0, LATE_NS, 0), 0)[place]
    due = np.append(rows.memo(_due_ns), 0)[place] + slack_ns
    must: Flags = ~is_later | (due <= rows.column("time_ns")[at])
    return must


def _not_too_early(rows: Rows, found: Findings) -> None:
    """Both times are the harness's: the message was sent after the first, and came before the second."""
    sent, came = rows.memo(later.later), rows.memo(later.came)
    delayed = np.flatnonzero(sent.delay_ms >= 0)
    times = rows.column("time_ns")
    first = came.first(rows.column("message")[sent.invoke[delayed]])
    early = (first >= 0) & (times[first] < rows.memo(_due_ns)[delayed] - DRIFT_NS)
    skewed = [one for one in rows.memo(facts.faults) if one.effects is None or one.hits(Effect.SKEWS_CLOCKS)]
    excused = early & (times[first] >= min((one.began_ns for one in skewed), default=facts.NEVER))
    if excused.any():
        found.fact(unknown="delayed messages came early, but a fault has, or may have, set clocks of nodes")
        early &= ~excused
    index = rows.column("index")

    def report_one(number: int) -> None:
        asked, one = int(sent.invoke[delayed[number]]), int(first[number])
        found.add(
            TOO_EARLY,
            f"{later.name(rows, asked)} was sent at {facts.at_s(rows, asked)} to be delivered "
            f"{sent.delay_ms[delayed[number]] / 1e3:g} s later at the earliest, but was delivered at "
            f"{facts.at_s(rows, one)}.",
            int(index[asked]),
            int(index[one]),
            queue=int(rows.column("queue")[asked]),
            offset=int(rows.column("offset")[one]),
            message=int(rows.column("message")[asked]),
        )

    queues = rows.column("queue")[sent.invoke[delayed[early]]]
    found.add_each(
        TOO_EARLY, np.flatnonzero(early), report_one, queues=queues, acted_ns=facts.since_load_ns(rows, first[early])
    )


def _not_rolled_back(rows: Rows, found: Findings) -> None:
    """Whatever the outcome of the send: nobody has ever committed it."""
    sent, index = rows.memo(later.later), rows.column("index")
    back = sent.invoke[sent.rolled_back]
    first = rows.memo(later.came).first(rows.column("message")[back])

    def report_one(number: int) -> None:
        asked, one = int(back[number]), int(first[number])
        found.add(
            ROLLED_BACK,
            f"{later.name(rows, asked)} was sent at {facts.at_s(rows, asked)} in a transaction that was rolled back, "
            f"but {_where(rows, one)} ({facts.at_s(rows, one)}).",
            int(index[asked]),
            int(index[one]),
            queue=int(rows.column("queue")[asked]),
            offset=int(rows.column("offset")[one]),
            message=int(rows.column("message")[asked]),
        )

    found.count("rolled_back", len(back))
    queues, acted_ns = rows.column("queue")[back[first >= 0]], facts.since_load_ns(rows, first[first >= 0])
    found.add_each(ROLLED_BACK, np.flatnonzero(first >= 0), report_one, queues=queues, acted_ns=acted_ns)


def _where(rows: Rows, came: int) -> str:
    """Say where a message was that came in this row; the offset of a group's own copy says nothing."""
    if rows.text("f", came) == "receive_again":
        return f"was given to group {rows.words('group', np.array([came]))[0]}"
    return f"stands in queue {int(rows.column('queue')[came])} at offset {int(rows.column('offset')[came])}"


def _acknowledged(rows: Rows, found: Findings, groups: Groups) -> None:
    """Note how often groups that acknowledge each message were given one again, which nobody has promised not to do.
    Whether a group does, another shard may know."""
    calls, message = facts.calls(rows, "ack"), rows.column("message")
    done = np.sort(calls.done[calls.ok])
    code, names = rows.labels("group", done)
    found.count("acks", len(done))
    for name in sorted({*names, *groups.names}):
        given, mine = groups.given(name), done[code == (names.index(name) if name in names else -1)]
        acked, first = np.unique(message[mine], return_index=True)
        place, known = places_in(acked, message[given])
        late = given[known] > mine[first[place[known]]]
        again = len(given) - len(distinct(message[given]))
        if len(mine) or again:
            found.fact(acks=len(mine), by=name, given_again=again, given_again_after_ack=int(late.sum()))


def _waited(rows: Rows) -> tuple[Ints, Ints, Flags]:
    """Return the rows that ended a wait until some group had caught up with its queue, of each the place of its begin,
    and whether clients that reach the system as the group does had an answer meanwhile: else it is unknown whether they
    reached it."""
    calls = facts.calls(rows.beside, "caught_up")
    done = calls.done[calls.ok]
    return done, calls.invoke[calls.ok], rows.beside.numbers("received", done) > 0


def _delivered_at_all(rows: Rows, context: RunContext, found: Findings) -> None:
    """Check that what was accepted, and not rolled back, is in its queue in the end, or was delivered before."""
    sent, index, queue = rows.memo(later.later), rows.column("index"), rows.column("queue")
    owed = sent.invoke[sent.ok & ~sent.rolled_back]
    done = sent.done[sent.ok & ~sent.rolled_back]
    missing = rows.memo(later.came).first(rows.column("message")[owed]) < 0
    ends, _, reached = _waited(rows)
    delayed = among(owed, sent.invoke[sent.delay_ms >= 0])  # nobody is asked back for these
    awaited = among(queue[owed], distinct(queue[ends[reached]])) | delayed & among(queue[owed], distinct(queue[ends]))
    lasts = dict(zip(queue[ends].tolist(), ends.tolist(), strict=True))
    last = np.array([lasts.get(number, -1) for number in queue[owed].tolist()], dtype=np.int64)
    early = missing & awaited & ~_must_have_come(rows, owed, last)
    _note_not_awaited(found, queue[owed[missing & ~awaited]], queue[owed[early]])
    permits = losses.cuts(rows, context, confirmed=False)

    def report_one(number: int) -> None:
        asked = int(owed[number])
        state, policy = permits.why(rows, int(done[number]))
        permitted = state is losses.Lost.PERMITTED
        found.add(
            NEVER_DELIVERED_BY_POLICY if permitted else NEVER_DELIVERED,
            f"{later.name(rows, asked)} was accepted at {facts.at_s(rows, int(done[number]))}, "
            f"{_why(rows, sent, asked)}, but had not come by {facts.at_s(rows, int(last[number]))}."
            f"{f' As {policy}.' if permitted else ''}",
            int(index[asked]),
            int(index[done[number]]),
            int(index[last[number]]),
            queue=int(queue[asked]),
            message=int(rows.column("message")[asked]),
            policy=policy if permitted else "",
        )

    wrong = np.flatnonzero(missing & awaited & ~early)
    found.count("owed", len(owed))
    by_policy: dict[tuple[losses.Lost, str], list[int]] = {}
    for number in wrong.tolist():
        by_policy.setdefault(permits.why(rows, int(done[number])), []).append(number)
    for (state, policy), mine in by_policy.items():
        if state is losses.Lost.UNDECIDED:
            found.fact(unknown=f"messages that were to come later never came, and {policy}")
            continue
        some = np.array(mine, dtype=np.int64)
        permitted = state is losses.Lost.PERMITTED
        name = NEVER_DELIVERED_BY_POLICY if permitted else NEVER_DELIVERED
        acted_ns = facts.since_load_ns(rows, done[some])
        because = policy if permitted else ""
        found.add_each(name, some, report_one, queues=queue[owed[some]], policy=because, acted_ns=acted_ns)


def _note_not_awaited(found: Findings, never: Ints, too_short: Ints) -> None:
    """Note in which queues messages lack for which no client waited, or not long enough."""
    for number in distinct(never).tolist():
        found.fact(
            unknown=f"messages that were to come to queue {number} later never came, but nobody waited for them, or the"
            " client that waited was given nothing at all"
        )
    for number in distinct(too_short).tolist():
        found.fact(unknown=f"the wait for queue {number} ended before delayed messages had to come to it")


def _why(rows: Rows, sent: Later, asked: int) -> str:
    delay_ms = int(sent.delay_ms[np.searchsorted(sent.invoke, asked)])
    return f"to be delivered {delay_ms / 1e3:g} s later" if delay_ms >= 0 else "in a transaction that was committed"


def _note_missing(rows: Rows, context: RunContext, found: Findings, groups: Groups) -> None:
    """Note of each wait for a group which messages of the queue, of those that were acknowledged or are owed, did not
    come to the group."""
    index, queue, message, content = (rows.column(name) for name in ("index", "queue", "message", "hash"))
    sent, acked = rows.memo(later.later), rows.memo(facts.sends)
    due = np.sort(np.append(acked.invoke[acked.ok], sent.invoke[sent.ok & ~sent.rolled_back]))
    stands = rows.memo(later.content)
    number, _ = slots(rows.memo(facts.messages)[0], content)
    there = pairs_occur((queue[due], number[due]), (queue[stands], number[stands]))
    ends, begins, reached = _waited(rows)
    code, names = rows.beside.labels("group", begins)
    keeps = losses.keeps_read(rows, context)
    for place, end in enumerate(ends.tolist()):
        group = names[code[place]]
        given = groups.given(group)
        here, stand = only(queue[due] == queue[end], due, there)
        here, stand = only(~pairs_occur((queue[here], number[here]), (queue[given], number[given])), here, stand)
        columns = {
            "message": message[here],
            "hash": content[here],
            "stands": stand,
            "in_time": _must_have_come(rows, here, np.full(len(here), end)),
            "began": index[here],
            "since_ns": facts.since_load_ns(rows, here),
        }
        found.fact(
            wait=group,
            queue=int(queue[end]),
            end=int(index[end]),
            end_ns=int(facts.since_load_ns(rows, np.array([end]))[0]),
            reached=bool(reached[place]),
            keeps=keeps,
            **{name: column.tolist() for name, column in columns.items()},
        )


def _note_known(rows: Rows, found: Findings, groups: Groups) -> None:
    """Note what came, or stands in the queues, without an id; of which queues it is known what stands there; and for
    which groups somebody must have waited."""
    queue, message, content = (rows.column(name) for name in ("queue", "message", "hash"))
    stands = rows.memo(later.content)
    drains = facts.calls(rows.beside, "drain")
    known = distinct(np.append(queue[drains.invoke[drains.ok]], queue[stands]))
    asked = facts.calls(rows.beside, "caught_up").invoke
    wanted = {*zip(rows.beside.words("group", asked), queue[asked].tolist(), strict=True)}
    blank = {}
    for name in groups.names:
        given = groups.given(name)
        wanted |= {(name, one) for one in distinct(queue[given]).tolist()}
        given = given[message[given] < 0]
        blank[name] = np.unique(np.stack([queue[given], content[given]]), axis=1).tolist()
    stands = stands[message[stands] < 0]
    found.fact(
        known=known.tolist(),
        wanted=sorted(wanted),
        blank=blank,
        stand=np.unique(np.stack([queue[stands], content[stands]]), axis=1).tolist(),
    )
