"""``stormproof runs``: the runs of a folder, and what was found in each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.markup import escape
from rich.table import Table

from chaos.errors import BadInput
from chaos.verdict import Validity
from reports import sweeps as of_sweeps
from reports.index.overview import RunLine, overview, readable, sweeps
from stormproof.commands import _console
from stormproof.commands._options import json_option

#: A table with all columns needs so many characters; what a narrower one leaves out also stands in the run's name.
WIDE = 110


@click.command()
@click.argument("folder", default=Path("runs"), type=click.Path(path_type=Path), metavar="[DIR]")
@click.option("--html", "as_html", is_flag=True, help="Write DIR/index.html, which links to the reports.")
@json_option
def runs(folder: Path, as_html: bool, as_json: bool) -> None:
    """List the runs in DIR (default: runs), the oldest first, with what was found in each.

    A run without a verdict is RUNNING, UP, CUT SHORT, FAILED, NOT JUDGED or DAMAGED. The column `load` is how long the
    load was to last; `found` names the violated laws, or else why the verdict is unknown.
    """
    if as_html and as_json:
        raise BadInput("--html and --json exclude each other")
    lines = overview(folder)
    if as_html:
        from reports.index import html

        _console.say(html.write(folder, lines))
    elif as_json:
        _console.print_json([_object(line) for line in lines])
    else:
        _show(folder, lines)


def _show(folder: Path, lines: Sequence[RunLine]) -> None:
    if lines:
        console = _console.out()
        console.print(_table(lines, wide=console.width >= WIDE))
    else:
        _console.say(f"there is no run in {folder}")
    for sweep in sweeps(folder):
        _console.say(f"sweep: {folder / sweep / of_sweeps.PAGE}")


def _object(line: RunLine) -> dict[str, Any]:
    """Return a run as JSON; null is what isn't known."""
    return {
        "run": readable(str(line.directory)),
        "name": line.name,
        "experiment": line.experiment,
        "deployment": line.deployment,
        "mutant": line.mutant,
        "seed": line.seed if line.seed >= 0 else None,
        "started": line.started,
        "duration_s": line.duration_s if line.duration_s >= 0 else None,
        "verdict": str(line.verdict),
        "violated": list(line.violated),
        "anomalies": dict(line.anomalies),
        "by_policy": line.by_policy,
        "why": list(line.why),
    }


def _table(lines: Sequence[RunLine], *, wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False)
    for title in ("run", *(("experiment", "on", "seed", "started (UTC)", "load") if wide else ("on",))):
        table.add_column(title, overflow="fold")
    table.add_column("verdict", overflow="fold")
    table.add_column("found", overflow="fold")
    for line in lines:
        experiment = f"{line.experiment} ({line.mutant})" if line.mutant else line.experiment
        seed = str(line.seed) if line.seed >= 0 else ""
        load = f"{line.duration_s:g} s" if line.duration_s >= 0 else ""
        middle = (experiment, line.deployment, seed, line.date, load) if wide else (line.deployment,)
        known = line.verdict in list(Validity)
        verdict = _console.validity(Validity(line.verdict)) if known else f"[bold magenta]{line.verdict}[/]"
        words = (line.name, *middle, line.found)
        table.add_row(*map(escape, words[:-1]), verdict, escape(words[-1]))
    return table
