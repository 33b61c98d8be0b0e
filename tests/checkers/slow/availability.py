"""Availability, queue by queue: the oracle of the kernel in ``checkers/availability.py``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from chaos.findings import Findings
from chaos.kernel import Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers import availability
from checkers._facts import service, waits
from checkers._facts.arrays import Ints
from checkers._facts.clients import SILENCE_NS
from checkers._facts.service import Stretch
from checkers.availability import NEEDS, PROMISE, UNAVAILABLE


@dataclass(frozen=True, slots=True)
class Availability:
    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        sends = rows.memo(facts.sends)
        found.count("sends", len(sends.invoke))
        found.count("acked", int(sends.ok.sum()))
        availability.check_harness(rows, context, found)
        bound_s = float(context.meta.bounds.get("available_s", availability.AVAILABLE_S))
        assert bound_s >= availability.SILENCE_S
        owed = service.stretches(rows, context, int(bound_s * 1e9))
        found.fact(owed_ms=sum(one.end - one.begin for one in owed if one.certain) // 1_000_000)
        queue = rows.column("queue")[sends.invoke]
        longest = [
            _of_queue(rows, found, int(number), np.flatnonzero(queue == number), owed, bound_s)
            for number in np.unique(queue).tolist()
        ]
        found.fact(longest_s=max(longest, default=0.0), acked=bool(sends.ok.any()))
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return availability.Availability().judge(partial, context)


def _of_queue(rows: Rows, found: Findings, queue: int, mine: Ints, owed: Sequence[Stretch], bound_s: float) -> float:
    """Within each stretch, no time longer than the bound passes without an acknowledged send, if any was tried. Returns
    the longest time without one at all, in seconds."""
    sends, times, index = rows.memo(facts.sends), rows.column("time_ns"), rows.column("index")
    asked = times[sends.invoke[mine]]
    good = mine[sends.ok[mine]]
    answered = np.sort(times[sends.done[good]])
    bound_ns = int(bound_s * 1e9)
    for stretch in owed:
        begin, end = stretch.begin, stretch.end
        inside = answered[(answered >= begin) & (answered <= end)]
        marks = np.concatenate([[begin], inside, [end]])
        for gap in np.flatnonzero(np.diff(marks) > bound_ns).tolist():
            low, high = int(marks[gap]), int(marks[gap + 1])
            tried = mine[(asked > low) & (asked <= high)]
            # A client must have tried early enough that its send could have been answered within the bound.
            if not len(tried) or int(asked[(asked > low) & (asked <= high)].min()) > high - bound_ns:
                continue
            first, last = int(sends.invoke[tried[0]]), int(sends.invoke[tried[-1]])
            if not stretch.certain:
                found.gap(
                    f"no send to queue {queue} was acknowledged for {(high - low) / 1e9:.1f} s, from "
                    f"{facts.at_s(rows, first)} on, while a fault was in force that declares no effects: whether "
                    "service was owed is unknown"
                )
                continue
            found.add(
                UNAVAILABLE,
                f"No send to queue {queue} was acknowledged for {(high - low) / 1e9:.1f} s, from "
                f"{facts.at_s(rows, first)} on, although {len(tried)} were tried and enough nodes were well; "
                f"{bound_s:g} s are permitted.{waits.in_words(waits.waits(rows, last))}",
                stretch.cause,
                int(index[first]),
                int(index[last]),
                queue=queue,
            )
    apart = [b - a for a, b in pairwise(answered.tolist()) if a // SILENCE_NS != b // SILENCE_NS]
    return round(max(apart, default=0) / 1e9, 3)
