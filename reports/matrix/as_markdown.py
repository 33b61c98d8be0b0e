"""The table of a matrix as Markdown, and between two marks of a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from chaos.errors import BadInput
from chaos.verdict import Validity
from reports.markdown import code, escaped
from reports.matrix.table import Line, Table, Times, times

BEGIN, END = "<!-- made by: stormproof matrix -->\n", "<!-- end of the matrix -->\n"
NOTHING = "–"
COUNTED = (Validity.VALID, Validity.INVALID, Validity.UNKNOWN)


def markdown(table: Table, pictures: Mapping[str, str] | None = None) -> str:
    """Return all cells that were run, or can't be. ``pictures``: what each shows, and where it is, from the page."""
    parts = [f"![{escaped(shows)}]({place})\n" for shows, place in (pictures or {}).items()]
    parts.append("".join(_rows(_verdicts(table) if table.compares else _outcomes(table))))
    if table.faults:
        parts.append("".join(_rows(_faults(table))))
    return "\n".join(parts)


def between_marks(page: str, made: str, name: str) -> str:
    """Return the page with this between its two marks. Raises :class:`BadInput` for a page without them."""
    before, mark, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise BadInput(f"{name} must hold the lines {BEGIN.strip()} and {END.strip()}, between which the table goes")
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


def _outcomes(table: Table) -> Iterator[Sequence[str]]:
    """Yield a row for each cell, also for those that were not run: how its runs ended, and what explains that."""
    yield ["experiment", "on", "system", *map(str, COUNTED), "s a run, p50 / max", "what came out, and why"]
    for line in table.lines:
        systems = sorted({note.system for note in line.runs if note.system})
        nothing = "n/a" if line.place.lacks else NOTHING
        counts = [str(line.count(verdict)) for verdict in COUNTED] if line.runs else [nothing] * len(COUNTED)
        words = [line.place.lacks] if line.place.lacks else list(_findings(line)) or ["as expected"]
        seconds = times(note.seconds for note in line.runs)
        shown = "<br>".join(map(escaped, words if line.runs or line.place.lacks else ["not run yet"]))
        yield [
            *(code(line.place.row), escaped(line.place.column), escaped(", ".join(systems)) or NOTHING),
            *counts,
            *(str(seconds) if seconds else NOTHING, shown),
        ]


def _findings(line: Line) -> Iterator[str]:
    """Yield in words what is to be said of the runs of a cell: what was not expected first."""
    if line.surprises:
        yield f"NOT AS EXPECTED: {'; '.join(line.surprises)}"
    if line.most:
        broken = ", ".join(f"{law} in {share}" for law, share in line.laws.items() if share.invalid)
        yield f"broke {broken}; most in a run: {', '.join(f'{name} {count}' for name, count in line.most.items())}"
    for said in (
        next((f"seed {note.seed}: {note.cause}" for note in line.runs if note.cause), ""),
        next((f"{line.permitted}; seed {note.seed}: {note.line}" for note in line.runs if note.by_policy), ""),
        next((f"seed {note.seed}: {'; '.join(note.why)}" for note in line.runs if note.verdict == "UNKNOWN"), ""),
    ):
        if said:
            yield said


def _verdicts(table: Table) -> Iterator[Sequence[str]]:
    yield [
        *("experiment", "system", "runs"),
        *table.laws,
        *("violations, most in a run", "s without service, p50 / max", "s to recover, p50 / max"),
    ]
    for line in table.lines:
        if not line.runs and not line.place.lacks:
            continue
        yield [code(line.place.row), escaped(line.place.column), *_cells(table, line)]


def _cells(table: Table, line: Line) -> Iterator[str]:
    if line.place.lacks:
        yield from ["n/a"] * (1 + len(table.laws))
        yield escaped(line.place.lacks)
        yield from (NOTHING, NOTHING)
        return
    yield str(len(line.runs))
    for law in table.laws:
        yield str(line.laws[law]) if law in line.laws else ""
    most = ", ".join(f"{name} {count}" for name, count in line.most.items())
    yield "; ".join(filter(None, (most, line.permitted))) or NOTHING
    yield str(line.without or "")
    yield str(line.recovery or "")


def _faults(table: Table) -> Iterator[Sequence[str]]:
    yield ["s without service after a fault, p50 / max (times)", *table.columns]
    for fault, by_column in table.faults.items():
        yield [escaped(fault), *(_with_count(by_column.get(column)) for column in table.columns)]


def _with_count(times: Times | None) -> str:
    return f"{times} ({times.count})" if times else ""


def _rows(rows: Iterator[Sequence[str]]) -> Iterator[str]:
    head = next(rows)
    yield f"| {' | '.join(head)} |\n"
    yield f"| {' | '.join(['---'] * len(head))} |\n"
    for row in rows:
        yield f"| {' | '.join(row)} |\n"
