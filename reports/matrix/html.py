"""The page of a matrix: ``index.html`` in its folder. It needs no script and no network."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from jinja2 import ChainableUndefined, Environment, PackageLoader
from markupsafe import Markup

from chaos import guarded
from chaos.errors import MachineError
from reports.matrix import pictures
from reports.matrix.table import Table

PAGE = "index.html"
REPORT = "report.html"


def write(home: Path, runs: str, table: Table) -> Path:
    """Write the page and return its path; the runs are in the folder ``runs`` beside it. Raises
    :class:`MachineError`."""
    path = home / PAGE
    try:
        guarded.replace(path, page(home, runs, table).encode())
    except OSError as error:
        raise MachineError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def page(home: Path, runs: str, table: Table) -> str:
    """Return the page's text. Links are relative, to runs that have a report."""
    environment = Environment(
        loader=PackageLoader("reports", "."), autoescape=True, undefined=ChainableUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    style = (Path(__file__).parent.parent / "run_report" / "report.css").read_text("utf-8")
    noted = [note for line in table.lines for note in line.runs]
    return environment.get_template("matrix/matrix.html.j2").render(
        table=table,
        style=Markup(style),  # ours
        grid=pictures.grid(table),
        times=pictures.times(table),
        runs=len(noted),
        wanted=sum(line.place.wanted for line in table.lines if not line.place.lacks),
        links={note.run: _link(home, runs, note.run) for note in noted},
    )


def _link(home: Path, runs: str, run: str) -> str:
    """Return where the report of a run is, from the page; "" if it has none."""
    if not run or Path(run).name != run or not (home / runs / run / REPORT).is_file():
        return ""
    return f"{runs}/{quote(os.fsencode(run), safe='')}/{REPORT}"
