"""A group's committed offset never goes back or beyond the queue's end; a queue has one owner; nothing is skipped."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from chaos.judging.findings import Findings, decide
from chaos.law import AnomalyKind, Key, Needs, Partial, Promise, Rows, RunContext
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _views as views
from checkers._views import reads, retention
from checkers._views.arrays import (
    NEVER,
    Flags,
    Highest,
    Ints,
    any_in,
    distinct,
    first_in,
    only,
    pairs_occur,
    parts,
    places_in,
    slots,
    tops,
)
from checkers._views.claims import Claims
from checkers._views.reads import everywhere, own

#: So far beyond what a group was given skipped offsets are looked for one by one.
FAR = 10_000


COMMIT_REGRESSION = "commit-regression"
COMMIT_BEYOND_END = "commit-beyond-end"
NEVER_COMMITTED = "never-committed"
DOUBLE_OWNER = "double-owner"
SKIPPED = "skipped"
PROMISE = Promise(
    name="consumers",
    place=100,
    meaning="A group's committed offset never goes back nor beyond the end, has one owner, and skips nothing.",
    anomalies=(
        AnomalyKind(name=COMMIT_REGRESSION, meaning="a group was given an older offset than it had committed"),
        AnomalyKind(
            name=COMMIT_BEYOND_END, meaning="a committed offset lies beyond everything that the queue ever held"
        ),
        AnomalyKind(name=NEVER_COMMITTED, meaning="a group was given a larger offset than any that it had committed"),
        AnomalyKind(name=DOUBLE_OWNER, meaning="pulls of two owners of one group and queue overlap in time"),
        AnomalyKind(name=SKIPPED, meaning="a group committed past an offset, or a message, that it was never given"),
    ),
)


NEEDS = Needs(
    key=Key.QUEUE,
    rows=(
        own("op", "send", "pull", "delivered", "bounds", "commit", "committed", "drain"),
        everywhere("final", "offsets"),
        everywhere("trace", "applied"),
        *(reads.RUN, reads.FAULTS, *reads.REPLICAS),
        *(*reads.FINAL_LOGS, *reads.CONFIRMED_APPENDS, *reads.RETENTION),
    ),
    columns=(*reads.BASIC, *reads.OPERATIONS, *reads.RECORDS, *reads.LIVES),
    uses=(Use.QUEUES,),
    on_prefix=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


@dataclass(frozen=True, slots=True)
class Consumers:
    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        commits, queries, pulls = (_Calls.of(rows, f) for f in ("commit", "committed", "pull"))
        found.count("commits", int(commits.ok.sum()))
        found.count("committed_reads", int(queries.ok.sum()))
        made_by, asked_by, read_by = (calls.by_group() for calls in (commits, queries, pulls))
        none = commits.invoke[:0]
        for group, places in sorted(asked_by.items()):
            _only_what_was_committed(rows, found, commits.only(made_by.get(group, none)), queries.only(places))
        _one_owner(rows, found, pulls)
        if context.unfinished:  # what excuses all else, retention or a destroyed disk, may be told later
            return found.partial()
        destroyed = views.all_destroyed(rows, context)
        for group, places in sorted(made_by.items()):
            mine = _Group.of(
                rows,
                group,
                commits.only(places),
                queries.only(asked_by.get(group, none)),
                pulls.only(read_by.get(group, none)),
            )
            _kept(rows, context, found, mine, destroyed)
            _never_beyond(rows, found, mine)
            _nothing_skipped(rows, context, found, mine)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        needs = [("commits", "no consumer offset was committed")]
        return decide(PROMISE, partial, needs=needs, unless=context.no_queues)


@dataclass(frozen=True, slots=True)
class _Calls:
    """Operations of consumers with their group. ``offset`` is what was committed, what was found, or what was asked
    for; ``number`` counts the calls of this kind, and those of one group share a ``code``."""

    number: Ints
    invoke: Ints
    done: Ints
    began: Ints
    ended: Ints
    ok: Flags
    failed: Flags
    offset: Ints
    epoch: Ints
    queue: Ints
    code: Ints
    group: npt.NDArray[np.object_]

    @classmethod
    def of(cls, rows: Rows, f: str) -> _Calls:
        found = rows.memo(views.pulls) if f == "pull" else views.calls(rows, f)
        where = found.done if f == "committed" else found.invoke
        code, groups = rows.labels("group", found.invoke)
        return cls(
            number=np.arange(len(found.invoke)),
            invoke=found.invoke,
            done=found.done,
            began=found.began,
            ended=found.ended,
            ok=found.ok,
            failed=found.failed,
            offset=rows.column("offset")[where],
            epoch=np.where(found.done >= 0, rows.column("epoch")[found.done], -1),
            queue=rows.column("queue")[found.invoke],
            code=code,
            group=np.array(groups, dtype=np.object_)[code],
        )

    def only(self, keep: Flags | Ints) -> _Calls:
        return _Calls(*(getattr(self, name)[keep] for name in self.__slots__))

    def by_group(self) -> dict[str, Ints]:
        """Group → the places of its calls, ascending."""
        return {str(self.group[places[0]]): places for places in parts(self.code).values()}


@dataclass(frozen=True, slots=True)
class _Group:
    """What one group did. ``queues``: those in which it committed, ascending; its calls are those in them alone.
    ``acked``: acknowledged commits, of which ``top`` has the highest in each queue (-1: none there). ``begin``: the
    lowest offset of each queue that it asked for, at least 0; -1 where it asked for none. ``given``: the rows of all
    messages that its pulls delivered, in order, and ``given_of`` the place of each one's queue."""

    name: str
    queues: Ints
    commits: _Calls
    queries: _Calls
    pulls: _Calls
    acked: _Calls
    top: Ints
    begin: Ints
    given: Ints
    given_of: Ints

    @classmethod
    def of(cls, rows: Rows, name: str, commits: _Calls, queries: _Calls, pulls: _Calls) -> _Group:
        queues = distinct(commits.queue)
        queries, pulls = (calls.only(places_in(queues, calls.queue)[1]) for calls in (queries, pulls))
        acked = commits.only(commits.ok)
        by_offset = np.lexsort((-acked.offset, acked.queue))
        of_queue, first = np.unique(acked.queue[by_offset], return_index=True)
        top = np.full(len(queues), -1, dtype=np.int64)
        top[np.searchsorted(queues, of_queue)] = by_offset[first]
        begin = np.full(len(queues), NEVER, dtype=np.int64)
        np.minimum.at(begin, np.searchsorted(queues, pulls.queue), np.maximum(pulls.offset, 0))
        read = rows.memo(views.delivered)
        place, mine = places_in(pulls.number, read.pull)
        return cls(
            name=name,
            queues=queues,
            commits=commits,
            queries=queries,
            pulls=pulls,
            acked=acked,
            top=top,
            begin=np.where(begin == NEVER, -1, begin),
            given=read.at[mine],
            given_of=places_in(queues, pulls.queue)[0][place[mine]],
        )

    @property
    def highest(self) -> Ints:
        """The highest acknowledged commit in each queue, -1 where there is none."""
        return np.where(self.top >= 0, self.acked.offset[self.top], -1) if len(self.acked.offset) else self.top

    def place(self, queue: Ints) -> Ints:
        return places_in(self.queues, queue)[0]


def _only_what_was_committed(rows: Rows, found: Findings, commits: _Calls, queries: _Calls) -> None:
    """What a query finds is no larger than what the group had asked to commit by then: else the group would pass over
    what lies between. A group that committed nothing begins at the first offset."""
    tried, asked = commits.only(~commits.failed), queries.only(queries.ok & (queries.offset > 0))
    highest = Highest(tried.queue, tried.invoke, tried.offset, len(rows))
    known = np.maximum(highest.before(asked.queue, asked.done), 0)

    def tell(item: int) -> None:
        one = int(asked.done[item])
        found.add(
            NEVER_COMMITTED,
            f"Group {asked.group[item]} was given offset {int(asked.offset[item])} of queue {int(asked.queue[item])} "
            f"at {views.at_s(rows, one)} by {rows.text('node', one) or 'the system'}, but had committed "
            + (f"{int(known[item])} at most." if known[item] else "nothing."),
            int(asked.began[item]),
            int(rows.column("index")[one]),
            queue=int(asked.queue[item]),
            offset=int(asked.offset[item]),
        )

    wrong = np.flatnonzero(asked.offset > known)
    found.add_each(NEVER_COMMITTED, wrong, tell, queues=asked.queue[wrong])


def _kept(rows: Rows, context: RunContext, found: Findings, group: _Group, destroyed: str) -> None:
    """What a group has committed, and what it was given, holds; unless the run has ``destroyed`` every sure copy, of
    which this tells: then nobody knows."""
    back = _gone_back(group, len(rows)) if context.strict else group.given[:0]
    lost = _lost_in_the_end(rows, group) if context.strict else []
    missing = _never_given(rows, context, group)
    if destroyed:
        queues = [group.queries.queue[back], missing.queue, *(group.queues[places] for _, places, _ in lost)]
        for queue in distinct(np.concatenate(queues)).tolist():
            found.gap(f"what group {group.name} had committed in queue {queue} holds no longer, but {destroyed}")
        return
    _tell_back(rows, found, group, back)
    for at, places, kept in lost:
        _tell_lost(rows, found, group, at, places, kept)
    _tell_never_given(rows, found, group, missing)


def _gone_back(group: _Group, rows: int) -> Ints:
    """Which queries found less than a commit that was acknowledged before them, whatever smaller offsets were committed
    since: unless the one who answered led an older epoch than the one who took the commit."""
    acked, asked = group.acked, group.queries

    def fallen(binding: Flags, later: Flags) -> Ints:
        known = Highest(acked.queue[binding], acked.done[binding], acked.offset[binding], rows)
        return np.flatnonzero(later)[asked.offset[later] < known.before(asked.queue[later], asked.invoke[later])]

    suspect = np.zeros(len(asked.ok), dtype=np.bool_)
    suspect[fallen(acked.ok, asked.ok)] = True
    epochs = distinct(asked.epoch[suspect]).tolist()
    wrong = [fallen(acked.epoch <= epoch, suspect & (asked.epoch == epoch)) for epoch in epochs]
    return np.sort(np.concatenate([*wrong, asked.done[:0]]))


def _tell_back(rows: Rows, found: Findings, group: _Group, back: Ints) -> None:
    acked, asked, index = group.acked, group.queries, rows.column("index")

    def tell(item: int) -> None:
        value, queue = int(asked.offset[item]), int(asked.queue[item])
        binding = (acked.queue == queue) & (acked.ended < asked.began[item])
        binding &= (acked.offset > value) & (acked.epoch <= asked.epoch[item])
        latest = int(np.flatnonzero(binding)[np.argmax(acked.began[binding])])
        one, two = int(acked.done[latest]), int(asked.done[item])
        found.add(
            COMMIT_REGRESSION,
            f"Group {group.name} had committed offset {int(acked.offset[latest])} of queue {queue} by "
            f"{views.at_s(rows, one)}, but was given {value if value >= 0 else 'no offset'} at {views.at_s(rows, two)} "
            f"by {rows.text('node', two)} (epoch {int(asked.epoch[item])}).",
            int(index[one]),
            int(index[two]),
            queue=queue,
            offset=value,
        )

    found.add_each(COMMIT_REGRESSION, back, tell, queues=asked.queue[back])


def _lost_in_the_end(rows: Rows, group: _Group) -> list[tuple[int, Ints, Ints]]:
    """After recovery the master still knows what was committed, even if no consumer happened to ask it again. Returns
    each row of a master that does not, in which queues (their places), and what it knows of each."""
    if not views.has_recovered(rows):
        return []
    told = {rows.text("node", at): rows.value(at).get("role") for at in rows.where(kind="final", f="node")}
    lost = []
    for at in rows.where(kind="final", f="offsets").tolist():
        if told.get(rows.text("node", at)) != "master":
            continue
        table = (rows.value(at).get("groups") or {}).get(group.name) or {}
        place, known = places_in(group.queues, np.array([*table], dtype=np.str_).astype(np.int64))
        kept = np.full(len(group.queues), -1, dtype=np.int64)
        kept[place[known]] = np.array([*table.values()], dtype=np.int64)[known]
        fallen = np.flatnonzero((group.top >= 0) & (kept < group.highest))
        lost.append((at, fallen, kept[fallen]))
    return lost


def _tell_lost(rows: Rows, found: Findings, group: _Group, at: int, places: Ints, kept: Ints) -> None:
    def tell(number: int) -> None:
        top, queue = int(group.top[places[number]]), int(group.queues[places[number]])
        done, has = int(group.acked.done[top]), int(kept[number])
        found.add(
            COMMIT_REGRESSION,
            f"Group {group.name} had committed offset {int(group.acked.offset[top])} of queue {queue} by "
            f"{views.at_s(rows, done)}, but after recovery {rows.text('node', at)} knows "
            f"{has if has >= 0 else 'no offset'}.",
            int(rows.column("index")[done]),
            int(rows.column("index")[at]),
            queue=queue,
            offset=has,
        )

    found.add_each(COMMIT_REGRESSION, np.arange(len(places)), tell, queues=group.queues[places])


def _ends(rows: Rows) -> tuple[Ints, Ints]:
    """Queues, ascending, and the end of all that answers and logs ever told of each."""
    told = [rows.memo(views.acknowledged_tops), rows.memo(views.read_tops)]
    told += [(claims.queue, claims.offset) for claims in map(rows.memo, (views.final_log, views.confirmed_appends))]
    for f in ("pull", "bounds"):
        answers = views.calls(rows, f)
        done = answers.done[answers.ok]
        told.append((rows.column("queue")[done], rows.numbers("maximum", done) - 1))
    queues, last = tops(*(np.concatenate(column) for column in zip(*told, strict=True)))
    return queues, last + 1


def _never_beyond(rows: Rows, found: Findings, group: _Group) -> None:
    """No committed offset lies beyond the end of the queue as anything in the whole run tells it."""
    known, ends = rows.memo(_ends)
    place, there = places_in(known, group.queues)
    end = np.zeros(len(group.queues), dtype=np.int64)
    end[there] = ends[place[there]]

    def tell(calls: _Calls, what: str, item: int) -> None:
        queue = int(calls.queue[item])
        found.add(
            COMMIT_BEYOND_END,
            f"Group {group.name} {what} offset {int(calls.offset[item])} of queue {queue} at "
            f"{views.at_s(rows, int(calls.done[item]))}, but the queue never went beyond "
            f"{int(end[np.searchsorted(group.queues, queue)])}.",
            int(rows.column("index")[calls.done[item]]),
            queue=queue,
            offset=int(calls.offset[item]),
        )

    for calls, what in ((group.commits, "committed"), (group.queries, "was given")):
        wrong = np.flatnonzero(calls.ok & (calls.offset > end[group.place(calls.queue)]))
        found.add_each(COMMIT_BEYOND_END, wrong, partial(tell, calls, what), queues=calls.queue[wrong])


def _nothing_skipped(rows: Rows, context: RunContext, found: Findings, group: _Group) -> None:
    """Each offset from the group's first pull up to its highest acknowledged commit was delivered to the group,
    whatever stood there, unless the queue lawfully begins above it. Where nothing tells what lawfully went, answers are
    believed."""
    floor, known = retention.lawful_floors(rows, context, group.queues)
    pulls = group.pulls.only(group.pulls.ok)
    answered = np.zeros(len(group.queues), dtype=np.int64)
    np.maximum.at(answered, group.place(pulls.queue), rows.numbers("minimum", pulls.done))
    begin = np.maximum(group.begin, np.where(known, floor, answered))
    got = rows.column("offset")[group.given]
    last = begin - 1
    np.maximum.at(last, group.given_of, np.minimum(got, NEVER - 2 * FAR))
    end = np.minimum(group.highest, last + 1 + FAR)  # a commit may name any number
    length = np.where((group.top >= 0) & (group.begin >= 0), np.maximum(end - begin, 0), 0)
    first = np.cumsum(length) - length
    inside = (got >= begin[group.given_of]) & (got - begin[group.given_of] < length[group.given_of])
    there = (first - begin)[group.given_of[inside]] + got[inside]
    missing = np.flatnonzero(~any_in(there, int(length.sum())))
    place = np.searchsorted(first, missing, side="right") - 1
    offset = missing - (first - begin)[place]

    def tell(number: int) -> None:
        top, queue = int(group.top[place[number]]), int(group.queues[place[number]])
        found.add(
            SKIPPED,
            f"Group {group.name} committed offset {int(group.acked.offset[top])} of queue {queue} at "
            f"{views.at_s(rows, int(group.acked.done[top]))}, but was never given offset {int(offset[number])}.",
            int(rows.column("index")[group.acked.done[top]]),
            queue=queue,
            offset=int(offset[number]),
        )

    found.add_each(SKIPPED, np.arange(len(missing)), tell, queues=group.queues[place])


def _never_given(rows: Rows, context: RunContext, group: _Group) -> Claims:
    """Each acknowledged message between a group's first pull and its highest acknowledged commit came to the group with
    that very content, wherever it stood: an offset that now holds another message than the group was given there is
    skipped as well. Promised where confirmed messages are on disks and only their holders are elected, so that nothing
    that was read is taken back; where acknowledged messages may be lost, of those alone that are there in the end.
    Returns the acknowledged messages that did not come."""
    held, profile = rows.memo(views.acknowledged), context.profile
    place, mine = places_in(group.queues, held.queue)
    mine &= (group.begin >= 0)[place] & (held.offset >= group.begin[place]) & (held.offset < group.highest[place])
    held = held.only(mine & (profile.flush == "sync" and not profile.unclean))
    queue, offset, content = _given(rows, group)
    of, at, told = only(content >= 0, queue, offset, content)
    slot, count = slots(np.append(of, held.queue), np.append(at, held.offset))
    first = first_in(slot[: len(told)], count, told)[slot[len(told) :]]
    missing = held.only((first >= 0) & (first != held.hash))
    missing = missing.only(~pairs_occur((missing.queue, missing.hash), (queue, content)))
    if not context.strict and len(missing.at):
        read = rows.memo(views.delivered)
        missing = missing.only(views.holds(views.claims_of(rows, read.at[rows.memo(views.drain_reads)]), missing))
    return missing


def _given(rows: Rows, group: _Group) -> tuple[Ints, Ints, Ints]:
    """What the group was given, whatever it is: from the queue that it had asked, the offset, and the content."""
    offset, content = rows.column("offset")[group.given], rows.column("hash")[group.given]
    return group.queues[group.given_of], offset, content


def _tell_never_given(rows: Rows, found: Findings, group: _Group, missing: Claims) -> None:
    given_from, given_at, _ = _given(rows, group)

    def tell(item: int) -> None:
        at, queue, offset = int(missing.at[item]), int(missing.queue[item]), int(missing.offset[item])
        top = int(group.top[np.searchsorted(group.queues, queue)])
        other = int(group.given[(given_from == queue) & (given_at == offset)][0])
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


def _one_owner(rows: Rows, found: Findings, pulls: _Calls) -> None:
    """Where clients record as whom they pull (``owner``), the calls of two owners of one group and queue never
    overlap in time."""
    code, names = rows.labels("owner", pulls.invoke)
    mine = np.array([name != "" for name in names], dtype=np.bool_)[code] & (pulls.group != "") & pulls.ok
    pulls, owner = pulls.only(mine), np.array(names, dtype=np.object_)[code[mine]]
    slot, count = slots(pulls.code, pulls.queue + 1)
    number = np.bincount(slot, minlength=count)[slot]
    if (number > 1).any():
        found.count("owned_pulls", int((number > 1).sum()))
    overlapping = Highest(slot, pulls.invoke, pulls.done, len(rows)).before(slot, pulls.invoke) > pulls.invoke
    at = np.flatnonzero(any_in(slot[overlapping], count)[slot])
    some = sorted(parts(slot[at]).values(), key=lambda places: str(pulls.group[at[places[0]]]))
    for places in some:
        _tell_overlaps(rows, found, pulls.only(at[places]), owner[at[places]])


def _tell_overlaps(rows: Rows, found: Findings, pulls: _Calls, owner: npt.NDArray[np.object_]) -> None:
    index, pairs = rows.column("index"), _overlaps(pulls.began, pulls.ended, owner.astype(np.str_))

    def tell(number: int) -> None:
        one, two = pairs[number]
        found.add(
            DOUBLE_OWNER,
            f"{owner[one]} and {owner[two]} of group {pulls.group[two]} both pulled queue {int(pulls.queue[two])} at "
            f"{views.at_s(rows, int(pulls.invoke[two]))}.",
            *(int(index[pulls.invoke[at]]) for at in (one, two)),
            queue=int(pulls.queue[two]),
        )

    found.add_each(DOUBLE_OWNER, np.arange(len(pairs)), tell)


def _overlaps(began: Ints, ended: Ints, owner: npt.NDArray[np.str_]) -> list[tuple[int, int]]:
    """Each call that began while one of another owner was under way, with that of those which ended last; (that one,
    the call), in the order of the calls. ``began`` ascends."""
    found = []
    for name in np.unique(owner):
        others = np.where(owner == name, -1, ended)
        for two in np.flatnonzero((owner == name) & (np.maximum.accumulate(others) > began)).tolist():
            found.append((int(np.argmax(others[:two])), two))
    return sorted(found, key=lambda pair: pair[1])


def create(options: Options) -> Consumers:
    return Consumers()
