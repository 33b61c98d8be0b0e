"""``stormproof diff``: two runs side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape
from rich.table import Table

from chaos.errors import BadInput
from chaos.history import opening
from chaos.verdict import Validity
from stormproof.commands import _console
from stormproof.commands._options import json_option, out_option
from stormproof.commands._rows import row_lines, row_object
from stormproof.commands.report import open_in_browser

if TYPE_CHECKING:
    from reports.comparison.pair import Pair, Parting, Side

#: How the two are shown: as text on the terminal, or as a page.
TEXT, HTML = "text", "html"


@click.command()
@click.argument("a")
@click.argument("b")
@click.option("--as", "form", type=click.Choice((TEXT, HTML)), default=None,
              help="A page with both runs on one time axis, or text.  [default: text, with --open html]")  # fmt: skip
@click.option("--open", "open_it", is_flag=True, help="Open the page in a browser.")
@out_option
@json_option
def diff(a: str, b: str, form: str | None, open_it: bool, out: Path, as_json: bool) -> None:
    """Compare two runs: the verdict of each promise, violations, availability and latency during the load, and of two
    simulated histories the first row in which they differ.

    Rows of the tables that begin with * differ. The page is `diff-B.html` in the directory of A. The exit code is 0
    whether the runs differ or not.
    """
    from reports.comparison.pair import pair

    if open_it and form == TEXT:
        raise BadInput("--open is for the page: leave out --as, or take --as html")
    first, second = opening.resolve_one(a, out), opening.resolve_one(b, out)
    found = pair(first, second)
    for side in (found.a, found.b):
        for problem in side.damage:
            _console.err().print(f"note: {problem}", markup=False)
    written = _write_page(first, second, found) if open_it or form == HTML else None
    if as_json:
        _console.print_json(_object(found) | ({"page": str(written)} if written else {}))
    elif written:
        _console.say(written)
    else:
        _show(found)
    if open_it and written:
        open_in_browser(written)


def _write_page(first: Path, second: Path, found: Pair) -> Path:
    from reports.comparison import html

    return html.write(first, second, found)


def _show(found: Pair) -> None:
    from reports.comparison.tables import tables

    console = _console.out()
    for title, rows in tables(found):
        table = Table(box=None, pad_edge=False, show_edge=False)
        for heading in (f"  {title}", "A", "B"):
            table.add_column(heading, overflow="fold")
        for name, one, other in rows:
            words = (f"{'*' if one != other else ' '} {name}", one, other)
            table.add_row(*map(_coloured, words))
        if table.row_count:
            console.print(table)
            console.print()
    for line in _history(found):
        _console.say(line)


def _coloured(word: str) -> str:
    return _console.validity(Validity(word)) if word in list(Validity) else escape(word)


def _history(found: Pair) -> Iterator[str]:
    """Yield what there is to say of the two histories, and the rows where they part."""
    if found.identical is None:
        yield f"histories not compared: {found.why}"
    elif found.parting is None:
        yield "the histories are the same, byte for byte"
    else:
        yield f"the histories differ from row {found.parting.row} on"
        for mark, rows in ((" ", found.parting.before), ("A", found.parting.a), ("B", found.parting.b)):
            if rows:
                yield from (f"{mark} {line}" for line in row_lines(rows))
            else:
                yield f"{mark} (no more rows)" if mark != " " else "  (no rows before)"


def _object(found: Pair) -> dict[str, Any]:
    laws = [{"law": law, "a": one or None, "b": other or None} for law, one, other in found.laws]
    anomalies = [{"name": name, "a": one, "b": other} for name, one, other in found.anomalies]
    return {
        "a": _side_object(found.a),
        "b": _side_object(found.b),
        "laws": laws,
        "anomalies": anomalies,
        "identical": found.identical,
        "not_compared": found.why,
        "first_difference": _parting_object(found.parting) if found.parting is not None else None,
    }


def _side_object(side: Side) -> dict[str, Any]:
    from reports.comparison.tables import FACTS

    facts = {name: str(getattr(side.line, name)) for name in FACTS if name != "seed"}
    measures = dataclasses.asdict(side.measures) if side.measures is not None else None
    return {**facts, "seed": side.line.seed, "measures": measures, "damage": list(side.damage)}


def _parting_object(parting: Parting) -> dict[str, Any]:
    sides = {"before": parting.before, "a": parting.a, "b": parting.b}
    return {"row": parting.row} | {name: [row_object(row) for row in rows] for name, rows in sides.items()}
