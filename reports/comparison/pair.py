"""Two runs side by side: verdicts, violations, what clients got, and where two simulated histories part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from chaos.errors import ChaosError
from chaos.history import directory
from chaos.history.differences import first_difference
from chaos.history.recorder import read_rows
from reports.comparison.measures import Measures, measure
from reports.index.overview import RunLine, line
from reports.rows import RunRows

SIM = "sim"
#: So many rows before the first difference are shown, and so many of each history from there on.
AROUND = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two runs. ``laws``: the verdict of each, "" for one that stands in no verdict. ``rows`` and
    ``measures`` are None, and ``damage`` says why, where the history can't be read."""

    line: RunLine
    laws: Mapping[str, str]
    rows: RunRows | None = None
    measures: Measures | None = None
    damage: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """Where two histories part: the number of the first row that differs; the rows before it, which are the same, and
    from there on those of each, as dictionaries."""

    row: int
    before: list[dict[str, Any]]
    a: list[dict[str, Any]]
    b: list[dict[str, Any]]


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
        table, damage = read_rows(run)
        rows = RunRows(table)
        return Side(line=summary, laws=laws, rows=rows, measures=measure(rows), damage=tuple(damage))
    except (ChaosError, OSError, ValueError) as error:
        return Side(line=summary, laws=laws, damage=(f"{summary.name}: the history can't be read: {error}",))


def pair(first: Path, second: Path) -> Pair:
    """Compare two runs. Raises nothing for what can't be read: the sides say so."""
    a, b = side(first), side(second)
    if a.rows is None or b.rows is None:
        return Pair(a=a, b=b, identical=None, why="a history can't be read")
    if a.line.deployment != SIM or b.line.deployment != SIM:
        return Pair(a=a, b=b, identical=None, why="only simulated runs repeat their histories")
    row = first_difference(a.rows.table, b.rows.table)
    if row is None:
        return Pair(a=a, b=b, identical=True)
    before = _rows(a.rows.table, max(0, row - AROUND), row)
    after_a, after_b = (_rows(one.table, row, row + AROUND) for one in (a.rows, b.rows))
    return Pair(a=a, b=b, identical=False, parting=Parting(row=row, before=before, a=after_a, b=after_b))


def _rows(table: pa.Table, start: int, end: int) -> list[dict[str, Any]]:
    return table.slice(start, end - start).to_pylist()
