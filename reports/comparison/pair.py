"""Two runs side by side: verdicts, violations, what clients got, and where two simulated histories part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos.errors import ChaosError
from chaos.history import directory
from chaos.history.history import History
from chaos.history.row import Row
from reports.comparison.measures import Measures, measure
from reports.index.overview import RunLine, line

SIM = "sim"
#: So many rows before the first difference are shown, and so many of each history from there on.
AROUND = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two runs. ``laws``: the verdict of each, "" for one that stands in no verdict. ``history``
    and ``measures`` are None, and ``damage`` says why, where the history can't be read."""

    line: RunLine
    laws: Mapping[str, str]
    history: History | None = None
    measures: Measures | None = None
    damage: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """Where two histories part: the number of the first row that differs; the rows before it, which are the same, and
    from there on those of each."""

    row: int
    before: Sequence[Row]
    a: Sequence[Row]
    b: Sequence[Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """``identical`` is None where the histories were not compared, and ``why`` says so; ``parting`` is None unless they
    differ."""

    a: Side
    b: Side
    identical: bool | None
    parting: Parting | None = None
    why: str = ""

    @property
    def laws(self) -> list[tuple[str, str, str]]:
        """Each law with its verdict in both, in the order of the verdicts."""
        return [(law, self.a.laws.get(law, ""), self.b.laws.get(law, "")) for law in {**self.a.laws, **self.b.laws}]

    @property
    def anomalies(self) -> list[tuple[str, int, int]]:
        """Each kind of violation with its number in both."""
        a, b = self.a.line.anomalies, self.b.line.anomalies
        return [(name, a.get(name, 0), b.get(name, 0)) for name in {**a, **b}]


def side(run: Path) -> Side:
    """Read one run, as far as it can be read."""
    summary = line(run)
    try:
        laws = {law.law: str(law.validity) for law in directory.read_verdict(run).laws}
    except (ChaosError, KeyError, TypeError):
        laws = {}
    try:
        history = History.open(run)
        return Side(line=summary, laws=laws, history=history, measures=measure(history), damage=tuple(history.damage))
    except (ChaosError, OSError, ValueError) as error:
        return Side(line=summary, laws=laws, damage=(f"{summary.name}: the history can't be read: {error}",))


def pair(first: Path, second: Path) -> Pair:
    """Compare two runs. Raises nothing for what can't be read: the sides say so."""
    a, b = side(first), side(second)
    if a.history is None or b.history is None:
        return Pair(a=a, b=b, identical=None, why="a history can't be read")
    if a.line.deployment != SIM or b.line.deployment != SIM:
        return Pair(a=a, b=b, identical=None, why="only simulated runs repeat their histories")
    row = a.history.first_difference(b.history)
    if row is None:
        return Pair(a=a, b=b, identical=True)
    before = _rows(a.history, max(0, row - AROUND), row)
    after_a, after_b = (_rows(one, row, row + AROUND) for one in (a.history, b.history))
    return Pair(a=a, b=b, identical=False, parting=Parting(row=row, before=before, a=after_a, b=after_b))


def _rows(history: History, start: int, end: int) -> list[Row]:
    return history.of_table(history.table.slice(start, end - start))
