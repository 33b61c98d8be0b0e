"""A group passes over no offset of its queues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from chaos.findings import Facts, Findings
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import held, reads, retention
from checkers._facts.arrays import NEVER, Flags, Ints, pairs_occur, ranges
from checkers._facts.reads import callers, own
from checkers.consumers.groups import Calls, Given, Group, are_owned
from checkers.consumers.promise import PROMISE, SHOWN, SKIPPED, decided_together

#: So far beyond what a group was given skipped offsets are looked for one by one.
FAR = 10_000

NEEDS = Needs(
    part="which offsets groups passed over",
    key=Key.OFFSET,
    rows=(
        own("op", "pull", "delivered", "commit"),
        callers("pull"),
        reads.HIGHEST_COMMITS,
        *(reads.RUN, *reads.RETENTION, *held.ROWS),
    ),
    columns=(*held.COLUMNS, *reads.RECORDS),
    uses=(Use.QUEUES,),
    lookups=(retention.TRIMMED,),
)


@dataclass(frozen=True, slots=True)
class Passed:
    """Each shard reports what it knows of each group that committed: how far, where it began to read, and which offsets
    it was given, as ranges; and where offsets have gaps, at which there are messages. What stands beside in several
    shards, all of them report alike."""

    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        commits, pulls = (Calls.of(rows.beside, f) for f in ("commit", "pull"))
        commits = commits.only(commits.ok)
        if len(commits.ok):
            found.fact(**{SHOWN: True})
        if context.meta.has_gaps:
            held.note_held(rows, context, found)
        if owned := int(are_owned(rows, Calls.of(rows, "pull")).sum()):
            found.count("owned_pulls", owned)
        read_by = pulls.by_group()
        for name, places in sorted(commits.by_group().items()):
            group = Group.of(commits.only(places))
            given = Given.of_group(rows.beside, group, pulls.only(read_by.get(name, pulls.invoke[:0])))
            found.fact(group=name, **_of_group(rows.beside, context, group, given))
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decided_together(partial, context, skipped)


def _of_group(rows: Rows, context: RunContext, group: Group, given: Given) -> dict[str, list[int]]:
    """Of each of its ``queues``: the highest commit (``top``, its ``row``, when), where it ``begin``s (-1: it asked for
    nothing), the ``last`` offset that it was given, and where retention, or else answers, let it begin (``floor``,
    ``least``, -1 where retention says it). Of each range: the place of its queue, its ends. Of each ``blank`` offset,
    at which no message came that can be identified: the place of its queue, and itself."""
    floor, known = retention.lawful_floors(rows, context, group.queues)
    answered = given.pulls.only(given.pulls.ok)
    least = np.zeros(len(group.queues), dtype=np.int64)
    np.maximum.at(least, group.place(answered.queue), rows.numbers("minimum", answered.done))
    done = group.acked.done[group.top]
    got = rows.column("offset")[given.at]
    last = np.full(len(group.queues), -1, dtype=np.int64)
    np.maximum.at(last, given.of, np.minimum(got, NEVER - 2 * FAR))
    inside = (got >= 0) & (got < group.highest[given.of])
    columns = {
        "queues": group.queues,
        "top": group.highest,
        "row": rows.column("index")[done],
        "since_ns": facts.since_load_ns(rows, done),
        "begin": given.begin,
        "last": last,
        "floor": floor,
        "least": np.where(known, -1, least),
        **dict(zip(("of", "first", "until"), ranges(given.of[inside], got[inside]), strict=True)),
        **dict(zip(("blank_of", "blank"), _blank(rows, given.at[inside], given.of[inside]), strict=True)),
    }
    return {name: column.tolist() for name, column in columns.items()}


def _blank(rows: Rows, at: Ints, of: Ints) -> tuple[Ints, Ints]:
    """Where all that came at an offset came without an id or a content of which anything is known: whose offsets they
    are, and which."""
    offset = rows.column("offset")[at]
    identified = (rows.column("hash")[at] >= 0) & (rows.column("message")[at] >= 0)
    blank = np.flatnonzero(~identified)
    if len(blank):
        named = of[identified], offset[identified]
        blank = blank[~pairs_occur((of[blank], offset[blank]), named)]
    return of[blank], offset[blank]


def skipped(reported: Facts) -> Partial:
    """Find skipped offsets in the facts of all shards: each offset from a group's first pull up to its highest
    acknowledged commit was delivered to the group, whatever stood there, unless the queue may begin above it. Where
    nothing says what retention has removed, answers are believed. Where offsets have gaps, each at which there is a
    message was."""
    found = Findings(PROMISE)
    gaps = any("held" in fact for fact in reported)
    for group, queues in sorted(by_group(reported).items()):
        for queue, known in sorted(queues.items()):
            missing = known.missing
            if gaps:
                missing = missing[held.first_held(reported, np.full(len(missing), queue), missing) == missing]
            _report_skipped(found, group, queue, known, missing)
    return found.partial()


def by_group(reported: Facts) -> Mapping[str, Mapping[int, Known]]:
    """Group → queue → what the shards together know of the two."""
    found: dict[str, dict[int, Known]] = {}
    for fact in reported:
        if "group" in fact:
            _add(found.setdefault(str(fact["group"]), {}), fact)
    return found


@dataclass(slots=True)
class Known:
    """What is known of a group in one queue; ``given``: ranges, as arrays of their ends; ``blank``: the offsets in them
    at which no message came that can be identified."""

    top: int
    row: int
    since_ns: int
    begin: int
    last: int
    floor: int
    least: int
    given: list[tuple[Ints, Ints]]
    blank: list[int]

    def was_given(self, offsets: Ints) -> Flags:
        """At which of these offsets the group was given anything, from its first pull up to its highest commit."""
        first, until = (np.concatenate([*ends, np.zeros(1, np.int64)]) for ends in zip(*self.given, strict=True))
        order = np.argsort(first, kind="stable")
        place = np.searchsorted(first[order], offsets, side="right") - 1
        found: Flags = (place >= 0) & (offsets < np.maximum.accumulate(until[order])[place])
        found &= (offsets >= self.begin) & (offsets < self.top) & (self.begin >= 0)
        return found & ~np.isin(offsets, np.array(self.blank, dtype=np.int64))

    @property
    def missing(self) -> Ints:
        """The offsets that the group was never given."""
        if self.begin < 0:
            return np.empty(0, dtype=np.int64)
        begin = max(self.begin, self.floor if self.least < 0 else self.least)
        end = min(self.top, max(self.last, begin - 1) + 1 + FAR)  # a commit may name any number
        edge = np.array([max(begin, end)], dtype=np.int64)
        first, until = (np.concatenate([*ends, edge]) for ends in zip(*self.given, strict=True))
        order = np.argsort(first, kind="stable")
        first, until = np.clip(first[order], begin, edge), np.clip(until[order], begin, edge)
        before = np.maximum.accumulate(np.append(begin, until))[:-1]
        length = np.maximum(first - before, 0)
        within = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
        found: Ints = np.repeat(before, length) + within
        return found


def _add(known: dict[int, Known], fact: Mapping[str, Any]) -> None:
    """Join what a shard reports of a group with what others reported. Its ranges stand by queue."""
    of, first, until = (np.array(fact[name], dtype=np.int64) for name in ("of", "first", "until"))
    blank_of, blank = (np.array(fact[name], dtype=np.int64) for name in ("blank_of", "blank"))
    starts = np.searchsorted(of, np.arange(len(fact["queues"]) + 1)).tolist()
    names = ("queues", "top", "row", "since_ns", "begin", "last", "floor", "least")
    for number, values in enumerate(zip(*(fact[name] for name in names), strict=True)):
        queue, top, row, since_ns, begin, last, floor, least = values
        one = Known(top, row, since_ns, begin, last, floor, least, [], [])
        before = known.setdefault(queue, one)
        before.begin = min(filter(lambda offset: offset >= 0, (before.begin, one.begin)), default=-1)
        before.last = max(before.last, one.last)
        before.floor = max(before.floor, one.floor)
        before.least = max(before.least, one.least)
        mine = slice(starts[number], starts[number + 1])
        before.given.append((first[mine], until[mine]))
        before.blank += blank[blank_of == number].tolist()


def _report_skipped(found: Findings, group: str, queue: int, known: Known, missing: Ints) -> None:
    def report_one(offset: int) -> None:
        found.add(
            SKIPPED,
            f"Group {group} committed offset {known.top} of queue {queue} at {facts.in_s(known.since_ns)}, but was "
            f"never given offset {offset}.",
            known.row,
            queue=queue,
            offset=offset,
        )

    queues, acted_ns = (np.full(len(missing), one, dtype=np.int64) for one in (queue, known.since_ns))
    found.add_each(SKIPPED, missing, report_one, queues=queues, acted_ns=acted_ns)
