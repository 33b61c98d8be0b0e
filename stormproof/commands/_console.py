"""What people see, and tables of many verdicts. Results go to stdout, all else to stderr.

This is the one place where texts leave for a terminal. They come from the system under test and from files of
strangers, so here each of them is made printable, whatever part of the program shows it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from chaos.verdict import Validity
from reports.printable import document, json_text
from reports.printable import printable as printable
from reports.sweeps.row import Row, reached

COLOURS = {
    Validity.VALID: "green",
    Validity.INVALID: "red",
    Validity.UNKNOWN: "yellow",
    Validity.NOT_APPLICABLE: "bright_black",
}
#: Columns of output that goes to a file or to another program.
WIDTH = 160


class _Screen(Console):
    """Shows each text that it is given as one line, or as one cell of a table."""

    def render_str(self, text: str, **style: Any) -> Text:
        shown = super().render_str(text, **style)
        shown.plain = printable(shown.plain)
        return shown


def out() -> Console:
    """Return the console for results. Colour only where a person looks; elsewhere lines are as wide as tables like."""
    terminal = sys.stdout.isatty()
    return _Screen(highlight=False, emoji=False, soft_wrap=not terminal, width=None if terminal else WIDTH)


def err() -> Console:
    """Return the console for progress, notes and errors."""
    return _Screen(stderr=True, highlight=False, emoji=False, soft_wrap=not sys.stderr.isatty())


def say(line: object, *, err: bool = False) -> None:
    """Print one line as it is, so that it can be copied: neither wrapped nor coloured."""
    click.echo(printable(str(line)), err=err)


def say_document(text: str) -> None:
    """Print a text of several lines, which ends its last one itself."""
    click.echo(document(text), nl=False)


def complain(text: str) -> None:
    """Print errors, one in each line."""
    for line in text.splitlines() or [""]:
        err().print(f"error: {line}", markup=False)


def complain_of(text: str) -> None:
    """Print one error. What follows its first line, such as the end of a program's log, is set in: it is no line of
    ours, whatever stands there."""
    first, *more = text.splitlines() or [""]
    err().print(f"error: {first}", markup=False)
    for line in more:
        err().print(f"  {line}", markup=False)


def print_json(value: object, *, indent: int | None = 2) -> None:
    """Print a value; with ``indent=None`` on one line, at once."""
    sys.stdout.write(json_text(value, indent=indent) + "\n")
    if indent is None:
        sys.stdout.flush()


def validity(value: Validity) -> str:
    return f"[bold {COLOURS[value]}]{value}[/]"


def show_sweep(rows: Sequence[Row], errors: Sequence[tuple[int, str]], asked: int, console: Console) -> None:
    """Show many runs: every seed that isn't VALID, then how many of each kind. ``errors``: seeds without a row, and
    why."""
    table = Table(box=None, pad_edge=False, show_edge=False)
    for title in ("seed", "verdict", "found", "run"):
        table.add_column(title, overflow="fold")
    judged = [row for row in rows if row.verdict in COLOURS]
    for row in judged:
        if row.failed:
            found = ", ".join(f"{name} {count}" for name, count in row.anomalies.items())
            first_why = row.why[0] if row.why else ""
            run = str(row.told.get("run", ""))
            table.add_row(str(row.seed), validity(Validity(row.verdict)), escape(found or first_why), escape(run))
    failed = [*errors, *((row.seed, row.why[0] if row.why else "") for row in rows if row.verdict not in COLOURS)]
    for seed, error in sorted(failed):
        table.add_row(str(seed), "[magenta]ERROR[/]", escape(error.partition("\n")[0]), "")
    if table.row_count:
        console.print(table)
    _show_goals(judged, console)
    counts = {value: sum(row.verdict == value for row in judged) for value in Validity}
    words = [f"{counts[value]} {validity(value)}" for value in (Validity.VALID, Validity.INVALID, Validity.UNKNOWN)]
    if lossy := sum(row.verdict == Validity.VALID and row.by_policy > 0 for row in judged):
        lost = sum(row.by_policy for row in judged if row.verdict == Validity.VALID)
        words[0] += f" ([bold yellow]{lossy} of them with {lost:,} lost by policy[/])"
    if failed:
        words.append(f"{len(failed)} [bold magenta]ERROR[/]")
    not_run = asked - len(rows) - len(errors)
    if not_run:
        words.append(f"{not_run} not run")
    console.print(f"{asked} seeds: {', '.join(words)}")


def _show_goals(rows: Sequence[Row], console: Console) -> None:
    """Show each goal of the experiment, and in how many of the runs it was reached."""
    found = reached(rows)
    if not found:
        return
    table = Table(box=None, pad_edge=False, show_edge=False)
    table.add_column("goal", overflow="fold")
    table.add_column("reached by", overflow="fold")
    for goal, runs in found.items():
        table.add_row(escape(goal), f"{runs} of {len(rows)}" if runs else f"[yellow]none of {len(rows)}[/]")
    console.print(table)
