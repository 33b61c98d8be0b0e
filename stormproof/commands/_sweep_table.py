"""A sweep on the terminal: verdicts, causes of failures, what faults hit, and what more seeds would show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from reports.sweeps import PAGE
from stormproof.commands import _console

if TYPE_CHECKING:
    from reports.sweeps.causes import SharedCause
    from reports.sweeps.table import Covered
    from reports.sweeps.table import Table as SweepTable
    from stormproof.sweeping.sweep import Sweep

#: So many causes, and ways in which each showed and events before it, are shown on the terminal; the page has all.
CAUSES, WAYS, EVENTS = 10, 3, 3
#: And so many faults: those that hit most often.
FAULTS = 12
#: Shades of a cell, from never to most often.
SHADES = "·░▒▓█"


def show(found: Sweep, table: SweepTable, shrunk: dict[tuple[int, int], str]) -> None:
    """Show the table of a sweep. ``shrunk``: the small experiments of examples, by file and seed."""
    from reports.sweeps.table import causes_in_words

    console = _console.out()
    for name, verdicts, goals in zip(table.files, table.verdicts, table.reached, strict=True):
        words = [f"{count} {verdict}" for verdict, count in verdicts.items()]
        missed = [goal for goal, runs in goals.items() if not runs]
        words += [f"never reached: {', '.join(missed)}"] if missed else []
        console.print(f"{name}: {', '.join(words) or 'nothing ran'}", markup=False)
    for (_, seed), error in sorted(found.errors.items())[:CAUSES]:
        console.print(f"seed {seed} has no row: {error}", markup=False)
    if found_causes := causes_in_words(table):
        console.print(found_causes)
    for cause in table.causes[:CAUSES]:
        _show_cause(found, table, cause, shrunk.get(cause.example, ""))
    if len(table.causes) > CAUSES:
        console.print(f"… and {len(table.causes) - CAUSES} more causes on the page")
    _show_heat(table.covered)
    for one in table.saturation:
        console.print(
            f"{table.files[one.file]}: {one.states} abstract states, new in each 100 seeds:"
            f" {', '.join(map(str, one.new)) or 'none'}; chance that the next seed sees a new one: about"
            f" {100 * one.single.value:.1f} %, at most {100 * one.bound:.1f} %",
            markup=False,
        )
    slow = ", ".join(f"{row.seed} ({row.seconds:.1f} s)" for row in table.slowest)
    console.print(f"slowest seeds: {slow or 'none'}")
    console.print(f"{len(table.rows)} of {table.asked} runs; table {table.digest[:16]}")
    console.print(f"page: {escape(str(found.directory / PAGE))}")


def _show_heat(covered: Sequence[Covered]) -> None:
    """Show how often each fault hit anything at which moment."""
    from reports.sweeps.observed import Moment
    from reports.sweeps.table import by_fault, heat

    if not covered:
        return
    console, faults = _console.out(), by_fault(covered)
    most = max(max(counts.values()) for counts in faults.values())
    table = Table(box=None, pad_edge=False, show_edge=False)
    table.add_column("faults hit", overflow="fold")
    for moment in Moment:
        table.add_column(moment, justify="right", overflow="fold")
    often = sorted(faults, key=lambda fault: (-faults[fault].total(), fault))
    for fault in often[:FAULTS]:
        counts = faults[fault]
        shades = [SHADES[math.ceil((len(SHADES) - 1) * heat(counts[moment], most))] for moment in Moment]
        marks = shades if console.encoding.startswith("utf") else [""] * len(shades)
        cells = (f"{mark} {counts[moment] or '':>4}" for mark, moment in zip(marks, Moment, strict=True))
        table.add_row(escape(fault), *cells)
    console.print(table)
    if len(often) > FAULTS:
        console.print(f"… and {len(often) - FAULTS} more faults on the page")


def _show_cause(found: Sweep, table: SweepTable, cause: SharedCause, shrunk: str) -> None:
    from reports.sweeps.table import words

    console = _console.out()
    early = f", {cause.faultless} before any fault" if cause.faultless else ""
    title = f": {escape(cause.title)} (seed {cause.example[1]})" if cause.title else ""
    console.print(f"[red]{cause.overall.hits} of {cause.overall.tries} runs[/]{early}{title}")
    if cause.first and cause.first.story:
        decided = f", decided by {cause.first.decided_by}" if cause.first.decided_by else ""
        console.print(f"  {cause.first.story}{decided}", markup=False)
    for signature in cause.signatures[:WAYS]:
        console.print(f"  {words(signature)}", markup=False)
    if len(cause.signatures) > WAYS:
        console.print(f"  … and {len(cause.signatures) - WAYS} more ways in which it showed")
    _show_candidates(cause)
    row = found.rows[cause.example]
    run = f": {found.directory / row.run}" if row.run else ""
    console.print(f"  example: seed {row.seed} of {table.files[row.file]}{run}", markup=False)
    if shrunk:
        console.print(f"  shrunk: {shrunk}", markup=False)


def _show_candidates(cause: SharedCause) -> None:
    """Show what came before it more often than by chance."""
    if not cause.candidates:
        return
    before = Table(box=None, pad_edge=False, show_edge=False)
    for title in ("  what came before", "of the failures", "of the runs with it", "VALID with it"):
        before.add_column(title, overflow="fold")
    for one in cause.candidates[:EVENTS]:
        failures, runs = one.event_given_failure, one.failure_given_event
        before.add_row(
            f"  {escape(one.event)}",
            f"{100 * failures.value:.0f} %",
            f"{100 * runs.value:.0f} % ({100 * runs.low:.0f} to {100 * runs.high:.0f})",
            "none" if one.passing is None else f"seed {one.passing[1]}",
        )
    _console.out().print(before)
