"""Nodes say where a queue begins as it is, not as it was long before they deleted its first records."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.findings import Findings, decide
from chaos.kernel import Key, Needs, Reads, Sieve
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import reads, retention
from checkers._facts.arrays import NEVER, Flags, Highest, Ints, among, slots
from checkers._facts.faults import were_calm
from checkers._facts.reads import everywhere, own
from checkers.progress.bounds import Answers, old_ns
from checkers.progress.promise import PROMISE, STALE_MINIMUM

_LIFE_BITS = 32


def _trims(rows: Rows) -> Ints:
    """Return the manifests of each queue that begin above all that were applied at an earlier time. A sieve."""
    tier, times = _Trims.of(rows), rows.column("time_ns")
    before = Highest(tier.queue, times[tier.at], tier.start, NEVER >> 1).before(tier.queue, times[tier.at])
    return np.sort(tier.at[tier.start > before])


NEEDS = Needs(
    part="where queues begin, as answered",
    key=Key.CALL,
    rows=(
        own("op", "pull", "bounds"),
        Reads(
            kind="trace",
            f=("store_cas",),
            sieve=Sieve(
                rows=(own("trace", "store_cas"),),
                columns=("queue", "time_ns", "hash", "value"),
                keep=_trims,
                streamed=True,
            ),
            beside=True,
        ),
        everywhere("trace", "retention", "bootstrap", "role"),
        *(reads.RUN, reads.FAULTS),
    ),
    columns=(*reads.BASIC, *reads.LIVES, *reads.OPERATIONS, "hash"),
    uses=(Use.QUEUES,),
)


@dataclass(frozen=True, slots=True)
class StaleMinimums:
    """Each answer is judged by itself: by what was deleted for longer than the bound before it was asked for, in a time
    without faults."""

    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        if not context.unfinished:  # which faults were in force may be known only when they are undone
            answers = Answers.of(rows)
            _begin(rows, context, found, answers.only(answers.minimum >= 0))
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        """Whether any read was answered is another kernel's to say."""
        return decide(PROMISE, partial, needs=(), unless=context.no_queues)


def _begin(rows: Rows, context: RunContext, found: Findings, answers: Answers) -> None:
    """Check that a node that has deleted the beginning of a queue from its log, and whose tier has as well, says so."""
    times, old, local = rows.column("time_ns"), old_ns(context), rows.memo(_Deletions.of)
    if not len(local.at) or not len(answers.done):
        return
    by_ns = np.maximum(times[answers.asked] - old, 0)
    lives = _lives(rows, np.append(local.at, answers.done))
    slot, _ = slots(lives, np.append(local.queue, answers.queue))
    deleted, asked = slot[: len(local.at)], slot[len(local.at) :]
    own = Highest(deleted, times[local.at], local.minimum, NEVER >> 1)
    tier = _Trims.of(rows)
    trimmed = Highest(tier.queue, times[tier.at], tier.start, NEVER >> 1)
    held = among(answers.queue, tier.queue)
    due = np.where(held, np.minimum(own.before(asked, by_ns), trimmed.before(answers.queue, by_ns)), 0)
    due = np.where(~held & local.untiered(asked, deleted), own.before(asked, by_ns), due)
    late = np.flatnonzero(answers.minimum < due)
    late = late[were_calm(rows, by_ns[late], times[answers.done[late]])]

    def report_one(item: int) -> None:
        done, queue = int(answers.done[item]), int(answers.queue[item])
        witnesses = [_first_to(own, int(asked[item]), int(due[item]), local.at)]
        if held[item]:
            witnesses.append(_first_to(trimmed, queue, int(due[item]), tier.at))
        index = rows.column("index")
        found.add(
            STALE_MINIMUM,
            f"{rows.text('node', done)} said at {facts.at_s(rows, done)} that queue {queue} begins at offset "
            f"{int(answers.minimum[item])}, although what is below offset {int(due[item])} was gone from its log and "
            f"from the tier more than {old / 1e9:g} s before, with no fault in the way.",
            *sorted(int(index[at]) for at in (*witnesses, int(answers.asked[item]), done)),
            queue=queue,
            offset=int(due[item]),
        )

    acted_ns = facts.since_load_ns(rows, answers.done[late])
    found.add_each(STALE_MINIMUM, late, report_one, queues=answers.queue[late], acted_ns=acted_ns)


def _lives(rows: Rows, at: Ints) -> Ints:
    """Return a number for the node and its life that wrote each row."""
    nodes = rows.column("node")[at].astype(np.int64)  # codes have too few bits to be moved by so many
    found: Ints = (nodes << _LIFE_BITS) + rows.column("incarnation")[at]
    return found


def _first_to(high: Highest, key: int, value: int, at: Ints) -> int:
    """Return the first row that reached a value."""
    values, places = high.records(key)
    return int(at[places[np.searchsorted(values, value)]])


@dataclass(frozen=True, slots=True)
class _Deletions:
    """Where each replica's own log begins since the row ``at``: ``minimum`` of ``queue``. Those of a life in which the
    log was begun again later are left out. ``tiered``: it deleted only what a tier held."""

    at: Ints
    queue: Ints
    minimum: Ints
    tiered: Flags

    @classmethod
    def of(cls, rows: Rows) -> _Deletions:
        at, forms = rows.beside.memo(retention.deletions)
        parts: list[tuple[Ints, Ints, Ints, Flags]] = []
        for form in forms:
            mine = at[form.at]
            tiered = np.full(len(mine), bool((form.value.get("inputs") or {}).get("tiered")))
            for queue, minimum in (form.value.get("minimums") or {}).items():
                parts.append((mine, np.full(len(mine), int(queue), dtype=np.int64), form.whole(minimum), tiered))
        empty = (at[:0], at[:0], at[:0], np.zeros(0, dtype=np.bool_))
        found = cls(*(np.concatenate(column) for column in zip(empty, *parts, strict=True)))
        times, lives = rows.column("time_ns"), _lives(rows, found.at)
        keep = np.ones(len(found.at), dtype=np.bool_)
        for begun in rows.where(kind="trace", f="bootstrap").tolist():
            keep &= (lives != _lives(rows, np.array([begun]))[0]) | (times[found.at] > times[begun])
        return cls(*(getattr(found, name)[keep] for name in cls.__slots__))

    def untiered(self, asked: Ints, slot: Ints) -> Flags:
        """Of which of these slots no deletion, by slot, was one for a tier."""
        return ~among(asked, slot[self.tiered])


@dataclass(frozen=True, slots=True)
class _Trims:
    """Where the manifest of ``queue`` begins since the row ``at``."""

    at: Ints
    queue: Ints
    start: Ints

    @classmethod
    def of(cls, rows: Rows) -> _Trims:
        known, versions = rows.beside.memo(retention.headers), rows.beside.memo(retention.versions)
        trims = [(at, queue, int(known[at].trimmed_to)) for queue, found in versions.items() for at in found]
        return cls(*np.array(trims, dtype=np.int64).reshape(-1, 3).T)
