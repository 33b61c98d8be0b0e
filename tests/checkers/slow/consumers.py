"""Groups of consumers, each for itself over all rows: the oracle of the kernels in ``checkers/consumers``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import numpy.typing as npt

from chaos.findings import Findings, decide
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts import losses
from checkers._facts.arrays import Flags, Ints
from checkers.consumers.committed import NEEDS as COMMITTED
from checkers.consumers.messages import NEEDS as MESSAGES
from checkers.consumers.passed import FAR
from checkers.consumers.passed import NEEDS as PASSED
from checkers.consumers.promise import (
    COMMIT_BEYOND_END,
    COMMIT_REGRESSION,
    DOUBLE_OWNER,
    NEVER_COMMITTED,
    PROMISE,
    SKIPPED,
)
from checkers.consumers.reached import NEEDS as REACHED
from tests.checkers.slow import retention

KERNELS = (COMMITTED, REACHED, PASSED, MESSAGES)
ALL = Needs(
    key=Key.QUEUE,
    rows=tuple(replace(rows, beside=False) for needs in KERNELS for rows in needs.rows),
    columns=tuple(dict.fromkeys(name for needs in KERNELS for name in needs.columns)),
)


@dataclass(frozen=True, slots=True)
class Consumers:
    promise: Promise = PROMISE
    needs: Needs = ALL

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found, passed, messages = Findings(PROMISE), Findings(PROMISE), Findings(PROMISE)  # kernels of their own
        commits, queries = _Calls.of(rows, "commit"), _Calls.of(rows, "committed")
        pulls = _Calls.of(rows, "pull")
        found.count("commits", int(commits.ok.sum()))
        found.count("committed_reads", int(queries.ok.sum()))
        for group, queue in sorted(set(zip(queries.group.tolist(), queries.queue.tolist(), strict=True))):
            _only_what_was_committed(rows, found, commits.of_group(group, queue), queries.of_group(group, queue))
        destroyed = facts.all_destroyed(rows, context)
        for group, queue in sorted(set(zip(commits.group.tolist(), commits.queue.tolist(), strict=True))):
            mine, asked = commits.of_group(group, queue), queries.of_group(group, queue)
            read = pulls.of_group(group, queue)
            kept, replaced = (Findings(PROMISE), Findings(PROMISE)) if destroyed else (found, messages)
            if losses.keeps_read(rows, context):
                _never_back(rows, kept, mine, asked)
                _kept_to_the_end(rows, kept, mine, group, queue)
            _given_what_is_there(rows, context, replaced, mine, read)
            if destroyed and (kept.partial().anomalies or replaced.partial().anomalies):
                found.gap(f"what group {group} had committed in queue {queue} holds no longer, but {destroyed}")
            _never_beyond(rows, found, mine, asked, queue)
            _nothing_skipped(rows, context, passed, mine, read)
        _one_owner(rows, found, pulls)
        return reduce(Partial.merge, (one.partial() for one in (found, passed, messages)))

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
        found = rows.memo(facts.pulls) if f == "pull" else facts.calls(rows, f)
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

    def of_group(self, group: str, queue: int) -> _Calls:
        return self.only((self.group == group) & (self.queue == queue))


def _only_what_was_committed(rows: Rows, found: Findings, commits: _Calls, queries: _Calls) -> None:
    """What a query finds is no larger than what the group had asked to commit by then: else the group would pass over
    what lies between. A group that committed nothing begins at the first offset."""
    tried, asked = commits.only(~commits.failed), queries.only(queries.ok & (queries.offset > 0))
    highest = np.maximum.accumulate(np.append(0, tried.offset))
    known = highest[np.searchsorted(tried.began, asked.ended)]

    def tell(item: int) -> None:
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
    found.add_each(NEVER_COMMITTED, wrong, tell, queues=asked.queue[wrong])


def _never_back(rows: Rows, found: Findings, commits: _Calls, queries: _Calls) -> None:
    """What a query finds is no older than a commit that was acknowledged before it, whatever smaller offsets were
    committed since: unless the one who answered led an older epoch than the one who took the commit."""
    acked = commits.only(commits.ok)
    asked = queries.only(queries.ok)
    by_end = np.argsort(acked.ended)
    highest = np.maximum.accumulate(acked.offset[by_end]) if len(by_end) else by_end
    place = np.searchsorted(acked.ended[by_end], asked.began) - 1
    known = np.where(place >= 0, highest[np.maximum(place, 0)], -1) if len(by_end) else np.full(len(place), -1)
    index = rows.column("index")
    for item in np.flatnonzero(asked.offset < known).tolist():
        value, began = int(asked.offset[item]), int(asked.began[item])
        binding = (acked.ended < began) & (acked.offset > value) & (acked.epoch <= asked.epoch[item])
        if not binding.any():
            continue
        latest = int(np.flatnonzero(binding)[np.argmax(acked.began[binding])])
        one, two = int(acked.done[latest]), int(asked.done[item])
        found.add(
            COMMIT_REGRESSION,
            f"Group {acked.group[latest]} had committed offset {int(acked.offset[latest])} of queue "
            f"{int(acked.queue[latest])} by {facts.at_s(rows, one)}, but was given "
            f"{value if value >= 0 else 'no offset'} at {facts.at_s(rows, two)} by "
            f"{facts.who(rows.text('node', two), int(asked.epoch[item]))}.",
            int(index[one]),
            int(index[two]),
            queue=int(acked.queue[latest]),
            offset=value,
        )


def _kept_to_the_end(rows: Rows, found: Findings, commits: _Calls, group: str, queue: int) -> None:
    """After recovery the master still knows what was committed, even if no consumer happened to ask it again."""
    if not facts.has_recovered(rows) or not commits.ok.any():
        return
    told = {rows.text("node", at): rows.value(at) for at in rows.where(kind="final", f="node")}
    commits = commits.only(commits.ok)
    top = int(np.argmax(commits.offset))
    for at in rows.where(kind="final", f="offsets"):
        node = rows.text("node", at)
        kept = int(((rows.value(at).get("groups") or {}).get(group) or {}).get(str(queue), -1))
        if told.get(node, {}).get("role") == "master" and kept < int(commits.offset[top]):
            found.add(
                COMMIT_REGRESSION,
                f"Group {group} had committed offset {int(commits.offset[top])} of queue {queue} by "
                f"{facts.at_s(rows, int(commits.done[top]))}, but after recovery {node} knows "
                f"{kept if kept >= 0 else 'no offset'}.",
                int(rows.column("index")[commits.done[top]]),
                int(rows.column("index")[at]),
                queue=queue,
                offset=kept,
            )


def _never_beyond(rows: Rows, found: Findings, commits: _Calls, queries: _Calls, queue: int) -> None:
    """No committed offset lies beyond the end of the queue as anything in the whole run tells it."""
    claims = [rows.memo(view) for view in (facts.acknowledged, facts.read, facts.final_log, facts.confirmed_appends)]
    end = max((int(c.offset[c.queue == queue].max(initial=-1)) + 1 for c in claims), default=0)
    for f in ("pull", "bounds"):
        answers = facts.calls(rows, f)
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
                f"{facts.at_s(rows, int(calls.done[item]))}, but the queue never went beyond {end}.",
                int(rows.column("index")[calls.done[item]]),
                queue=queue,
                offset=int(calls.offset[item]),
            ),
            queues=calls.queue[wrong],
        )


def _nothing_skipped(rows: Rows, context: RunContext, found: Findings, commits: _Calls, pulls: _Calls) -> None:
    """Each offset from the group's first pull up to its highest acknowledged commit was delivered to the group,
    whatever stood there, unless the queue lawfully begins above it. Where nothing tells what lawfully went, answers are
    believed."""
    acked = commits.only(commits.ok)
    if not len(acked.offset) or not len(pulls.offset):
        return
    read = rows.memo(facts.delivered)
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
            f"{facts.at_s(rows, int(acked.done[top]))}, but was never given offset {offset}.",
            int(rows.column("index")[acked.done[top]]),
            queue=queue,
            offset=offset,
        )

    found.add_each(SKIPPED, missing, tell, queues=np.full(len(missing), queue))


def _given_what_is_there(rows: Rows, context: RunContext, found: Findings, commits: _Calls, pulls: _Calls) -> None:
    """Each acknowledged message between a group's first pull and its highest acknowledged commit came to the group with
    that very content, wherever it stood: an offset that now holds another message than the group was given there is
    skipped as well. Promised where confirmed messages are on disks and only their holders are elected, so that nothing
    that was read is taken back; where acknowledged messages may be lost, of those alone that are there in the end."""
    acked = commits.only(commits.ok)
    profile = context.profile
    if profile.flush != "sync" or profile.unclean or not len(acked.offset) or not len(pulls.offset):
        return
    read, offset, content = rows.memo(facts.delivered), rows.column("offset"), rows.column("hash")
    sends, message = rows.memo(facts.sends), rows.column("message")
    given = read.at[np.isin(read.pull, pulls.number)]
    can_be_told = (content[given] >= 0) & (message[given] >= 0)
    held, top = rows.memo(facts.acknowledged), int(np.argmax(acked.offset))
    queue = int(acked.queue[top])
    held = held.only((held.queue == queue) & (held.offset >= max(int(pulls.offset.min()), 0)))
    held = held.only((held.offset < acked.offset[top]) & np.isin(held.offset, offset[given[can_be_told]]))
    came = set(zip(message[given].tolist(), content[given].tolist(), strict=True))
    sent = dict(zip(sends.done.tolist(), message[sends.invoke].tolist(), strict=True))
    asked = zip((sent[at] for at in held.at.tolist()), held.hash.tolist(), strict=True)
    missing = held.only(np.array([pair not in came for pair in asked], dtype=np.bool_))
    if len(missing.at) and not losses.keeps(rows, context, confirmed=False):
        last = facts.claims_of(rows, read.at[rows.memo(facts.drain_reads)])
        last = last.only(last.queue == queue)
        there = set(zip(last.offset.tolist(), last.hash.tolist(), strict=True))
        stays = [pair in there for pair in zip(missing.offset.tolist(), missing.hash.tolist(), strict=True)]
        missing = missing.only(np.array(stays, dtype=np.bool_))

    def tell(item: int) -> None:
        at = int(missing.at[item])
        found.add(
            SKIPPED,
            f"Group {acked.group[top]} committed offset {int(acked.offset[top])} of queue {queue} at "
            f"{facts.at_s(rows, int(acked.done[top]))}, but was never given the message that was acknowledged at "
            f"{facts.at_s(rows, at)} at offset {int(missing.offset[item])}: there it was given another one.",
            *(int(rows.column("index")[row]) for row in (at, int(acked.done[top]))),
            queue=queue,
            offset=int(missing.offset[item]),
            message=sent[at],
        )

    found.add_each(SKIPPED, np.arange(len(missing.at)), tell, queues=missing.queue)


def _one_owner(rows: Rows, found: Findings, pulls: _Calls) -> None:
    """Where clients record as whom they pull (``owner``), the calls of two owners of one group and queue never
    overlap in time."""
    owner = np.array(rows.words("owner", pulls.invoke), dtype=np.str_)
    index = rows.column("index")
    for group, queue in sorted(set(zip(pulls.group.tolist(), pulls.queue.tolist(), strict=True))):
        mine = np.flatnonzero((pulls.group == group) & (pulls.queue == queue) & (owner != "") & pulls.ok)
        if not group or not len(mine):
            continue
        found.count("owned_pulls", len(mine))
        for one, two in _overlaps(pulls.began[mine], pulls.ended[mine], owner[mine]):
            asked = [int(pulls.invoke[mine[at]]) for at in (one, two)]
            found.add(
                DOUBLE_OWNER,
                f"{owner[mine[one]]} and {owner[mine[two]]} of group {group} both pulled queue {queue} at "
                f"{facts.at_s(rows, asked[1])}.",
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
