"""A group's acknowledged offset never goes back nor beyond the queue's end, has one owner, and skips nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chaos.judging.findings import Findings, decide
from chaos.law import AnomalyKind, Key, Needs, Partial, Promise, Rows, RunContext
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _views as views
from checkers._views import reads, retention
from checkers._views.arrays import Flags, Ints
from checkers._views.reads import everywhere, own

#: So far beyond what a group was given skipped offsets are looked for one by one.
FAR = 1_000_000


COMMIT_REGRESSION = "commit-regression"
COMMIT_BEYOND_END = "commit-beyond-end"
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
        AnomalyKind(name=DOUBLE_OWNER, meaning="pulls of two owners of one group and queue overlap in time"),
        AnomalyKind(name=SKIPPED, meaning="a group committed past an offset that it was never given"),
    ),
)


NEEDS = Needs(
    key=Key.QUEUE,
    rows=(
        own("op", "send", "pull", "delivered", "bounds", "commit", "committed"),
        everywhere("final", "offsets"),
        reads.RUN,
        *(*reads.FINAL_LOGS, *reads.CONFIRMED_APPENDS, *reads.RETENTION),
    ),
    columns=(*reads.BASIC, *reads.OPERATIONS, *reads.RECORDS, *reads.LIVES),
    uses=(Use.QUEUES,),
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
        commits, queries = _Calls.of(rows, "commit"), _Calls.of(rows, "committed")
        pulls = _Calls.of(rows, "pull")
        found.count("commits", int(commits.ok.sum()))
        found.count("committed_reads", int(queries.ok.sum()))
        pairs = sorted(set(zip(commits.group.tolist(), commits.queue.tolist(), strict=True)))
        for group, queue in pairs:
            mine = commits.only((commits.group == group) & (commits.queue == queue))
            asked = queries.only((queries.group == group) & (queries.queue == queue))
            if context.strict:
                _never_back(rows, found, mine, asked)
                _kept_to_the_end(rows, found, mine, group, queue)
            _never_beyond(rows, found, mine, asked, queue)
            _nothing_skipped(rows, context, found, mine, pulls.only((pulls.group == group) & (pulls.queue == queue)))
        _one_owner(rows, found, pulls)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        needs = [("commits", "no consumer offset was committed")]
        return decide(PROMISE, partial, needs=needs, unless=context.no_queues)


@dataclass(frozen=True, slots=True)
class _Calls:
    """Operations of consumers with their group. ``offset`` is what was committed, what was found, or what was asked
    for; ``number`` counts the calls of this kind."""

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
    group: np.ndarray

    @classmethod
    def of(cls, rows: Rows, f: str) -> _Calls:
        found = rows.memo(views.pulls) if f == "pull" else views.calls(rows, f)
        where = found.done if f == "committed" else found.invoke
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
            group=np.array(rows.words("group", found.invoke), dtype=np.str_),
        )

    def only(self, keep: Flags) -> _Calls:
        return _Calls(*(getattr(self, name)[keep] for name in self.__slots__))


def _never_back(rows: Rows, found: Findings, commits: _Calls, queries: _Calls) -> None:
    """What a query finds is no older than a commit that was acknowledged before it: unless a smaller offset was
    committed since, or the one who answered led an older epoch than the one who took the commit."""
    acked = commits.only(commits.ok)
    asked = queries.only(queries.ok)
    by_end = np.argsort(acked.ended)
    highest = np.maximum.accumulate(acked.offset[by_end]) if len(by_end) else by_end
    place = np.searchsorted(acked.ended[by_end], asked.began) - 1
    known = np.where(place >= 0, highest[np.maximum(place, 0)], -1) if len(by_end) else np.full(len(place), -1)
    index = rows.column("index")
    for item in np.flatnonzero(asked.offset < known).tolist():
        value, began, ended = (int(column[item]) for column in (asked.offset, asked.began, asked.ended))
        binding = (acked.ended < began) & (acked.offset > value) & (acked.epoch <= asked.epoch[item])
        if not binding.any():
            continue
        latest = int(np.flatnonzero(binding)[np.argmax(acked.began[binding])])
        reset = (commits.offset == value) & ~commits.failed & (commits.began < ended)
        if (commits.ended[reset] >= acked.began[latest]).any():
            continue
        one, two = int(acked.done[latest]), int(asked.done[item])
        found.add(
            COMMIT_REGRESSION,
            f"Group {acked.group[latest]} had committed offset {int(acked.offset[latest])} of queue "
            f"{int(acked.queue[latest])} by {views.at_s(rows, one)}, but was given "
            f"{value if value >= 0 else 'no offset'} at {views.at_s(rows, two)} by {rows.text('node', two)} (epoch "
            f"{int(asked.epoch[item])}).",
            int(index[one]),
            int(index[two]),
            queue=int(acked.queue[latest]),
            offset=value,
        )


def _kept_to_the_end(rows: Rows, found: Findings, commits: _Calls, group: str, queue: int) -> None:
    """After recovery the master still knows what was committed, even if no consumer happened to ask it again."""
    if not views.has_recovered(rows) or not commits.ok.any():
        return
    told = {rows.text("node", at): rows.value(at) for at in rows.where(kind="final", f="node")}
    top = int(np.argmax(np.where(commits.ok, commits.offset, -1)))
    later = ~commits.failed & (commits.ended >= commits.began[top])
    least = int(commits.offset[later].min())
    for at in rows.where(kind="final", f="offsets"):
        node = rows.text("node", at)
        kept = int(((rows.value(at).get("groups") or {}).get(group) or {}).get(str(queue), -1))
        if told.get(node, {}).get("role") == "master" and kept < least:
            found.add(
                COMMIT_REGRESSION,
                f"Group {group} had committed offset {int(commits.offset[top])} of queue {queue} by "
                f"{views.at_s(rows, int(commits.done[top]))}, but after recovery {node} knows "
                f"{kept if kept >= 0 else 'no offset'}.",
                int(rows.column("index")[commits.done[top]]),
                int(rows.column("index")[at]),
                queue=queue,
                offset=kept,
            )


def _never_beyond(rows: Rows, found: Findings, commits: _Calls, queries: _Calls, queue: int) -> None:
    """No committed offset lies beyond the end of the queue as anything in the whole run tells it."""
    claims = [rows.memo(view) for view in (views.acknowledged, views.read, views.final_log, views.confirmed_appends)]
    end = max((int(c.offset[c.queue == queue].max(initial=-1)) + 1 for c in claims), default=0)
    for f in ("pull", "bounds"):
        answers = views.calls(rows, f)
        done = answers.done[answers.ok]
        done = done[rows.column("queue")[done] == queue]
        end = max(end, int(rows.numbers("maximum", done).max(initial=0)))
    for calls, what in ((commits, "committed"), (queries, "was given")):
        wrong = np.flatnonzero(calls.ok & (calls.offset > end))
        found.add_each(
            COMMIT_BEYOND_END,
            wrong,
            lambda item, calls=calls, what=what: found.add(  # type: ignore[misc]
                COMMIT_BEYOND_END,
                f"Group {calls.group[item]} {what} offset {int(calls.offset[item])} of queue {queue} at "
                f"{views.at_s(rows, int(calls.done[item]))}, but the queue never went beyond {end}.",
                int(rows.column("index")[calls.done[item]]),
                queue=queue,
                offset=int(calls.offset[item]),
            ),
        )


def _nothing_skipped(rows: Rows, context: RunContext, found: Findings, commits: _Calls, pulls: _Calls) -> None:
    """Each offset from the group's first pull up to its highest acknowledged commit was delivered to the group,
    unless the queue lawfully begins above it. Where nothing tells what lawfully went, answers are believed."""
    acked = commits.only(commits.ok)
    if not len(acked.offset) or not len(pulls.offset):
        return
    read = rows.memo(views.delivered)
    mine = np.isin(read.pull, pulls.number)
    begin = max(int(pulls.offset.min()), 0)
    floor, known = retention.lawful_floor(rows, context, int(acked.queue[0]))
    if not known:
        floor = int(rows.numbers("minimum", pulls.done[pulls.ok]).max(initial=0))
    begin = max(begin, floor)
    top = int(np.argmax(acked.offset))
    got = np.unique(rows.column("offset")[read.at[mine]])
    end = min(int(acked.offset[top]), int(got.max(initial=begin - 1)) + 1 + FAR)  # a commit may name any number
    missing = np.setdiff1d(np.arange(begin, end), got)
    queue = int(acked.queue[top])

    def tell(offset: int) -> None:
        found.add(
            SKIPPED,
            f"Group {acked.group[top]} committed offset {int(acked.offset[top])} of queue {queue} at "
            f"{views.at_s(rows, int(acked.done[top]))}, but was never given offset {offset}.",
            int(rows.column("index")[acked.done[top]]),
            queue=queue,
            offset=offset,
        )

    found.add_each(SKIPPED, missing, tell)


def _one_owner(rows: Rows, found: Findings, pulls: _Calls) -> None:
    """Where clients record as whom they pull (``owner``), the calls of two owners of one group and queue never
    overlap in time."""
    owner = np.array(rows.words("owner", pulls.invoke), dtype=np.str_)
    index = rows.column("index")
    for group, queue in sorted(set(zip(pulls.group.tolist(), pulls.queue.tolist(), strict=True))):
        mine = np.flatnonzero((pulls.group == group) & (pulls.queue == queue) & (owner != "") & pulls.ok)
        if not group or len(mine) < 2:
            continue
        found.count("owned_pulls", len(mine))
        for one, two in _overlaps(pulls.began[mine], pulls.ended[mine], owner[mine]):
            asked = [int(pulls.invoke[mine[at]]) for at in (one, two)]
            found.add(
                DOUBLE_OWNER,
                f"{owner[mine[one]]} and {owner[mine[two]]} of group {group} both pulled queue {queue} at "
                f"{views.at_s(rows, asked[1])}.",
                *(int(index[at]) for at in asked),
                queue=int(queue),
            )


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
