"""After the run no replica knows an offset of a group that nobody committed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from chaos.findings import Findings
from chaos.kernel import Key, Needs, Reads, Sieve
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import reads
from checkers._facts.arrays import Ints, groups, places_in
from checkers._facts.reads import own
from checkers.consumers.groups import Calls
from checkers.consumers.promise import NEVER_COMMITTED, PROMISE, SHOWN, decided

#: What commits offsets of groups without a ``commit`` of a workload.
OTHERWISE = frozenset({Use.LIMITS, Use.DELIVERIES})


def highest_tried(rows: Rows) -> Ints:
    """Return of each queue and group the commit of the highest offset that was not definitely refused, the first of
    several. This is a sieve."""
    commits = _tried(rows)
    return np.sort(np.concatenate([commits.invoke, commits.done[commits.done >= 0]]))


def _tried(rows: Rows) -> Calls:
    commits = Calls.of(rows, "commit")
    mine = np.flatnonzero(~commits.failed)
    mine = mine[np.lexsort((commits.invoke[mine], -commits.offset[mine]))]
    order, firsts = groups(commits.code[mine], commits.queue[mine])
    return commits.only(mine[order[firsts]])


NEEDS = Needs(
    part="what replicas know of groups after the run",
    key=Key.RUN,
    rows=(
        own("final", "offsets"),
        Reads(
            kind="op",
            f=("commit",),
            everywhere=True,
            sieve=Sieve(
                rows=(own("op", "commit"),),
                columns=("op", "type", "queue", "offset", "epoch", "value"),
                keep=highest_tried,
            ),
        ),
        reads.RUN,
    ),
    columns=(*reads.BASIC, *reads.OPERATIONS, "epoch"),
    uses=(Use.QUEUES,),
)


@dataclass(frozen=True, slots=True)
class Known:
    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        if context.unfinished:  # no replica reports it before the end
            return found.partial()
        tried, strangers = _tried(rows), OTHERWISE.isdisjoint(context.uses)
        found.fact(**{SHOWN: bool(tried.ok.any())})
        by_group, nobody = tried.by_group(), tried.invoke[:0]
        for at in rows.where(kind="final", f="offsets").tolist():
            for group, table in sorted((rows.value(at).get("groups") or {}).items()):
                if strangers or group in by_group:
                    _compare(rows, context, found, at, group, table, tried.only(by_group.get(group, nobody)))
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decided(partial, context)


def _compare(
    rows: Rows, context: RunContext, found: Findings, at: int, group: str, table: Mapping[str, int], tried: Calls
) -> None:
    """Compare what a replica has for a group, by queue, with the highest offset of each queue that the group may have
    committed; ``tried`` has one commit of each, by queue. What a group does in queues of its own no row says."""
    queue, offset = np.array([*table], dtype=np.str_).astype(np.int64), np.array([*table.values()], dtype=np.int64)
    order = np.argsort(queue)
    order = order[facts.in_run(context, queue[order])]
    queue, offset = queue[order], offset[order]
    place, known = places_in(tried.queue, queue)
    most, row = np.zeros(len(queue), dtype=np.int64), np.full(len(queue), -1, dtype=np.int64)
    most[known], row[known] = tried.offset[place[known]], tried.invoke[place[known]]

    def report_one(item: int) -> None:
        found.add(
            NEVER_COMMITTED,
            f"After the run {rows.text('node', at)} has {int(offset[item])} as the offset of group {group} in queue "
            f"{int(queue[item])}, but the group had committed "
            f"{f'{int(most[item])} at most' if known[item] else 'nothing'} there.",
            *([int(rows.column("index")[row[item]])] if known[item] else []),
            int(rows.column("index")[at]),
            queue=int(queue[item]),
            offset=int(offset[item]),
        )

    wrong = np.flatnonzero(offset > most)
    acted_ns = np.full(len(wrong), facts.since_load_ns(rows, np.array([at])))
    found.add_each(NEVER_COMMITTED, wrong, report_one, queues=queue[wrong], acted_ns=acted_ns)
