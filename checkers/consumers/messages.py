"""What a group was given where a message was acknowledged is that message, or it came to the group elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from chaos.findings import Facts, Findings, joined
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import losses, reads
from checkers._facts.arrays import Flags, Ints, among, first_in, pairs_occur, places_in, slots
from checkers._facts.claims import Claims
from checkers._facts.reads import callers, own
from checkers.consumers import passed
from checkers.consumers.groups import Calls, Given, Group
from checkers.consumers.promise import PROMISE, SHOWN, SKIPPED, decided_together

#: Of one message all sends, and all that was given to anybody. Where other messages stand another shard knows, which
#: reports of each group at which offsets it was given anything.
NEEDS = Needs(
    part="which messages groups were given",
    key=Key.MESSAGE,
    joins=(passed.NEEDS.part,),
    rows=(
        own("op", "send", "delivered"),
        callers("pull"),
        *(reads.HIGHEST_COMMITS, reads.LOWEST_PULLS, reads.beside("op", "drain")),
        *(*losses.TERMS, *reads.REPLICAS),
    ),
    columns=(*reads.BASIC, *reads.OPERATIONS, *reads.RECORDS, *reads.LIVES),
    uses=(Use.QUEUES,),
)
#: What a shard reports of an acknowledged message that a group was never given: of its send, the begin and the end.
_COLUMNS = ("queue", "offset", "message", "began", "row", "since_ns")


@dataclass(frozen=True, slots=True)
class Messages:
    """Each shard reports which acknowledged messages a group was never given. That is a violation where it was given
    something else in their place; where it was given nothing, the offset was passed over (:mod:`.passed`). Nothing is
    said where the driver does not report which message it was given."""

    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        commits, pulls = (Calls.of(rows.beside, f) for f in ("commit", "pull"))
        commits = commits.only(commits.ok)
        if len(commits.ok):
            found.fact(**{SHOWN: True})
        if context.profile.flush != "sync" or context.profile.unclean:  # what was read may be taken back
            return found.partial()
        but, read_by = facts.all_destroyed(rows, context), pulls.by_group()
        for name, places in sorted(commits.by_group().items()):
            group = Group.of(commits.only(places))
            given = Given.of_group(rows.beside, group, pulls.only(read_by.get(name, pulls.invoke[:0])))
            missing = _never_given(rows, context, group, given)
            if len(missing.at):
                found.fact(ungiven=name, but=but, **_as_columns(rows, missing))
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decided_together(partial, context, never_given)


def _never_given(rows: Rows, context: RunContext, group: Group, given: Given) -> Claims:
    """Return the acknowledged messages between a group's first pull and its highest acknowledged commit that never came
    to the group with that very content, wherever it stood: an offset that now holds another message than the group was
    given there is skipped as well. Promised where confirmed messages are on disks and only their holders are elected,
    so that nothing that was read is taken back; where acknowledged messages may be lost, of those alone that are there
    in the end."""
    held = rows.memo(facts.acknowledged)
    place, mine = places_in(group.queues, held.queue)
    mine &= (given.begin >= 0)[place] & (held.offset >= given.begin[place]) & (held.offset < group.highest[place])
    held = held.only(mine)
    missing = held.only(~_came(rows, held, group, given))
    if len(missing.at) and not losses.keeps(rows, context, confirmed=False):
        read = rows.memo(facts.delivered)
        missing = missing.only(facts.holds(facts.claims_of(rows, read.at[rows.memo(facts.drain_reads)]), missing))
    return missing


def _came(rows: Rows, held: Claims, group: Group, given: Given) -> Flags:
    """Return which of these messages the group was given, from their own queue and with their own content. Mostly that
    is what it was given first at their offset."""
    message, asked = rows.column("message"), rows.memo(_asked)[held.at]
    queue = group.queues[given.of]
    came = facts.claims_of(rows, given.at[rows.column("queue")[given.at] == queue])
    first = first_in(came.place, came.count, np.arange(len(came.at)))[held.place]
    found: Flags = first >= 0
    found[found] = (came.hash[first[found]] == held.hash[found]) & (
        message[came.at[first[found]]] == message[asked[found]]
    )
    left = np.flatnonzero(~found)
    if len(left):
        content = rows.column("hash")[given.at]
        near = np.flatnonzero(among(content, held.hash[left]))
        of, _ = slots(
            np.append(message[asked[left]], message[given.at[near]]), np.append(held.queue[left], queue[near])
        )
        found[left] = pairs_occur((of[: len(left)], held.hash[left]), (of[len(left) :], content[near]))
    return found


def _asked(rows: Rows) -> Ints:
    """For each row that ended a send the one that began it."""
    sends = rows.memo(facts.sends)
    ended = sends.done >= 0
    asked = np.full(len(rows), -1, dtype=np.int64)
    asked[sends.done[ended]] = sends.invoke[ended]
    return asked


def _as_columns(rows: Rows, missing: Claims) -> Mapping[str, list[int]]:
    began, index = rows.memo(_asked)[missing.at], rows.column("index")
    message, since_ns = rows.column("message")[began], facts.since_load_ns(rows, missing.at)
    values = (missing.queue, missing.offset, message, index[began], index[missing.at], since_ns)
    return {name: column.tolist() for name, column in zip(_COLUMNS, values, strict=True)}


def never_given(reported: Facts) -> Partial:
    """Find in the facts of all shards what a group was never given, although it was given something at that offset."""
    found = Findings(PROMISE)
    known = passed.by_group(reported)
    for group in sorted({str(fact["ungiven"]) for fact in reported if "ungiven" in fact}):
        mine = [fact for fact in reported if fact.get("ungiven") == group]
        table = np.stack(joined(mine, *_COLUMNS))
        table = table[:, np.argsort(table[_COLUMNS.index("began")])]
        judged = np.zeros(table.shape[1], dtype=np.bool_)
        for queue, one in known.get(group, {}).items():
            here = table[0] == queue
            judged[here] = one.was_given(table[_COLUMNS.index("offset")][here])
        table = table[:, judged]
        but = next(filter(None, (str(fact["but"]) for fact in mine)), "")
        if but:
            for queue in np.unique(table[0]).tolist():
                found.gap(f"what group {group} had committed in queue {queue} holds no longer, but {but}")
        else:
            _report_skipped(found, group, known.get(group, {}), table)
    return found.partial()


def _report_skipped(
    found: Findings, group: str, known: Mapping[int, passed.Known], table: np.ndarray[Any, Any]
) -> None:
    def report_one(item: int) -> None:
        queue, offset, message, _, row, since_ns = table[:, item].tolist()
        one = known[queue]
        found.add(
            SKIPPED,
            f"Group {group} committed offset {one.top} of queue {queue} at {facts.in_s(one.since_ns)}, but was never "
            f"given the message that was acknowledged at {facts.in_s(since_ns)} at offset {offset}: there it was given "
            "another one.",
            row,
            one.row,
            queue=queue,
            offset=offset,
            message=message,
        )

    queues, place = np.unique(table[0], return_inverse=True)
    acted_ns = np.array([known[queue].since_ns for queue in queues.tolist()], dtype=np.int64)[place]
    found.add_each(SKIPPED, np.arange(table.shape[1]), report_one, queues=table[0], acted_ns=acted_ns)
