"""The table of a matrix: what the runs of each cell said, law by law, and the times without service by fault."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.verdict import Validity
from reports.matrix.note import Note


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A cell as it was asked for: ``lacks`` says why it can't be run, "" if it can; ``violates`` which laws its runs
    are made to break."""

    row: str
    column: str
    on: str
    wanted: int
    digest: str
    lacks: str = ""
    violates: tuple[str, ...] = ()

    def is_expected(self, note: Note) -> bool:
        """Return whether a run that broke laws broke some of those that it is made to break, and no other."""
        broken = {law for law, verdict in note.laws.items() if verdict == Validity.INVALID}
        return note.verdict == Validity.INVALID and bool(broken) and broken <= {*self.violates}


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """How many of the runs that a law judged were INVALID; ``unknown`` more runs decided nothing."""

    invalid: int
    judged: int
    unknown: int

    @property
    def verdict(self) -> Validity:
        """The worst that is certain: UNKNOWN only where no run decided anything."""
        if self.invalid:
            return Validity.INVALID
        if self.judged:
            return Validity.VALID
        return Validity.UNKNOWN if self.unknown else Validity.NOT_APPLICABLE

    def __str__(self) -> str:
        """``–`` for no violation in any run, ``2/3`` for two in three, ``?`` for runs that decided nothing, ``n/a``."""
        if self.invalid:
            return f"{self.invalid}/{self.judged}"
        return "–" if self.judged else "?" if self.unknown else "n/a"


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Of several measured times, in seconds."""

    count: int
    p50_s: float
    max_s: float

    def __str__(self) -> str:
        return f"{self.p50_s:.1f} / {self.max_s:.1f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One cell. ``laws``: by name, in the order of verdicts; ``most``: the most violations of a kind in one run;
    ``by_policy``: in how many runs something was lost that the profile permits, and how much in all; ``without`` and
    ``recovery``: None where no run has one."""

    place: Place
    runs: Sequence[Note]
    laws: Mapping[str, Share]
    most: Mapping[str, int]
    without: Times | None
    recovery: Times | None
    by_policy: tuple[int, int] = (0, 0)

    @property
    def permitted(self) -> str:
        """``12 lost by policy in 2 of 3 runs``; "" for none."""
        runs, lost = self.by_policy
        return f"{lost:,} lost by policy in {runs} of {len(self.runs)} runs" if runs else ""

    @property
    def in_vain(self) -> bool:
        """Whether the experiment is made to break something, and no run that decided anything did."""
        decided = [note.verdict for note in self.runs if note.verdict != Validity.UNKNOWN]
        return bool(self.place.violates and decided) and Validity.INVALID not in decided

    def count(self, verdict: Validity) -> int:
        """Return how many runs ended with this verdict."""
        return sum(note.verdict == verdict for note in self.runs)

    @property
    def surprises(self) -> Sequence[str]:
        """What was not to be expected of these runs, in words; empty when all was."""
        bad = [note for note in self.runs if note.verdict == Validity.INVALID and not self.place.is_expected(note)]
        laws = sorted({law for note in bad for law, verdict in note.laws.items() if verdict == Validity.INVALID})
        known = [law for law in laws if law not in self.place.violates] or laws
        found = [f"{len(bad)} of {len(self.runs)} broke {', '.join(known)}"] if bad else []
        if unknown := self.count(Validity.UNKNOWN):
            found.append(f"{unknown} of {len(self.runs)} decided nothing")
        return [*found, *([f"none broke {', '.join(self.place.violates)}"] if self.in_vain else [])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """``laws``: those that some run could judge. ``faults``: by kind of fault, then by column. ``outdated``: notes of
    experiments that have changed since, or that are in the matrix no more. ``compares``: the columns are systems, else
    places where each experiment is run on its own system."""

    name: str
    rows: Sequence[str]
    columns: Sequence[str]
    laws: Sequence[str]
    lines: Sequence[Line]
    faults: Mapping[str, Mapping[str, Times]]
    outdated: int
    compares: bool = True

    def line(self, row: str, column: str) -> Line | None:
        return next((one for one in self.lines if (one.place.row, one.place.column) == (row, column)), None)


def table(name: str, places: Sequence[Place], notes: Sequence[Note], *, compares: bool = True) -> Table:
    """Reduce the notes to a table."""
    by_place: dict[tuple[str, str, str, str], list[Note]] = {}
    for note in notes:
        by_place.setdefault((note.row, note.column, note.on, note.digest), []).append(note)
    lines = [_line(one, by_place.pop((one.row, one.column, one.on, one.digest), [])) for one in places]
    counted = [note for line in lines for note in line.runs]
    laws = dict.fromkeys(law for note in counted for law in note.laws)
    columns = list(dict.fromkeys(one.column for one in places))
    return Table(
        name=name,
        rows=list(dict.fromkeys(one.row for one in places)),
        columns=columns,
        laws=[law for law in laws if any(note.laws.get(law) not in (None, "NOT APPLICABLE") for note in counted)],
        lines=lines,
        faults=_faults(counted, columns),
        outdated=sum(map(len, by_place.values())),
        compares=compares,
    )


def _line(place: Place, runs: Sequence[Note]) -> Line:
    laws = dict.fromkeys(law for note in runs for law in note.laws)
    return Line(
        place=place,
        runs=runs,
        laws={law: _share(note.laws.get(law, "NOT APPLICABLE") for note in runs) for law in laws},
        most=_most(runs),
        without=times(note.without_s for note in runs),
        recovery=times(note.recovered_s for note in runs if note.recovered_s is None or note.recovered_s >= 0),
        by_policy=(sum(note.by_policy > 0 for note in runs), sum(note.by_policy for note in runs)),
    )


def _share(verdicts: Iterable[str]) -> Share:
    counts = Counter(verdicts)
    return Share(
        invalid=counts["INVALID"], judged=counts["VALID"] + counts["INVALID"], unknown=counts["UNKNOWN"]
    )  # fmt: skip


def _most(runs: Sequence[Note]) -> dict[str, int]:
    most: dict[str, int] = {}
    for note in runs:
        for name, count in note.anomalies.items():
            most[name] = max(most.get(name, 0), count)
    return dict(sorted(most.items()))


def times(measured: Iterable[float | None]) -> Times | None:
    """Return what is known of these times; None where nothing is."""
    known = [one for one in measured if one is not None]
    return Times(count=len(known), p50_s=statistics.median(known), max_s=max(known)) if known else None


def _faults(notes: Sequence[Note], columns: Sequence[str]) -> dict[str, dict[str, Times]]:
    found: dict[str, dict[str, list[float]]] = {}
    for note in notes:
        for one in note.outages:
            found.setdefault(one.fault, {}).setdefault(note.column, []).append(one.without_s)
    return {
        fault: {column: known for column in columns if (known := times(found[fault].get(column, ())))}
        for fault in sorted(found)
    }


def as_object(table: Table) -> dict[str, Any]:
    """Return the table as ``--json`` prints it."""
    return {
        "name": table.name,
        "laws": list(table.laws),
        "cells": [_cell_object(line) for line in table.lines],
        "faults": {
            fault: {column: _times_object(times) for column, times in by_column.items()}
            for fault, by_column in table.faults.items()
        },
        "outdated": table.outdated,
    }


def _cell_object(line: Line) -> dict[str, Any]:
    place = line.place
    return {
        "row": place.row,
        "column": place.column,
        "on": place.on,
        "wanted": place.wanted,
        "lacks": place.lacks,
        "runs": [
            {"seed": note.seed, "verdict": note.verdict, "line": note.line or note.verdict, "run": note.run}
            for note in line.runs
        ],
        "laws": {
            law: {"verdict": str(share.verdict), "invalid": share.invalid, "judged": share.judged}
            for law, share in line.laws.items()
        },
        "surprises": list(line.surprises),
        "most": dict(line.most),
        "by_policy": {"runs": line.by_policy[0], "lost": line.by_policy[1]},
        "without_s": _times_object(line.without),
        "recovery_s": _times_object(line.recovery),
    }


def _times_object(times: Times | None) -> dict[str, Any] | None:
    return None if times is None else {"count": times.count, "p50": times.p50_s, "max": times.max_s}
