"""Sends succeed again within a bound, queue by queue and send by send: the oracle of the kernel in
``checkers/availability.py``. When service is owed, and what the harness says of itself, it takes from there. It tells
no story: explanations are the kernel's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from chaos.findings import Findings
from chaos.history.columns import COLUMNS
from chaos.kernel import Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers import availability
from checkers._facts import service
from checkers._facts.clients import SILENCE_NS
from checkers._facts.service import Stretch
from checkers.availability import NEEDS, PROMISE, UNAVAILABLE
from tests.checkers.slow.plain import Call, calls

ALL = replace(NEEDS, columns=COLUMNS)


@dataclass(frozen=True, slots=True)
class Availability:
    promise: Promise = PROMISE
    needs: Needs = ALL

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        sends = calls(rows, "send")
        found.count("sends", len(sends))
        found.count("acked", sum(call.ok for call in sends))
        availability.check_harness(rows, context, found)
        bound_s = float(context.meta.bounds.get("available_s", availability.AVAILABLE_S))
        assert bound_s >= availability.SILENCE_S
        owed = service.stretches(rows, context, int(bound_s * 1e9))
        found.fact(owed_ms=sum(one.end - one.begin for one in owed if one.certain) // 1_000_000)
        longest_ns = 0
        for queue in sorted({call.begin.queue for call in sends}):
            mine = [call for call in sends if call.begin.queue == queue]
            answered = sorted(call.end.time_ns for call in mine if call.ok and call.end is not None)
            for stretch in owed:
                _is_served(rows, found, queue, mine, answered, stretch, int(bound_s * 1e9))
            apart = [b - a for a, b in pairwise(answered) if a // SILENCE_NS != b // SILENCE_NS]
            longest_ns = max(longest_ns, *apart, 0)
        found.fact(longest_s=round(longest_ns / 1e9, 3), acked=any(call.ok for call in sends))
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return availability.Availability().judge(partial, context)


def _is_served(
    rows: Rows,
    found: Findings,
    queue: int,
    sends: Sequence[Call],
    answered: Sequence[int],
    stretch: Stretch,
    bound_ns: int,
) -> None:
    """While service is owed, no longer than the bound passes without an acknowledged send, if one was tried so early
    that its answer was due."""
    inside = [time_ns for time_ns in answered if stretch.begin <= time_ns <= stretch.end]
    for low, high in pairwise([stretch.begin, *inside, stretch.end]):
        tried = [call.begin for call in sends if low < call.begin.time_ns <= high]
        if high - low <= bound_ns or not any(one.time_ns <= high - bound_ns for one in tried):
            continue
        if stretch.certain:
            found.add(UNAVAILABLE, "", stretch.cause, tried[0].index, tried[-1].index, queue=queue)
        else:
            found.gap(
                f"no send to queue {queue} was acknowledged for {(high - low) / 1e9:.1f} s, from "
                f"{facts.at_s(rows, tried[0].at)} on, while a fault was in force that declares no effects: whether "
                "service was owed is unknown"
            )
