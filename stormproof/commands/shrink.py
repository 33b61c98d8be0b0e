"""``stormproof shrink``: from a failing run to a small experiment that fails in the same way."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape
from rich.table import Table

from chaos.errors import MachineError
from chaos.history import opening
from stormproof.commands import _console
from stormproof.commands._options import json_option, out_option
from stormproof.commands.run import Duration

if TYPE_CHECKING:
    from stormproof.shrinking.shrink import Best, OnProgress, Progress

#: Most runs need less; a user who wants the very end of it says so.
WITHIN = "5m"
#: How often a candidate is run, where no run comes again as it was.
TIMES = 3
#: What the table shows of both runs.
ROWS = ("operations", "messages", "faults", "nodes", "seconds")


@click.command()
@click.argument("run")
@click.option(
    "--within", type=Duration(), default=WITHIN, show_default=True, help="Stop after this time with the best so far."
)
@click.option("--law", default="", metavar="NAME", help="Keep the failure of this law; otherwise the report's first.")
@click.option(
    "--times",
    type=click.IntRange(1, 100),
    default=TIMES,
    show_default=True,
    help="Of a run that is not simulated: run each candidate so often.",
)
@out_option
@json_option
def shrink(run: str, within: float, law: str, times: int, out: Path, as_json: bool) -> None:
    """Make a failing RUN small: a directory, the name of a run in --out, or `latest`.

    Leaves out and lessens faults, load, nodes, time and options as long as the same law is broken in the same way by
    the same kind of cause. Writes minimal.yaml, which replays the small run, a test of it and its report into a new
    directory beside the run. Of a run on processes, which never comes again as it was, only the schedule and the load
    are made smaller, and each candidate is run several times. Ctrl-C keeps the best so far. Exit codes: 0, or 3 for a
    run that can't be shrunk.
    """
    from stormproof.shrinking import minimal
    from stormproof.shrinking.shrink import Stop, replayed
    from stormproof.shrinking.shrink import shrink as search

    began = time.monotonic()
    path = opening.resolve_one(run, out)
    with tempfile.TemporaryDirectory(prefix="stormproof-shrink-") as scratch:
        with _progress(within) as follow:
            case = replayed(path, Path(scratch), law, times)
            place = minimal.make(path)
            left_s = within - (time.monotonic() - began)
            best = search(
                case,
                Path(scratch),
                within_s=left_s,
                on_progress=follow,
                on_better=lambda document, trial: minimal.write(place, case, document, trial),
            )
    try:
        if best.stop is Stop.BROKEN:
            raise MachineError(best.error)
        summary = minimal.finish(place, case, best)
    except MachineError as error:
        raise MachineError(f"{error}; {minimal.left(place)}") from error
    if as_json:
        _console.print_json(summary)
    else:
        _show(summary, best)


def _show(summary: dict[str, Any], best: Best) -> None:
    """Show both runs side by side, and where to read on."""
    console = _console.out()
    table = Table(box=None, pad_edge=False, show_edge=False)
    for title in ("", "before", "after", "less"):
        table.add_column(title, justify="left" if not title else "right")
    for name in ROWS:
        before, after = summary["before"][name], summary["after"][name]
        less = f"{100 * (before - after) / before:.0f} %" if before else ""
        table.add_row(name, f"{before:,g}", f"{after:,g}", less)
    console.print(table)
    signature = summary["signature"]
    console.print(f"[red]{', '.join(signature['anomalies'])}[/] ({signature['law']}); cause: {signature['cause']}")
    if "rate" in summary:
        before, after = summary["rate"]["before"], summary["rate"]["after"]
        console.print(f"runs that failed so: {before[0]} of {before[1]} before, {after[0]} of {after[1]} after")
    for free in summary["any"]:
        console.print(f"any: {free}", markup=False)
    console.print(f"{best.stop}: {best.tried} experiments tried in {best.seconds:.0f} s", markup=False)
    console.print(f"test: {escape(summary['test'])}")
    console.print(f"report: {escape(summary['recorded'])}/report.html")
    console.print(f"experiment: {escape(summary['minimal'])}")
    _console.say(summary["replay"])


@contextmanager
def _progress(within_s: float) -> Iterator[OnProgress]:
    """Show a line that follows the search; nothing at all unless stderr is a terminal."""
    console, began = _console.err(), time.monotonic()
    if not console.is_terminal:
        yield lambda progress: None
        return
    with console.status("replaying the run") as status:

        def follow(progress: Progress) -> None:
            left_s = max(0.0, within_s - (time.monotonic() - began))
            size = progress.size
            status.update(
                f"round {progress.round}, {progress.number} of {progress.passes}: {progress.name};"
                f" {progress.tried} tried; now {size.operations:,} operations, {size.faults} faults,"
                f" {size.nodes} nodes, {size.seconds:g} s; at most {left_s:.0f} s left"
            )

        yield follow
