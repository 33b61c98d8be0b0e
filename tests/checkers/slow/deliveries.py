"""Whether groups are given what is theirs, wait by wait and group by group: the oracle of ``checkers/deliveries``."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

import numpy as np

from chaos.fault import Effect
from chaos.judging.findings import Findings, decide
from chaos.law import Key, Needs, Partial, Promise, Rows, RunContext
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _views as views
from checkers._views import later, reads
from checkers._views.arrays import Flags, Ints, among, distinct, places_in
from checkers._views.later import Later
from checkers._views.reads import own
from checkers.deliveries.given import DRIFT_NS, LATE_NS, LONGEST_MS
from checkers.deliveries.promise import (
    NEVER_DELIVERED,
    NEVER_DELIVERED_BY_POLICY,
    OUT_OF_ORDER,
    PROMISE,
    ROLLED_BACK,
    TOO_EARLY,
    WITHHELD,
)

NEEDS = Needs(
    key=Key.QUEUE,
    rows=(
        own(
            "op",
            "send",
            "delay",
            "transact",
            "receive",
            "receive_again",
            "ack",
            "pull",
            "delivered",
            "drain",
            "caught_up",
        ),
        *reads.FINAL_LOGS,
        *(reads.RUN, reads.FAULTS),
    ),
    columns=(*reads.BASIC, *reads.OPERATIONS, *reads.RECORDS),
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
        groups = _Groups.of(rows)
        found.count("delivered", len(groups.at))
        found.count("later", int(rows.memo(later.later).ok.sum()))
        _not_too_early(rows, found)
        _not_rolled_back(rows, found)
        _in_order(rows, found, groups)
        _acknowledged(rows, found, groups)
        if views.has_recovered(rows):
            _delivered_at_all(rows, context, found)
            _given_to_each(rows, found, groups)
        elif len(groups.at):
            found.gap("the system did not recover, so nobody can tell what it would still have delivered")
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        unless = "" if Use.DELIVERIES in context.uses else f"no workload uses {Use.DELIVERIES}"
        return decide(PROMISE, partial, needs=[("delivered", "no group was given a message")], unless=unless)


@dataclass(frozen=True, slots=True)
class _Groups:
    """Messages that groups were given, an element for each, in the order in which they came: ``delivered`` rows, or the
    ends of ``receive_again``, which have no offset. ``group`` is a code for ``names``."""

    at: Ints
    group: Ints
    in_order: Flags
    names: list[str]

    @classmethod
    def of(cls, rows: Rows) -> _Groups:
        calls, again = views.calls(rows, "receive"), views.calls(rows, "receive_again")
        asked = calls.invoke[calls.ok]
        began = calls.began[calls.ok]
        code, names = rows.labels("group", np.append(asked, again.invoke[again.ok]))
        ordered = rows.numbers("in_order", asked) == 1
        every = rows.memo(views.delivered).at
        op = rows.column("op")[every]
        mine = among(op, began)
        slot = np.searchsorted(began, op[mine])
        at = np.append(every[mine], again.done[again.ok])
        order = np.argsort(at, kind="stable")
        group = np.append(code[slot], code[len(asked) :])[order]
        in_order = np.append(ordered[slot], np.zeros(int(again.ok.sum()), dtype=np.bool_))[order]
        return cls(at[order], group, in_order, list(names))

    def given(self, name: str) -> Ints:
        """What this group was given."""
        return self.at[self.group == (self.names.index(name) if name in self.names else -1)]


def _due_ns(rows: Rows) -> Ints:
    """For each message that comes later, when it is due."""
    sent = rows.memo(later.later)
    delay_ms = np.clip(sent.delay_ms, 0, LONGEST_MS)
    due: Ints = rows.column("time_ns")[sent.invoke] + delay_ms * 1_000_000
    return due


def _must_have_come(rows: Rows, asked: Ints, at: Ints) -> Flags:
    """Which of these messages are to have come by the time of these rows, as far as their delays tell."""
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
    skewed = [one for one in rows.memo(views.faults) if one.effects is None or one.hits(Effect.SKEWS_CLOCKS)]
    excused = early & (times[first] >= min((one.began_ns for one in skewed), default=views.NEVER))
    if excused.any():
        found.gap("delayed messages came early, but a fault has, or may have, set clocks of nodes")
        early &= ~excused
    index = rows.column("index")

    def tell(number: int) -> None:
        asked, one = int(sent.invoke[delayed[number]]), int(first[number])
        found.add(
            TOO_EARLY,
            f"{later.name(rows, asked)} was sent at {views.at_s(rows, asked)} to be delivered "
            f"{sent.delay_ms[delayed[number]] / 1e3:g} s later at the earliest, but was delivered at "
            f"{views.at_s(rows, one)}.",
            int(index[asked]),
            int(index[one]),
            queue=int(rows.column("queue")[asked]),
            offset=int(rows.column("offset")[one]),
            message=int(rows.column("message")[asked]),
        )

    found.add_each(TOO_EARLY, np.flatnonzero(early), tell, queues=rows.column("queue")[sent.invoke[delayed[early]]])


def _not_rolled_back(rows: Rows, found: Findings) -> None:
    """Whatever the outcome of the send: nobody has ever committed it."""
    sent, index = rows.memo(later.later), rows.column("index")
    back = sent.invoke[sent.rolled_back]
    first = rows.memo(later.came).first(rows.column("message")[back])

    def tell(number: int) -> None:
        asked, one = int(back[number]), int(first[number])
        found.add(
            ROLLED_BACK,
            f"{later.name(rows, asked)} was sent at {views.at_s(rows, asked)} in a transaction that was rolled back, "
            f"but {_where(rows, one)} ({views.at_s(rows, one)}).",
            int(index[asked]),
            int(index[one]),
            queue=int(rows.column("queue")[asked]),
            offset=int(rows.column("offset")[one]),
            message=int(rows.column("message")[asked]),
        )

    found.count("rolled_back", len(back))
    found.add_each(ROLLED_BACK, np.flatnonzero(first >= 0), tell, queues=rows.column("queue")[back[first >= 0]])


def _where(rows: Rows, came: int) -> str:
    """Where a message was that came in this row; a group's own copy has an offset that tells nobody anything."""
    if rows.text("f", came) == "receive_again":
        return f"was given to group {rows.words('group', np.array([came]))[0]}"
    return f"stands in queue {int(rows.column('queue')[came])} at offset {int(rows.column('offset')[came])}"


def _in_order(rows: Rows, found: Findings, groups: _Groups) -> None:
    """What a group is given again begins anew at a lower offset; but never is an offset passed over."""
    offset, queue, index = (rows.column(name) for name in ("offset", "queue", "index"))
    mine = np.flatnonzero(groups.in_order)
    for code in distinct(groups.group[mine]).tolist():
        for number in distinct(queue[groups.at[mine]]).tolist():
            at = groups.at[mine][(groups.group[mine] == code) & (queue[groups.at[mine]] == number)]
            known = np.maximum.accumulate(offset[at])
            wrong = 1 + np.flatnonzero(offset[at][1:] > known[:-1] + 1)
            below = {int(offset[one]): int(one) for one in at[::-1].tolist()}

            def tell(item: int, at: Ints = at, below: dict[int, int] = below, code: int = code) -> None:
                one = int(at[item])
                then = below.get(int(offset[one]) - 1, -1)
                found.add(
                    OUT_OF_ORDER,
                    f"Group {groups.names[code]}, which reads in order, was given offset {int(offset[one])} of queue "
                    f"{int(queue[one])} at {views.at_s(rows, one)}, but neither offset {int(offset[one]) - 1}, which "
                    + (f"came at {views.at_s(rows, then)}" if then >= 0 else "never came")
                    + ", nor any above it before.",
                    int(index[one]),
                    int(index[then]) if then >= 0 else -1,
                    queue=int(queue[one]),
                    offset=int(offset[one]),
                    message=int(rows.column("message")[one]),
                )

            found.count("in_order", len(at))
            found.add_each(OUT_OF_ORDER, wrong, tell, queues=queue[at[wrong]])


def _acknowledged(rows: Rows, found: Findings, groups: _Groups) -> None:
    """How often groups that acknowledge each message were given one again, which nobody has promised not to do."""
    calls, message = views.calls(rows, "ack"), rows.column("message")
    done = np.sort(calls.done[calls.ok])
    code, names = rows.labels("group", done)
    found.count("acks", len(done))
    for number in distinct(code).tolist():
        given = groups.given(names[number])
        acked, first = np.unique(message[done[code == number]], return_index=True)
        place, known = places_in(acked, message[given])
        late = given[known] > done[code == number][first[place[known]]]
        found.count("given_again", len(given) - len(distinct(message[given])))
        found.count("given_again_after_ack", int(late.sum()))


def _waited(rows: Rows) -> tuple[Ints, Ints, Flags]:
    """The rows that ended a wait until some group had caught up with its queue, of each the place of its begin, and
    whether clients that reach the system as the group does had an answer meanwhile: else nobody knows whether they
    reached it."""
    calls = views.calls(rows, "caught_up")
    done = calls.done[calls.ok]
    return done, calls.invoke[calls.ok], rows.numbers("received", done) > 0


def _delivered_at_all(rows: Rows, context: RunContext, found: Findings) -> None:
    """What was accepted, and not rolled back, is in its queue in the end, or was delivered before."""
    sent, index, queue = rows.memo(later.later), rows.column("index"), rows.column("queue")
    owed = sent.invoke[sent.ok & ~sent.rolled_back]
    done = sent.done[sent.ok & ~sent.rolled_back]
    missing = rows.memo(later.came).first(rows.column("message")[owed]) < 0
    ends, _, reached = _waited(rows)
    delayed = among(owed, sent.invoke[sent.delay_ms >= 0])  # nobody is asked back for these
    awaited = among(queue[owed], distinct(queue[ends[reached]])) | delayed & among(queue[owed], distinct(queue[ends]))
    for number in distinct(queue[owed[missing & ~awaited]]).tolist():
        found.gap(
            f"messages that were to come to queue {number} later never came, but nobody waited for them, or the client"
            " that waited was given nothing at all"
        )
    lasts = dict(zip(queue[ends].tolist(), ends.tolist(), strict=True))
    last = np.array([lasts.get(number, -1) for number in queue[owed].tolist()], dtype=np.int64)
    early = missing & awaited & ~_must_have_come(rows, owed, last)
    for number in distinct(queue[owed[early]]).tolist():
        found.gap(f"the wait for queue {number} ended before delayed messages had to come to it")
    name = NEVER_DELIVERED if context.strict else NEVER_DELIVERED_BY_POLICY

    def tell(number: int) -> None:
        asked = int(owed[number])
        found.add(
            name,
            f"{later.name(rows, asked)} was accepted at {views.at_s(rows, int(done[number]))}, "
            f"{_why(rows, sent, asked)}, but had not come by {views.at_s(rows, int(last[number]))}.",
            int(index[asked]),
            int(index[done[number]]),
            int(index[last[number]]),
            queue=int(queue[asked]),
            message=int(rows.column("message")[asked]),
        )

    wrong = np.flatnonzero(missing & awaited & ~early)
    found.count("owed", len(owed))
    found.add_each(name, wrong, tell, queues=queue[owed[wrong]])


def _why(rows: Rows, sent: Later, asked: int) -> str:
    delay_ms = int(sent.delay_ms[np.searchsorted(sent.invoke, asked)])
    return f"to be delivered {delay_ms / 1e3:g} s later" if delay_ms >= 0 else "in a transaction that was committed"


def _given_to_each(rows: Rows, found: Findings, groups: _Groups) -> None:
    """What stands in a queue in the end, and was acknowledged or is owed, came to each group that was waited for."""
    index, queue = rows.column("index"), rows.column("queue")
    ends, begins, reached = _waited(rows)
    code, names = rows.labels("group", begins)
    sent, acked = rows.memo(later.later), rows.memo(views.sends)
    due = np.sort(np.append(acked.invoke[acked.ok], sent.invoke[sent.ok & ~sent.rolled_back]))
    stands = rows.memo(later.content)
    due = due[_holds(rows, due, stands)]
    waits: set[tuple[str, int]] = set()
    for place, end in enumerate(ends.tolist()):
        group, number = names[code[place]], int(queue[end])
        waits.add((group, number))
        given = groups.given(group)
        here = due[queue[due] == number]
        missing = here[~_holds(rows, here, given)]
        in_time = _must_have_come(rows, missing, np.full(len(missing), end))
        if not in_time.all():
            found.gap(f"the wait for group {group} in queue {number} ended before delayed messages had to come to it")
        missing = missing[in_time]
        if len(missing) and not reached[place]:
            found.gap(f"group {group} lacks messages of queue {number}, but nobody was given anything while it read on")
            continue

        def tell(asked: int, group: str = group, end: int = end) -> None:
            found.add(
                WITHHELD,
                f"{later.name(rows, asked)}, sent at {views.at_s(rows, asked)}, stands in queue {int(queue[asked])}, "
                f"but group {group} was not given it by {views.at_s(rows, end)}.",
                int(index[asked]),
                int(index[end]),
                queue=int(queue[asked]),
                message=int(rows.column("message")[asked]),
            )

        found.add_each(WITHHELD, missing, tell, queues=queue[missing])
    found.count("groups_awaited", len(waits))
    _not_known(rows, found, groups, waits, stands)


def _holds(rows: Rows, due: Ints, there: Ints) -> Flags:
    """Which of these messages are there: with their content, and with their id or without any."""
    queue, message, content = (rows.column(name) for name in ("queue", "message", "hash"))
    known = {(int(queue[at]), int(content[at]), int(message[at])) for at in there.tolist()}
    told = [(int(queue[at]), int(content[at]), int(message[at])) for at in due.tolist()]
    return np.array([one in known or (*one[:2], -1) in known for one in told], dtype=np.bool_)


def _not_known(rows: Rows, found: Findings, groups: _Groups, waits: Set[tuple[str, int]], stands: Ints) -> None:
    """What hides whether a group was given everything: nobody waited for it, or read its queue in the end."""
    queue, drains = rows.column("queue"), views.calls(rows, "drain")
    known = {*queue[drains.invoke[drains.ok]].tolist(), *queue[stands].tolist()}
    for number in sorted({number for _, number in waits} - known):
        found.gap(f"nobody knows what stands in queue {number} after the run, and so what a group was never given")
    asked = views.calls(rows, "caught_up").invoke
    wanted = {*zip(rows.words("group", asked), queue[asked].tolist(), strict=True)}
    for code in distinct(groups.group).tolist():
        wanted |= {(groups.names[code], number) for number in distinct(queue[groups.at[groups.group == code]]).tolist()}
    for group, number in sorted(wanted - waits):
        found.gap(f"group {group} was not waited for in queue {number}: nobody knows what it was never given")
