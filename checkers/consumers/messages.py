"""What a group was given where a message was acknowledged is that message, or it came to the group elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.judging.findings import Findings
from chaos.law import Key, Needs, Partial, Promise, Rows, RunContext
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _views as views
from checkers._views import reads
from checkers._views.arrays import Ints, first_in, only, pairs_occur, places_in, slots
from checkers._views.claims import Claims
from checkers._views.reads import everywhere, own
from checkers.consumers.groups import Calls, Given, Group, holds_no_longer
from checkers.consumers.promise import PROMISE, SHOWN, SKIPPED, decided

#: Whole queues: what stood at an offset of a parted one may have come at any other, under whatever id.
NEEDS = Needs(
    part="which messages groups were given",
    key=Key.QUEUE,
    rows=(
        own("op", "send", "pull", "delivered", "commit", "drain"),
        everywhere("trace", "applied"),
        *(reads.RUN, reads.FAULTS, *reads.REPLICAS),
    ),
    columns=(*reads.BASIC, *reads.OPERATIONS, *reads.RECORDS),
    uses=(Use.QUEUES,),
)


@dataclass(frozen=True, slots=True)
class Messages:
    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        commits, pulls = (Calls.of(rows, f) for f in ("commit", "pull"))
        made_by, read_by = commits.by_group(), pulls.by_group()
        if commits.ok.any():
            found.fact(**{SHOWN: True})
        destroyed = views.all_destroyed(rows, context)
        for name, places in sorted(made_by.items()):
            group = Group.of(commits.only(places))
            given = Given.of_group(rows, group, pulls.only(read_by.get(name, commits.invoke[:0])))
            missing = _never_given(rows, context, group, given)
            if destroyed:
                holds_no_longer(found, group, missing.queue, destroyed)
            else:
                _tell_never_given(rows, found, group, given, missing)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decided(partial, context)


def _never_given(rows: Rows, context: RunContext, group: Group, given: Given) -> Claims:
    """Each acknowledged message between a group's first pull and its highest acknowledged commit came to the group with
    that very content, wherever it stood: an offset that now holds another message than the group was given there is
    skipped as well. Promised where confirmed messages are on disks and only their holders are elected, so that nothing
    that was read is taken back; where acknowledged messages may be lost, of those alone that are there in the end.
    Returns the acknowledged messages that did not come."""
    held, profile = rows.memo(views.acknowledged), context.profile
    place, mine = places_in(group.queues, held.queue)
    mine &= (given.begin >= 0)[place] & (held.offset >= given.begin[place]) & (held.offset < group.highest[place])
    held = held.only(mine & (profile.flush == "sync" and not profile.unclean))
    queue, offset, content = _given(rows, group, given)
    of, at, told = only(content >= 0, queue, offset, content)
    slot, count = slots(np.append(of, held.queue), np.append(at, held.offset))
    first = first_in(slot[: len(told)], count, told)[slot[len(told) :]]
    missing = held.only((first >= 0) & (first != held.hash))
    missing = missing.only(~pairs_occur((missing.queue, missing.hash), (queue, content)))
    if not context.strict and len(missing.at):
        read = rows.memo(views.delivered)
        missing = missing.only(views.holds(views.claims_of(rows, read.at[rows.memo(views.drain_reads)]), missing))
    return missing


def _given(rows: Rows, group: Group, given: Given) -> tuple[Ints, Ints, Ints]:
    """What the group was given, whatever it is: from the queue that it had asked, the offset, and the content."""
    offset, content = rows.column("offset")[given.at], rows.column("hash")[given.at]
    return group.queues[given.of], offset, content


def _tell_never_given(rows: Rows, found: Findings, group: Group, given: Given, missing: Claims) -> None:
    given_from, given_at, _ = _given(rows, group, given)

    def tell(item: int) -> None:
        at, queue, offset = int(missing.at[item]), int(missing.queue[item]), int(missing.offset[item])
        top = int(group.top[np.searchsorted(group.queues, queue)])
        other = int(given.at[(given_from == queue) & (given_at == offset)][0])
        found.add(
            SKIPPED,
            f"Group {group.name} committed offset {int(group.acked.offset[top])} of queue {queue} at "
            f"{views.at_s(rows, int(group.acked.done[top]))}, but was never given the message that was acknowledged at "
            f"{views.at_s(rows, at)} at offset {offset}: there it was given another one at {views.at_s(rows, other)}.",
            *(int(rows.column("index")[row]) for row in (other, at, int(group.acked.done[top]))),
            queue=queue,
            offset=offset,
            message=int(rows.column("message")[at]),
        )

    found.add_each(SKIPPED, np.arange(len(missing.at)), tell, queues=missing.queue)
