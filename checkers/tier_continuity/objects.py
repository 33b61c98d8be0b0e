"""Which offsets the tier holds of each queue after the run, reported shard by shard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from chaos.driver import Evidence
from chaos.findings import Facts, Findings, joined
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers._facts import reads, tier
from checkers._facts.arrays import Ints, groups, ranges
from checkers._facts.reads import own
from checkers.tier_continuity.promise import PROMISE

#: Of a gap so many offsets are reported as missing: a manifest may claim any number.
FAR = 1_000_000

OF_ALL = Needs(
    part="what the objects hold",
    key=Key.OFFSET,
    rows=(own("final", "tiered"), reads.RUN),
    columns=(*reads.BASIC, "queue", "offset"),
    evidence=(Evidence.TIER,),
)
OF_EACH = Needs(
    part="what each replica's own tier holds",
    key=Key.OFFSET,
    rows=OF_ALL.rows,
    columns=OF_ALL.columns,
    evidence=(Evidence.TIER_CONTENT,),
)


@dataclass(frozen=True, slots=True)
class Objects:
    """Each shard reports, as ranges, the offsets of which there is a record in the tier, and those of which there are
    several."""

    promise: Promise = PROMISE
    needs: Needs = OF_ALL

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found, at = Findings(PROMISE), rows.where(kind="final", f="tiered")
        queue, offset, node = (rows.column(name)[at] for name in ("queue", "offset", "node"))
        if self.needs is not OF_EACH:
            if tier.has_tier(context):
                _note_content(found, "", queue, offset)
        elif tier.has_own_tiers(context):
            for code in np.unique(node).tolist():
                mine = node == code
                _note_content(found, rows.text("node", int(at[mine][0])), queue[mine], offset[mine])
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        """Find nothing by itself. Where no workload uses queues, judge only what holds some."""
        shown = any(fact.get("held") for fact in partial.facts)
        nothing = [("records", "no record of the tier was read after the run")]
        return tier.judge(PROMISE, partial, context, [] if shown or not context.no_queues else nothing)


def _note_content(found: Findings, node: str, queue: Ints, offset: Ints) -> None:
    order, firsts = groups(queue, offset)
    several = order[firsts[np.diff(np.append(firsts, len(order))) > 1]]
    queues, records = np.unique(queue, return_counts=True)
    found.fact(tier=node, counted=queues.tolist(), records=records.tolist())
    for name, (of, first, until) in (
        ("held", ranges(queue, offset)),
        ("several", ranges(queue[several], offset[several])),
    ):
        found.fact(tier=node, **{name: of.tolist()}, first=first.tolist(), until=until.tolist())


def with_gaps(partial: Partial) -> Partial:
    """Return what a kernel reports that joins this one: the gaps that it found itself are facts, too."""
    return replace(partial, facts=(*partial.facts, *({"gap": gap} for gap in partial.gaps)))


def is_complete(partial: Partial) -> bool:
    """Say whether every shard has reported what it holds: all gaps are those that the kernel which joins this one found
    itself. Where a shard was not examined, it is unknown what is missing."""
    return set(partial.gaps) <= {fact["gap"] for fact in partial.facts if "gap" in fact}


@dataclass(frozen=True, slots=True)
class TierContent:
    """What all shards together reported of one tier: that of one node, or the only one. Columns, by queue and
    offset."""

    counted: tuple[Ints, Ints]
    held: tuple[Ints, Ints, Ints]
    twice: tuple[Ints, Ints, Ints]

    @classmethod
    def by_node(cls, facts: Facts) -> Mapping[str, TierContent]:
        """Return the tier of each node that has one of its own; under no name that of all."""
        found: dict[str, list[Mapping[str, Any]]] = {"": []}
        for fact in facts:
            if "tier" in fact:
                found.setdefault(str(fact["tier"]), []).append(fact)
        return {node: cls._of(mine) for node, mine in found.items()}

    @classmethod
    def _of(cls, facts: Facts) -> TierContent:
        queue, records = joined(facts, "counted", "records")
        held, several = (joined(facts, name, "first", "until") for name in ("held", "several"))
        return cls((queue, records), _in_order(*held), _in_order(*several))

    def records(self, queue: int) -> int:
        """Return how many records there are of a queue."""
        counted, records = self.counted
        return int(records[counted == queue].sum())

    def several(self, queue: int) -> Ints:
        """Return the offsets of a queue that are there more than once, ascending."""
        return _each(*_of_queue(self.twice, queue))

    def missing(self, queue: int, start: int, end: int) -> Ints:
        """Return the offsets of a queue from ``start`` to ``end`` that are not there, ascending; of each gap the first
        :data:`FAR`."""
        first, until = _of_queue(self.held, queue)
        some = (until > start) & (first < end)
        begin = np.append(start, until[some])
        return _each(begin, np.minimum(np.append(first[some], end), begin + FAR))


def _in_order(queue: Ints, first: Ints, until: Ints) -> tuple[Ints, Ints, Ints]:
    order = np.lexsort((first, queue))
    return queue[order], first[order], until[order]


def _of_queue(columns: tuple[Ints, Ints, Ints], queue: int) -> tuple[Ints, Ints]:
    queues, first, until = columns
    begin, end = np.searchsorted(queues, [queue, queue + 1])
    return first[begin:end], until[begin:end]


def _each(first: Ints, until: Ints) -> Ints:
    """Return all numbers of these ranges."""
    every = [np.arange(begin, end) for begin, end in zip(first.tolist(), until.tolist(), strict=True)]
    return np.concatenate([np.empty(0, dtype=np.int64), *every])
