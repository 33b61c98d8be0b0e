"""What people see: verdicts as tables. Results go to stdout, all else to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from chaos.history.directory import verdict_json
from chaos.verdict import RunVerdict, Validity, sightings

COLOURS = {
    Validity.VALID: "green",
    Validity.INVALID: "red",
    Validity.UNKNOWN: "yellow",
    Validity.NOT_APPLICABLE: "bright_black",
}
#: Columns of output that goes to a file or to another program.
WIDTH = 160
#: So many findings of one run are explained on the terminal; the report has all.
EXPLAINED = 5


def out() -> Console:
    """For results. Colour only where a person looks; elsewhere lines are as wide as tables like."""
    terminal = sys.stdout.isatty()
    return Console(highlight=False, soft_wrap=not terminal, width=None if terminal else WIDTH)


def err() -> Console:
    """For progress, notes and errors."""
    return Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())


def print_json(value: object) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def run_object(verdict: RunVerdict) -> dict[str, Any]:
    """A run as ``--json`` prints it: ``verdict.json`` without the details of each law."""
    return {name: value for name, value in verdict_json(verdict).items() if name != "laws"}


def error_object(seed: int, error: str, directory: Path | None) -> dict[str, Any]:
    """A seed that the harness could not bring to a verdict, in the fields that :func:`run_object` has too."""
    where = "" if directory is None else str(directory)
    return {"run": where, "seed": seed, "verdict": "ERROR", "anomalies": {}, "why": [error]}


def not_run_object(seed: int) -> dict[str, Any]:
    """A seed that was asked for and never begun: the time was up, or the first failure ended the sweep."""
    return {"run": "", "seed": seed, "verdict": "NOT RUN", "anomalies": {}, "why": []}


def printable(text: str) -> str:
    """Values come from the system under test: nothing that a terminal would take for a command."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def validity(value: Validity) -> str:
    return f"[bold {COLOURS[value]}]{value}[/]"


def show_run(verdict: RunVerdict, console: Console) -> None:
    """One run: the laws, the first findings in words, and where to read on."""
    table = Table(box=None, pad_edge=False, show_edge=False)
    for title in ("law", "verdict", "evidence"):
        table.add_column(title, overflow="fold")
    for law in verdict.laws:
        evidence = ", ".join(f"{name} {count}" for name, count in law.counts.items())
        if law.validity is Validity.NOT_APPLICABLE:
            evidence = law.why
        table.add_row(law.law, validity(law.validity), escape(evidence))
    console.print(table)
    shown = 0
    for law in verdict.laws:
        for anomaly in law.anomalies:
            if anomaly.lawful or shown >= EXPLAINED:
                continue
            shown += 1
            console.print(f"[red]{anomaly.name}[/] ({law.law}): {escape(anomaly.explanation)}")
    more = sum(verdict.anomaly_counts().values()) - shown
    if shown and more > 0:
        console.print(f"… and {more} more findings in the report")
    for why in verdict.why:
        console.print(f"[yellow]unknown:[/] {escape(why)}")
    for fault in verdict.skipped_faults:
        console.print(f"skipped: {escape(fault)} (not supported by this deployment)")
    console.print(
        f"{validity(verdict.validity)}  {escape(verdict.run)}  (seed {verdict.seed}, judged by {verdict.engine})"
        f"{_reach(verdict)}"
    )
    if verdict.not_judged:
        console.print(f"not judged: {escape('; '.join(verdict.not_judged))}")
    report = Path(verdict.run) / "report.html"
    if report.exists():
        console.print(f"report: {escape(str(report))}")


def _reach(verdict: RunVerdict) -> str:
    """What a run did not reach of its goals, for the verdict's line."""
    if verdict.not_reached:
        return f"  [yellow]not reached: {escape(', '.join(verdict.not_reached))}[/]"
    return f"  all {len(verdict.reached)} goals reached" if verdict.reached else ""


def show_sweep(verdicts: Sequence[RunVerdict], errors: Sequence[tuple[int, str]], asked: int, console: Console) -> None:
    """Many runs: every seed that isn't VALID, then how many of each kind."""
    table = Table(box=None, pad_edge=False, show_edge=False)
    for title in ("seed", "verdict", "found", "run"):
        table.add_column(title, overflow="fold")
    for verdict in verdicts:
        if verdict.validity is not Validity.VALID:
            found = ", ".join(f"{name} {count}" for name, count in verdict.anomaly_counts().items())
            first_why = verdict.why[0] if verdict.why else ""
            table.add_row(
                str(verdict.seed), validity(verdict.validity), escape(found or first_why), escape(verdict.run)
            )
    for seed, error in errors:
        table.add_row(str(seed), "[magenta]ERROR[/]", escape(error.partition("\n")[0]), "")
    if table.row_count:
        console.print(table)
    _show_goals(verdicts, console)
    counts = {value: sum(verdict.validity is value for verdict in verdicts) for value in Validity}
    words = [f"{counts[value]} {validity(value)}" for value in (Validity.VALID, Validity.INVALID, Validity.UNKNOWN)]
    if errors:
        words.append(f"{len(errors)} [bold magenta]ERROR[/]")
    not_run = asked - len(verdicts) - len(errors)
    if not_run:
        words.append(f"{not_run} not run")
    console.print(f"{asked} seeds: {', '.join(words)}")


def _show_goals(verdicts: Sequence[RunVerdict], console: Console) -> None:
    """Each goal of the experiment, and in how many of the runs it was reached."""
    found = sightings(verdicts)
    if not found:
        return
    table = Table(box=None, pad_edge=False, show_edge=False)
    table.add_column("goal", overflow="fold")
    table.add_column("reached by", overflow="fold")
    for goal, runs in found.items():
        table.add_row(escape(goal), f"{runs} of {len(verdicts)}" if runs else f"[yellow]none of {len(verdicts)}[/]")
    console.print(table)
