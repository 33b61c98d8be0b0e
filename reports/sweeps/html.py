"""The page of a sweep: ``index.html`` in its directory. It needs no script and no network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from chaos import guarded
from chaos.verdict import Validity
from reports.run_report.html import coded
from reports.run_report.shrunk import SUMMARY
from reports.sweeps import PAGE
from reports.sweeps.observed import Moment
from reports.sweeps.row import Row
from reports.sweeps.saturation import STEP
from reports.sweeps.table import Table, causes_in_words, heat, words
from reports.templates import REPORT, link, style, template

#: The experiment that a run was shrunk to (docs/explain.md).
EXPERIMENT = "minimal.yaml"
#: Seeds in the grid; of more than that the grid would say nothing.
GRID = 20_000


def write(directory: Path, table: Table) -> Path:
    """Write the page and return its path. Raises :class:`chaos.errors.MachineError`."""
    return guarded.write(directory / PAGE, page(directory, table))


def page(directory: Path, table: Table) -> str:
    """Return the page's text. Links are relative, to runs that have a report."""
    by_key = {row.key: row for row in table.rows}
    return template("sweeps/sweep.html.j2").render(
        title=" and ".join(table.files),
        table=table,
        style=style(),
        grids=_grids(table),
        links={row.key: link(directory, directory / row.run / REPORT) for row in table.rows if row.run},
        small={cause.example: _small(directory, by_key[cause.example]) for cause in table.causes},
        colours={str(value): str(value) for value in (Validity.VALID, Validity.INVALID, Validity.UNKNOWN)},
        moments=[str(one) for one in Moment],
        heat=heat,
        most=max((count for one in table.covered for count in one.moments.values()), default=0),
        step=STEP,
        words=words,
        causes=causes_in_words(table),
        coded=coded,
    )


def _grids(table: Table) -> Sequence[tuple[str, Sequence[Row]]]:
    shown = table.rows[:GRID]
    return [(name, [row for row in shown if row.file == number]) for number, name in enumerate(table.files)]


def _small(directory: Path, row: Row) -> tuple[str, str] | None:
    """Return what a run was shrunk to, where that was done: the links to the report and to the experiment. None
    otherwise."""
    run = directory / row.run
    for summary in sorted(run.parent.glob(f"{run.name}-shrunk*/{SUMMARY}"), reverse=True) if row.run else ():
        reports = [link(directory, path) for path in sorted(summary.parent.glob(f"*/{REPORT}"))]
        experiment = link(directory, summary.with_name(EXPERIMENT))
        if reports and experiment:
            return reports[0], experiment
    return None
