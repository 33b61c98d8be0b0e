"""Groups of consumers, each call by itself: the oracle of the kernels in ``checkers/consumers``. It tells no story:
explanations are the kernels' own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce

from chaos.findings import Findings, decide
from chaos.history.columns import COLUMNS
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts import losses
from checkers._facts.arrays import NEVER
from checkers._facts.retention import TRIMMED
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
from tests.checkers.slow import retention, stands
from tests.checkers.slow.plain import Call, Row, calls, read, some

KERNELS = (COMMITTED, REACHED, PASSED, MESSAGES)
ALL = Needs(
    key=Key.QUEUE,
    rows=tuple(replace(rows, beside=False) for needs in KERNELS for rows in (*needs.rows, *TRIMMED.rows)),
    columns=COLUMNS,
    lookups=PASSED.lookups,
)


@dataclass(frozen=True, slots=True)
class Consumers:
    promise: Promise = PROMISE
    needs: Needs = ALL

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found, passed, messages = Findings(PROMISE), Findings(PROMISE), Findings(PROMISE)  # kernels of their own
        commits, queries = calls(rows, "commit"), calls(rows, "committed")
        found.count("commits", sum(call.ok for call in commits))
        found.count("committed_reads", sum(call.ok for call in queries))
        for where in _groups(queries):
            _only_what_was_committed(found, _of(commits, where), _of(queries, where))
        destroyed = facts.all_destroyed(rows, context)
        for where in _groups(commits):
            mine, asked, pulls = (_of(some_calls, where) for some_calls in (commits, queries, calls(rows, "pull")))
            kept, replaced = (Findings(PROMISE), Findings(PROMISE)) if destroyed else (found, messages)
            if losses.keeps_read(rows, context):
                _never_back(kept, mine, asked)
                _kept_to_the_end(rows, kept, mine, *where)
            _given_what_is_there(rows, context, replaced, mine, pulls)
            if destroyed and (kept.partial().anomalies or replaced.partial().anomalies):
                found.gap(f"what group {where[0]} had committed in queue {where[1]} holds no longer, but {destroyed}")
            _never_beyond(rows, found, mine, asked, where[1])
            _nothing_skipped(rows, context, passed, mine, pulls)
        _one_owner(found, calls(rows, "pull"))
        return reduce(Partial.merge, (one.partial() for one in (found, passed, messages)))

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decide(PROMISE, partial, unless=context.no_queues)


def _group(call: Call) -> str:
    return str(call.begin.value.get("group", ""))


def _groups(some_calls: Iterable[Call]) -> list[tuple[str, int]]:
    return sorted({(_group(call), call.begin.queue) for call in some_calls})


def _of(some_calls: Iterable[Call], where: tuple[str, int]) -> list[Call]:
    return [call for call in some_calls if (_group(call), call.begin.queue) == where]


def _ended(call: Call) -> int:
    """The row by which it is known to have ended; one of unknown outcome may never end."""
    return call.end.index if call.end is not None and call.end.type in ("ok", "fail") else NEVER


def _good(some_calls: Iterable[Call]) -> list[tuple[Row, Row]]:
    """The beginnings and the ends of those that were answered with ok."""
    return [(call.begin, call.end) for call in some_calls if call.ok and call.end is not None]


def _only_what_was_committed(found: Findings, commits: list[Call], queries: list[Call]) -> None:
    """What a query finds is no larger than what the group had asked to commit by then: else the group would pass over
    what lies between. A group that committed nothing begins at the first offset."""
    tried = [call.begin for call in commits if call.end is None or call.end.type != "fail"]
    for begin, end in _good(queries):
        known = max([0, *(one.offset for one in tried if one.index < end.index)])
        if end.offset > max(known, 0):
            found.add(NEVER_COMMITTED, "", begin.index, end.index, queue=begin.queue, offset=end.offset)


def _never_back(found: Findings, commits: list[Call], queries: list[Call]) -> None:
    """What a query finds is no older than a commit that was acknowledged before it, whatever smaller offsets were
    committed since: unless the one who answered led an older epoch than the one who took the commit."""
    for begin, end in _good(queries):
        binding = [
            (asked, done)
            for asked, done in _good(commits)
            if done.index < begin.index and asked.offset > end.offset and done.epoch <= end.epoch
        ]
        if binding:
            _, latest = max(binding, key=lambda pair: pair[0].index)
            found.add(COMMIT_REGRESSION, "", latest.index, end.index, queue=begin.queue, offset=end.offset)


def _highest(commits: list[Call]) -> tuple[Row, Row]:
    """The acknowledged commit of the highest offset, the first of several."""
    return max(_good(commits), key=lambda pair: pair[0].offset)


def _kept_to_the_end(rows: Rows, found: Findings, commits: list[Call], group: str, queue: int) -> None:
    """After recovery the master still knows what was committed, even if no consumer happened to ask it again."""
    if not some(rows, "harness", "recovered") or not _good(commits):
        return
    asked, done = _highest(commits)
    roles = {one.node: one.value.get("role") for one in some(rows, "final", "node")}
    for one in some(rows, "final", "offsets"):
        kept = int(((one.value.get("groups") or {}).get(group) or {}).get(str(queue), -1))
        if roles.get(one.node) == "master" and kept < asked.offset:
            found.add(COMMIT_REGRESSION, "", done.index, one.index, queue=queue, offset=kept)


def _never_beyond(rows: Rows, found: Findings, commits: list[Call], queries: list[Call], queue: int) -> None:
    """No committed offset lies beyond the end of the queue as anything in the whole run tells it."""
    said = stands.acknowledged(rows) + stands.delivered(rows) + stands.in_the_end(rows) + stands.once_confirmed(rows)
    answers = [end for _, end in _good(calls(rows, "pull", "bounds")) if end.queue == queue]
    ends = [one.offset + 1 for one in said if one.queue == queue] + [end.number("maximum") for end in answers]
    for offset, done in [
        *((asked.offset, done) for asked, done in _good(commits)),
        *((done.offset, done) for _, done in _good(queries)),
    ]:
        if offset > max([0, *ends]):
            found.add(COMMIT_BEYOND_END, "", done.index, queue=queue, offset=offset)


def _given(rows: Rows, pulls: list[Call]) -> list[Row]:
    asked = {call.begin.index for call in pulls}
    return [one for one in read(rows, "delivered") if one.op in asked]


def _nothing_skipped(rows: Rows, context: RunContext, found: Findings, commits: list[Call], pulls: list[Call]) -> None:
    """Each offset from the group's first pull up to its highest acknowledged commit was delivered to the group,
    whatever stood there, unless the queue lawfully begins above it. Where nothing tells what lawfully went, answers are
    believed."""
    if not _good(commits) or not pulls:
        return
    asked, done = _highest(commits)
    floor, known = retention.lawful_floor(rows, context, asked.queue)
    if not known:
        floor = max([0, *(end.number("minimum") for _, end in _good(pulls))])
    begin = max(0, floor, min(call.begin.offset for call in pulls))
    got = {one.offset for one in _given(rows, pulls)}
    end = min(asked.offset, max([begin - 1, *got]) + 1 + FAR)  # a commit may name any number
    for offset in range(begin, end):
        if offset not in got:
            found.add(SKIPPED, "", done.index, queue=asked.queue, offset=offset)


def _given_what_is_there(
    rows: Rows, context: RunContext, found: Findings, commits: list[Call], pulls: list[Call]
) -> None:
    """Each acknowledged message between a group's first pull and its highest acknowledged commit came to the group with
    that very content, wherever it stood: an offset that now holds another message than the group was given there is
    skipped as well. Promised where confirmed messages are on disks and only their holders are elected, so that nothing
    that was read is taken back; where acknowledged messages may be lost, of those alone that are there in the end."""
    if context.profile.flush != "sync" or context.profile.unclean or not _good(commits) or not pulls:
        return
    asked, done = _highest(commits)
    begin, given = max(0, min(call.begin.offset for call in pulls)), _given(rows, pulls)
    came = {(one.message, one.hash) for one in given}
    filled = {one.offset for one in given if one.hash >= 0 and one.message >= 0}
    sent = {call.end.at: call.begin.message for call in calls(rows, "send") if call.end is not None}
    stays = None
    if not losses.keeps(rows, context, confirmed=False):
        begins = [one.index for one in some(rows, "harness", "phase") if one.value.get("phase") == "drain"]
        provers = {one.process for one in read(rows, "drain")}
        last = [one for one in read(rows, "delivered") if (one.op >= begins[0] if begins else one.process in provers)]
        stays = {(one.offset, one.content) for one in stands.by_rows(last) if one.queue == asked.queue}
    for one in stands.acknowledged(rows):
        is_due = one.queue == asked.queue and begin <= one.offset < asked.offset and one.offset in filled
        is_missing = is_due and (sent[one.row.at], one.content) not in came
        if is_missing and (stays is None or (one.offset, one.content) in stays):
            story, message = (one.row.index, done.index), sent[one.row.at]
            found.add(SKIPPED, "", *story, queue=asked.queue, offset=one.offset, message=message)


def _one_owner(found: Findings, pulls: list[Call]) -> None:
    """Where clients record as whom they pull (``owner``), the calls of two owners of one group and queue never
    overlap in time. Of several calls that are under way, the one that ended last is told."""
    for where in _groups(pulls):
        mine = [call for call in _of(pulls, where) if call.ok and call.begin.value.get("owner")]
        if where[0] and mine:
            found.count("owned_pulls", len(mine))
            for number, call in enumerate(mine):
                others = [one for one in mine[:number] if one.begin.value["owner"] != call.begin.value["owner"]]
                others = [one for one in others if _ended(one) > call.begin.index]
                if others:
                    other = max(others, key=_ended)
                    found.add(DOUBLE_OWNER, "", other.begin.index, call.begin.index, queue=where[1])
