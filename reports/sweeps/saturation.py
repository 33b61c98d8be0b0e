"""How much a further seed would still show: the abstract states that seeds saw for the first time.

The bound needs no model of how states are distributed, only that seeds don't know of each other. The seeds of the
second half are asked which of them saw a state that none of the first half had seen. That is a coin thrown so often,
whose bound is exact; and the next seed, which is compared with more seeds, sees a new state at most as probably.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from reports.sweeps.chances import Share, at_most
from reports.sweeps.row import Row

#: New states are counted for so many seeds together.
STEP = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Saturation:
    """Of one experiment. ``states``: different ones; ``new``: those that each further :data:`STEP` seeds saw first.
    ``single``: seeds that alone saw some state, whose share estimates the chance that the next seed sees a new one;
    ``bound``: that chance is at most so large, with 95 % confidence."""

    file: int
    seeds: int
    states: int
    new: Sequence[int]
    single: Share
    bound: float


def saturation(rows: Sequence[Row]) -> list[Saturation]:
    """Return one for each experiment, of the seeds that ran, in their order."""
    files = sorted({row.file for row in rows})
    return [_of([row for row in rows if row.file == file and row.seen.states], file) for file in files]


def _of(rows: Sequence[Row], file: int) -> Saturation:
    ordered = sorted(rows, key=lambda row: row.seed)
    known: set[str] = set()
    new = [0] * -(-len(ordered) // STEP)
    for place, row in enumerate(ordered):
        new[place // STEP] += len(set(row.seen.states) - known)
        known.update(row.seen.states)
    seen = Counter(state for row in ordered for state in row.seen.states)
    single = sum(any(seen[state] == 1 for state in row.seen.states) for row in ordered)
    half = len(ordered) // 2
    before = {state for row in ordered[:half] for state in row.seen.states}
    surprised = sum(not before.issuperset(row.seen.states) for row in ordered[half:])
    return Saturation(
        file=file,
        seeds=len(ordered),
        states=len(known),
        new=tuple(new),
        single=Share(hits=single, tries=len(ordered)),
        bound=at_most(surprised, len(ordered) - half),
    )
