"""The page of a matrix: ``index.html`` in its folder. It needs no script and no network."""

from __future__ import annotations

from pathlib import Path

from chaos import guarded
from chaos.verdict import Validity
from reports.matrix import pictures
from reports.matrix.table import Line, Table
from reports.templates import REPORT, link, style, template

PAGE = "index.html"


def write(home: Path, runs: str, table: Table) -> Path:
    """Write the page and return its path; the runs are in the folder ``runs`` beside it. Raises
    :class:`chaos.errors.MachineError`."""
    return guarded.write(home / PAGE, page(home, runs, table))


def page(home: Path, runs: str, table: Table) -> str:
    """Return the page's text. Links are relative, to runs that have a report."""
    noted = [note for line in table.lines for note in line.runs]
    links = {note.run: _link(home, runs, note.run) for note in noted}

    def broken(line: Line, law: str) -> str:
        """Return where the report of the first run is that broke this law, of those that have one."""
        found = (links[note.run] for note in line.runs if note.laws.get(law) == Validity.INVALID)
        return next(filter(None, found), "")

    return template("matrix/matrix.html.j2").render(
        table=table,
        style=style(),
        groups=[(column, laws) for column in table.columns if (laws := _judged(table, column))],
        lines={(line.place.row, line.place.column): line for line in table.lines},
        times=pictures.times(table),
        runs=len(noted),
        wanted=sum(line.place.wanted for line in table.lines if not line.place.lacks),
        links=links,
        broken=broken,
    )


def _judged(table: Table, column: str) -> list[str]:
    """Return the laws that some run of a system could judge: the others would be empty columns."""
    mine = [line for line in table.lines if line.place.column == column]
    shown = [law for line in mine for law, share in line.laws.items() if share.verdict is not Validity.NOT_APPLICABLE]
    return [law for law in table.laws if law in shown]


def _link(home: Path, runs: str, run: str) -> str:
    """Return where the report of a run is, from the page; "" if it has none, and for what is not a name of a run."""
    return link(home, home / runs / run / REPORT) if run and Path(run).name == run else ""
