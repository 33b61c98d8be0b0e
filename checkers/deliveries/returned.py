"""What a member sent back its group is given again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.findings import Findings, decide
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import later, losses, reads
from checkers._facts.arrays import Ints
from checkers._facts.reads import own
from checkers.deliveries.promise import (
    NEVER_DELIVERED_BY_POLICY,
    NEVER_RETURNED,
    PROMISE,
    no_deliveries,
)

#: So long after its time a message may come back.
LATE_NS = 5_000_000_000
NEEDS = Needs(
    part="what members sent back",
    key=Key.MESSAGE,
    rows=(
        own("op", "send_back", "receive_again"),
        reads.beside("op", "caught_up"),
        *(*losses.TERMS, *reads.FINAL_LOGS),
    ),
    columns=(*reads.BASIC, *reads.OPERATIONS, *reads.RECORDS, *reads.LIVES),
    uses=(Use.DELIVERIES,),
)


@dataclass(frozen=True, slots=True)
class Returned:
    """Of each message that a member sent back: whether its group was given it after that. Few are sent back, so rows
    are looked at one by one."""

    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        sent = facts.calls(rows, "send_back")
        if not no_deliveries(context) and len(sent.invoke):
            found.count("sent_back", int(sent.ok.sum()))
            if facts.has_recovered(rows):
                _came_again(rows, context, found, sent)
            elif sent.ok.any():
                found.gap("the system did not recover, so what it would still have given again is unknown")
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        needs = [("sent_back", "")] if no_deliveries(context) else []
        return decide(PROMISE, partial, needs=needs, unless=no_deliveries(context))


def _came_again(rows: Rows, context: RunContext, found: Findings, sent: facts.Calls) -> None:
    """Check that each message that was taken back was handed out after that, once somebody waited long enough."""
    message, queue, times = (rows.column(name) for name in ("message", "queue", "time_ns"))
    asked, done = sent.invoke[sent.ok], sent.done[sent.ok]
    again = facts.calls(rows, "receive_again")
    handed = again.done[again.ok]
    last = {
        (group, int(message[at])): int(at)
        for group, at in zip(rows.words("group", again.invoke[again.ok]), handed, strict=True)
    }
    waits = _waits(rows)
    permits = losses.cuts(rows, context, confirmed=False)
    after_ms = rows.numbers("again_ms", done)
    wrong: list[tuple[int, str, str]] = []
    for number, group in enumerate(rows.words("group", asked)):
        if last.get((group, int(message[asked[number]])), -1) > asked[number]:
            continue
        end, reached = waits.get((group, int(queue[asked[number]])), (-1, False))
        due_ns = int(times[done[number]]) + max(0, int(after_ms[number])) * 1_000_000 + LATE_NS
        state, policy = permits.why(rows, int(done[number]))
        if end < 0 or not reached or due_ns > times[end]:
            found.gap(f"messages that group {group} sent back did not come again, but the run did not wait long enough")
        elif state is losses.Lost.UNDECIDED:
            found.gap(f"messages that group {group} sent back did not come again, and {policy}")
        else:
            permitted = state is losses.Lost.PERMITTED
            wrong.append(
                (number, NEVER_DELIVERED_BY_POLICY if permitted else NEVER_RETURNED, policy if permitted else "")
            )
    for name, policy in dict.fromkeys((name, policy) for _, name, policy in wrong):
        mine = np.array([number for number, *what in wrong if what == [name, policy]], dtype=np.int64)
        _report(rows, found, name, policy, asked[mine], done[mine])


def _report(rows: Rows, found: Findings, name: str, policy: str, asked: Ints, done: Ints) -> None:
    index, queue = rows.column("index"), rows.column("queue")

    def report_one(number: int) -> None:
        group = rows.words("group", asked[number : number + 1])[0]
        found.add(
            name,
            f"{later.name(rows, int(asked[number]))} was sent back by group {group}, and taken back at"
            f" {facts.at_s(rows, int(done[number]))}, but the group was not given it again."
            f"{f' As {policy}.' if policy else ''}",
            int(index[asked[number]]),
            int(index[done[number]]),
            queue=int(queue[asked[number]]),
            message=int(rows.column("message")[asked[number]]),
            policy=policy,
        )

    since_ns = facts.since_load_ns(rows, done)
    found.add_each(name, np.arange(len(asked)), report_one, queues=queue[asked], policy=policy, acted_ns=since_ns)


def _waits(rows: Rows) -> dict[tuple[str, int], tuple[int, bool]]:
    """Return, by group and queue, the row that ended the last wait for it, and whether the group was given anything
    meanwhile."""
    calls = facts.calls(rows.beside, "caught_up")
    begins, ends = calls.invoke[calls.ok], calls.done[calls.ok]
    reached = rows.beside.numbers("received", ends) > 0
    queue = rows.beside.column("queue")
    places = zip(rows.beside.words("group", begins), queue[begins].tolist(), strict=True)
    return {
        place: (int(end), bool(some)) for place, end, some in zip(places, ends.tolist(), reached.tolist(), strict=True)
    }
