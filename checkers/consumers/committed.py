"""What a group has committed holds, a query finds no more than that, and a queue of it has one owner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chaos.findings import Findings, decide
from chaos.kernel import Key, Needs, Reads, Sieve
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import losses, reads
from checkers._facts.arrays import NEVER, Flags, Highest, Ints, any_in, distinct, parts, places_in, slots, stable_order
from checkers._facts.reads import everywhere, own
from checkers.consumers.groups import Calls, Group, are_owned, holds_no_longer
from checkers.consumers.promise import COMMIT_REGRESSION, COMMITTED, DOUBLE_OWNER, NEVER_COMMITTED, PROMISE


def overlapping(rows: Rows) -> Ints:
    """Return the pulls of owners that had not ended when another one of the same group and queue began, as far as they
    ended in ok, and those that have not ended yet. This is a sieve, given the first rows first."""
    pulls = Calls.of(rows, "pull")
    mine = np.flatnonzero(are_owned(rows, pulls) | (pulls.done < 0))
    slot, _ = slots(pulls.code[mine], pulls.queue[mine])
    mine = mine[stable_order(slot)]  # by slot, and then in the order in which they began
    slot = np.sort(slot)
    ended = np.where(pulls.done[mine] >= 0, pulls.done[mine], len(rows))
    last = np.maximum.accumulate(slot * (len(rows) + 1) + ended)
    meets = np.zeros(len(mine), dtype=np.bool_)
    meets[1:] = last[:-1] > slot[1:] * (len(rows) + 1) + pulls.invoke[mine][1:]
    meets[:-1] |= (slot[1:] == slot[:-1]) & (pulls.invoke[mine][1:] < ended[:-1])
    kept = mine[meets | (pulls.done[mine] < 0)]
    return np.sort(np.concatenate([pulls.invoke[kept], pulls.done[kept][pulls.done[kept] >= 0]]))


def _owned(rows: Rows) -> Ints:
    """Return the pulls of owners that ended in ok, and those whose other row isn't here. A sieve."""
    pulls = Calls.of(rows, "pull")
    return facts.rows_of(rows, "pull", np.flatnonzero(are_owned(rows, pulls) | (pulls.done < 0)))


NEEDS = Needs(
    part="what groups committed, and who read for them",
    key=Key.QUEUE,
    rows=(
        own("op", "commit", "committed"),
        Reads(
            kind="op",
            f=("pull",),
            sieve=Sieve(
                rows=(own("op", "pull"),),
                columns=("op", "type", "queue", "offset", "epoch", "value"),
                keep=overlapping,
                streamed=True,
                apart=Sieve(
                    rows=(own("op", "pull"),),
                    columns=("op", "type", "queue", "value"),
                    keep=_owned,
                    streamed=True,
                ),
            ),
        ),
        everywhere("final", "offsets"),
        *(*losses.TERMS, *reads.REPLICAS),
    ),
    columns=(*reads.BASIC, *reads.OPERATIONS, *losses.COLUMNS, "position"),
    uses=(Use.QUEUES,),
    on_prefix=True,
)


@dataclass(frozen=True, slots=True)
class Committed:
    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        commits, queries = (Calls.of(rows, f) for f in ("commit", "committed"))
        found.count("commits", int(commits.ok.sum()))
        found.count("committed_reads", int(queries.ok.sum()))
        made_by, asked_by = commits.by_group(), queries.by_group()
        none = commits.invoke[:0]
        for name, places in sorted(asked_by.items()):
            _only_what_was_committed(rows, found, commits.only(made_by.get(name, none)), queries.only(places))
        _one_owner(rows, found, Calls.of(rows, "pull"))
        if context.unfinished:  # what excuses all else, a destroyed disk, may be reported later
            return found.partial()
        destroyed = facts.all_destroyed(rows, context)
        for name, places in sorted(made_by.items()):
            group = Group.of(commits.only(places))
            _kept(rows, context, found, group, group.own(queries.only(asked_by.get(name, none))), destroyed)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decide(PROMISE, partial, needs=[COMMITTED], unless=context.no_queues)


def _only_what_was_committed(rows: Rows, found: Findings, commits: Calls, queries: Calls) -> None:
    """Check that what a query finds is no larger than what the group had asked to commit by then: else the group would
    pass over what lies between. A group that committed nothing begins at the first offset."""
    tried, asked = commits.only(~commits.failed), queries.only(queries.ok & (queries.offset > 0))
    highest = Highest(tried.queue, tried.invoke, tried.offset, len(rows))
    known = np.maximum(highest.before(asked.queue, asked.done), 0)

    def report_one(item: int) -> None:
        one = int(asked.done[item])
        found.add(
            NEVER_COMMITTED,
            f"Group {asked.group[item]} was given offset {int(asked.offset[item])} of queue {int(asked.queue[item])} "
            f"at {facts.at_s(rows, one)} by {rows.text('node', one) or 'the system'}, but had committed "
            + (f"{int(known[item])} at most." if known[item] else "nothing."),
            int(asked.began[item]),
            int(rows.column("index")[one]),
            queue=int(asked.queue[item]),
            offset=int(asked.offset[item]),
        )

    wrong = np.flatnonzero(asked.offset > known)
    acted_ns = facts.since_load_ns(rows, asked.done[wrong])
    found.add_each(NEVER_COMMITTED, wrong, report_one, queues=asked.queue[wrong], acted_ns=acted_ns)


def _kept(rows: Rows, context: RunContext, found: Findings, group: Group, queries: Calls, destroyed: str) -> None:
    """Check that what a group has committed holds. ``destroyed``: why no sure copy is left, "" where one may be; where
    none is left, the answer is unknown."""
    if not losses.keeps_read(rows, context):
        return
    known_epochs = np.full(len(queries.ok), NEVER) if facts.are_confirmed(context) else queries.epoch
    back, lost = _gone_back(group, queries, known_epochs, len(rows)), _lost_in_the_end(rows, group)
    if destroyed:
        queues = np.concatenate([queries.queue[back], *(group.queues[places] for _, places, _ in lost)])
        holds_no_longer(found, group, queues, destroyed)
        return
    _report_gone_back(rows, found, group, queries, known_epochs, back)
    for at, places, kept in lost:
        _report_lost(rows, found, group, at, places, kept)


def _gone_back(group: Group, asked: Calls, known_epochs: Ints, rows: int) -> Ints:
    """Return which queries found less than a commit that was acknowledged before them, whatever smaller offsets were
    committed since: unless the one who took the commit led a later epoch than those that the one who answered has to
    know of (``known_epochs``: up to these)."""
    acked = group.acked

    def fallen(binding: Flags, later: Flags) -> Ints:
        known = Highest(acked.queue[binding], acked.done[binding], acked.offset[binding], rows)
        return np.flatnonzero(later)[asked.offset[later] < known.before(asked.queue[later], asked.invoke[later])]

    suspect = np.zeros(len(asked.ok), dtype=np.bool_)
    suspect[fallen(acked.ok, asked.ok)] = True
    epochs = distinct(known_epochs[suspect]).tolist()
    wrong = [fallen(acked.epoch <= epoch, suspect & (known_epochs == epoch)) for epoch in epochs]
    return np.sort(np.concatenate([*wrong, asked.done[:0]]))


def _report_gone_back(rows: Rows, found: Findings, group: Group, asked: Calls, known_epochs: Ints, back: Ints) -> None:
    acked, index = group.acked, rows.column("index")

    def report_one(item: int) -> None:
        value, queue = int(asked.offset[item]), int(asked.queue[item])
        binding = (acked.queue == queue) & (acked.ended < asked.began[item])
        binding &= (acked.offset > value) & (acked.epoch <= known_epochs[item])
        latest = int(np.flatnonzero(binding)[np.argmax(acked.began[binding])])
        one, two = int(acked.done[latest]), int(asked.done[item])
        found.add(
            COMMIT_REGRESSION,
            f"Group {group.name} had committed offset {int(acked.offset[latest])} of queue {queue} by "
            f"{facts.at_s(rows, one)}, but was given {value if value >= 0 else 'no offset'} at {facts.at_s(rows, two)} "
            f"by {facts.who(rows.text('node', two), int(asked.epoch[item]))}.",
            int(index[one]),
            int(index[two]),
            queue=queue,
            offset=value,
        )

    acted_ns = facts.since_load_ns(rows, asked.done[back])
    found.add_each(COMMIT_REGRESSION, back, report_one, queues=asked.queue[back], acted_ns=acted_ns)


def _lost_in_the_end(rows: Rows, group: Group) -> list[tuple[int, Ints, Ints]]:
    """After recovery the master still knows what was committed, even if no consumer happened to ask it again. Returns
    each row of a master that does not, in which queues (their places), and what it knows of each."""
    if not facts.has_recovered(rows):
        return []
    roles = {rows.text("node", at): rows.value(at).get("role") for at in rows.where(kind="final", f="node")}
    lost = []
    for at in rows.where(kind="final", f="offsets").tolist():
        if roles.get(rows.text("node", at)) != "master":
            continue
        table = (rows.value(at).get("groups") or {}).get(group.name) or {}
        place, known = places_in(group.queues, np.array([*table], dtype=np.str_).astype(np.int64))
        kept = np.full(len(group.queues), -1, dtype=np.int64)
        kept[place[known]] = np.array([*table.values()], dtype=np.int64)[known]
        fallen = np.flatnonzero((group.top >= 0) & (kept < group.highest))
        lost.append((at, fallen, kept[fallen]))
    return lost


def _report_lost(rows: Rows, found: Findings, group: Group, at: int, places: Ints, kept: Ints) -> None:
    def report_one(number: int) -> None:
        top, queue = int(group.top[places[number]]), int(group.queues[places[number]])
        done, has = int(group.acked.done[top]), int(kept[number])
        found.add(
            COMMIT_REGRESSION,
            f"Group {group.name} had committed offset {int(group.acked.offset[top])} of queue {queue} by "
            f"{facts.at_s(rows, done)}, but after recovery {rows.text('node', at)} knows "
            f"{has if has >= 0 else 'no offset'}.",
            int(rows.column("index")[done]),
            int(rows.column("index")[at]),
            queue=queue,
            offset=has,
        )

    acted_ns = np.full(len(places), facts.since_load_ns(rows, np.array([at])))
    found.add_each(
        COMMIT_REGRESSION, np.arange(len(places)), report_one, queues=group.queues[places], acted_ns=acted_ns
    )


def _one_owner(rows: Rows, found: Findings, pulls: Calls) -> None:
    """Where clients record as whom they pull (``owner``), the calls of two owners of one group and queue never
    overlap in time."""
    code, names = rows.labels("owner", pulls.invoke)
    mine = are_owned(rows, pulls)
    pulls, owner = pulls.only(mine), np.array(names, dtype=np.object_)[code[mine]]
    slot, count = slots(pulls.code, pulls.queue + 1)
    late = Highest(slot, pulls.invoke, pulls.done, len(rows)).before(slot, pulls.invoke) > pulls.invoke
    at = np.flatnonzero(any_in(slot[late], count)[slot])
    some = sorted(parts(slot[at]).values(), key=lambda places: str(pulls.group[at[places[0]]]))
    for places in some:
        _report_overlaps(rows, found, pulls.only(at[places]), owner[at[places]])


def _report_overlaps(rows: Rows, found: Findings, pulls: Calls, owner: npt.NDArray[np.object_]) -> None:
    index, pairs = rows.column("index"), _overlaps(pulls.began, pulls.ended, owner.astype(np.str_))

    def report_one(number: int) -> None:
        one, two = pairs[number]
        found.add(
            DOUBLE_OWNER,
            f"{owner[one]} and {owner[two]} of group {pulls.group[two]} both pulled queue {int(pulls.queue[two])} at "
            f"{facts.at_s(rows, int(pulls.invoke[two]))}.",
            *(int(index[pulls.invoke[at]]) for at in (one, two)),
            queue=int(pulls.queue[two]),
        )

    laters = np.array([two for _, two in pairs], dtype=np.int64)
    acted_ns = facts.since_load_ns(rows, pulls.invoke[laters])
    found.add_each(DOUBLE_OWNER, np.arange(len(pairs)), report_one, acted_ns=acted_ns)


def _overlaps(began: Ints, ended: Ints, owner: npt.NDArray[np.str_]) -> list[tuple[int, int]]:
    """Each call that began while one of another owner was under way, with that of those which ended last; (that one,
    the call), in the order of the calls. ``began`` ascends."""
    found = []
    for name in np.unique(owner):
        others = np.where(owner == name, -1, ended)
        for two in np.flatnonzero((owner == name) & (np.maximum.accumulate(others) > began)).tolist():
            found.append((int(np.argmax(others[:two])), two))
    return sorted(found, key=lambda pair: pair[1])
