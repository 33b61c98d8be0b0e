"""``stormproof explain``: what caused a violation, and when it became inevitable."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chaos.errors import BadInput
from chaos.history import directory, opening
from stormproof.commands import _console
from stormproof.commands._options import json_option, out_option
from stormproof.commands._rows import show_rows

if TYPE_CHECKING:
    from reports.moments.curve import Curve

#: Fewer moments show no curve.
FEWEST = 3


@click.command()
@click.argument("run", default=directory.LATEST)
@click.argument("anomaly", default="1")
@click.option("--moments", type=click.IntRange(FEWEST), metavar="N",
              help="Replay a simulated run to at most N moments: when did it become inevitable?")  # fmt: skip
@click.option("--tries", type=click.IntRange(1), metavar="K", help="With --moments: so many tries at each (10).")
@click.option("--rows", metavar="N|A..B,…", help="Print these rows of the history instead, of any run.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print it as Markdown, with a command for each arrow.")
@click.option("--svg", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Write it as a picture, and print where it is.")  # fmt: skip
@out_option
@json_option
def explain(
    run: str, anomaly: str, moments: int | None, tries: int | None, rows: str | None, as_markdown: bool,
    svg: Path | None, out: Path, as_json: bool,
) -> None:  # fmt: skip
    """Show what caused one violation of an INVALID RUN (default: the latest), as a sequence.

    ANOMALY is the number of the violation in the order of the verdict (default: 1), or the name of its kind, such as
    `lost`. The sequence goes back from the rows that the law names, through messages, syncs, decisions of controllers,
    crashes and faults, as far as rows link them; each line names its rows, and the method of the nodes' code that
    decided it, where that is known. With --moments, a simulated run is instead replayed to several moments, and goes
    on from each with fresh randomness: how often the violation comes again shows when it became inevitable. The curve
    is kept in the run, and its report shows it.

    With --rows it prints rows of the history by their numbers, as reports name them, or draws them with --svg; times
    are seconds since the load began. Exit codes: 0, or 3 for bad input.
    """
    if sum((as_markdown, as_json, svg is not None)) > 1:
        raise BadInput("only one of --markdown, --json and --svg can be asked for")
    if rows is not None:
        if as_markdown or moments is not None:
            raise BadInput("--rows prints rows: leave out --markdown and --moments")
        show_rows(run, out, rows.split(","), as_json=as_json, svg=svg)
        return
    path = opening.resolve_one(run, out)
    if moments is None:
        if tries is not None:
            raise BadInput("--tries is for --moments: say how many moments, such as --moments 20")
        _sequence(path, anomaly, as_markdown, as_json, svg)
    elif as_markdown:
        raise BadInput("--moments has no Markdown; ask for --json or --svg")
    else:
        curve = _measured(path, anomaly, moments, tries)
        _curve(curve, as_json, svg)
        _keep(curve)


def _sequence(run: Path, anomaly: str, as_markdown: bool, as_json: bool, svg: Path | None) -> None:
    from reports.explanation.as_text import as_object, markdown, text
    from reports.explanation.diagram import write
    from reports.explanation.sequence import explain as find

    sequence = find(run, anomaly)
    if as_json:
        _console.print_json(as_object(sequence))
    elif as_markdown:
        _console.say_document(markdown(sequence))
    elif svg is not None:
        _console.say(write(svg, sequence))
    else:
        for line in text(sequence):
            _console.say(line)


def _measured(run: Path, anomaly: str, moments: int, tries: int | None) -> Curve:
    from stormproof.moments.search import TRIES, case_of, measure

    console = _console.err()
    with tempfile.TemporaryDirectory(prefix="stormproof-moments-") as scratch:
        case = case_of(run, anomaly, Path(scratch))
        if not console.is_terminal:
            return measure(case, Path(scratch), moments=moments, tries=tries or TRIES)
        with console.status("replaying the run") as status:
            return measure(
                case,
                Path(scratch),
                moments=moments,
                tries=tries or TRIES,
                on_progress=lambda done, of: status.update(f"{done} of at most {of} moments measured"),
            )


def _keep(curve: Curve) -> None:
    """Keep the curve in the run, and in its report if it has one."""
    from reports import render
    from reports.moments.kept import keep

    if curve.moments:
        keep(curve)
        if (curve.run / "report.html").exists():
            _console.say(f"report: {render(curve.run)}", err=True)


def _curve(curve: Curve, as_json: bool, svg: Path | None) -> None:
    from reports.moments.as_text import as_object, text
    from reports.moments.picture import write

    if as_json:
        _console.print_json(as_object(curve))
    elif svg is not None:
        _console.say(write(svg, curve))
    else:
        for line in text(curve):
            _console.say(line)
