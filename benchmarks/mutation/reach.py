"""Which seeds a mutant is worth running with, and in which order.

A run in the simulator depends on the code and the seed alone. Where the correct system's run never comes to the
statement that a mutant changes, the mutant's run is the same, row by row, so it need not be done. Each seed of the
correct system runs in a process of its own, so that nothing that an earlier run has remembered hides a statement.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from benchmarks.mutation.mutants import ROOT, Mutant
from benchmarks.mutation.planting import statement_line
from benchmarks.mutation.state import Key
from benchmarks.mutation.trial import Outcome

#: An experiment and a seed.
Place = tuple[str, int]


class Reach:
    """What the correct system's runs came to. ``sound``: the seeds that count."""

    def __init__(self, sound: Sequence[Place], known: Mapping[Key, Outcome]) -> None:
        self._runs: dict[Place, Outcome] = {place: known["", *place] for place in sound}
        self._seeds_of: Counter[tuple[str, str]] = Counter(
            (file, line) for run in self._runs.values() for file, lines in run.lines.items() for line in lines
        )

    def times(self, mutant: Mutant, place: Place) -> int:
        """How often the correct system's run comes to the statement that the mutant changes."""
        return self._runs[place].lines.get(mutant.path, {}).get(str(_line(mutant)), 0)

    def order(self, mutant: Mutant) -> list[Place]:
        """Return the seeds that come there, those first that promise most for what they cost."""
        promise = {place: self._promise(mutant, place) for place in self._runs if self.times(mutant, place)}
        return sorted(promise, key=lambda place: (-promise[place], place))

    def _promise(self, mutant: Mutant, place: Place) -> float:
        """Return how much a seed promises: much if it comes there often, and shows rare sides of the same file. Its
        cost is about the number of its rows."""
        run = self._runs[place]
        rare = sum(1 / self._seeds_of[mutant.path, line] for line in run.lines[mutant.path])
        return math.log2(1 + self.times(mutant, place)) * (1 + rare) / max(1, run.rows)


def _line(mutant: Mutant) -> int:
    return _line_of(ROOT / mutant.path, mutant.change.line)


@cache
def _line_of(path: Path, line: int) -> int:
    return statement_line(path.read_text("utf-8"), line)
