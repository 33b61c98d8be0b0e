"""What people see: verdicts as tables. Results go to stdout, all else to stderr.

This is the one place where texts leave for a terminal. They come from the system under test and from files of
strangers, so here each of them is made printable, whatever part of the program shows it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from chaos.history.verdict_json import verdict_json
from chaos.verdict import Anomaly, RunVerdict, Validity
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
#: So many kinds of findings of one run are explained on the terminal, one of each; the report has all.
EXPLAINED = 5


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


def run_object(verdict: RunVerdict) -> dict[str, Any]:
    """Return a run as ``--json`` prints it: ``verdict.json`` without the details of each law."""
    return {name: value for name, value in verdict_json(verdict).items() if name != "laws"}


def validity(value: Validity) -> str:
    return f"[bold {COLOURS[value]}]{value}[/]"


def show_run(verdict: RunVerdict, console: Console) -> None:
    """Show one run: the laws, the first finding of each kind in words, and where to read on."""
    table = Table(box=None, pad_edge=False, show_edge=False)
    for title in ("law", "verdict", "evidence"):
        table.add_column(title, overflow="fold")
    for law in verdict.laws:
        evidence = ", ".join(f"{name} {count}" for name, count in law.counts.items())
        if law.validity is Validity.NOT_APPLICABLE:
            evidence = law.why
        evidence = "; ".join((*(one.words for one in verdict.permitted if one.law == law.law), evidence))
        table.add_row(law.law, validity(law.validity), escape(evidence))
    console.print(table)
    _show_findings(verdict, console)
    for why in verdict.why:
        console.print(f"[yellow]unknown:[/] {escape(why)}")
    for fault in verdict.skipped_faults:
        console.print(f"skipped: {escape(fault)} (not supported by this deployment)")
    by_whom = f"(seed {verdict.seed}, judged by {verdict.engine})"
    line = f"{validity(verdict.validity)}{_qualified(verdict)}"
    console.print(f"{line}  {escape(verdict.run)}  {by_whom}{_reach(verdict)}")
    if verdict.not_judged:
        console.print(f"not judged: {escape('; '.join(verdict.not_judged))}")
    report = Path(verdict.run) / "report.html"
    if report.exists():
        console.print(f"report: {escape(str(report))}")


def _show_findings(verdict: RunVerdict, console: Console) -> None:
    kinds: dict[tuple[str, str], list[Anomaly]] = {}
    for law in verdict.laws:
        for anomaly in law.anomalies:
            if not anomaly.lawful:
                kinds.setdefault((law.law, anomaly.name), []).append(anomaly)
    for (law_name, name), found in list(kinds.items())[:EXPLAINED]:
        count = sum(anomaly.count for anomaly in found)
        times = f", the first of {count}" if count > 1 else ""
        console.print(f"[red]{escape(name)}[/] ({escape(law_name)}{times}): {escape(found[0].explanation)}")
    left = [name for _, name in kinds][EXPLAINED:]
    if left:
        console.print(f"also found: {escape(', '.join(dict.fromkeys(left)))}; the report has all")


def _qualified(verdict: RunVerdict) -> str:
    """Return what has to be said with the verdict, in another colour than a success has."""
    return "".join(f"; [bold yellow]{escape(words)}[/]" for words in verdict.qualifiers)


def _reach(verdict: RunVerdict) -> str:
    """Return what a run did not reach of its goals, for the verdict's line."""
    if verdict.not_reached:
        return f"  [yellow]not reached: {escape(', '.join(verdict.not_reached))}[/]"
    return f"  all {len(verdict.reached)} goals reached" if verdict.reached else ""


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
