"""``stormproof rows``: print rows of a recorded history, as a report names them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from chaos.errors import BadInput
from chaos.history import directory
from chaos.history.columns import INTEGERS, VALUE, WORDS
from stormproof.commands import _console
from stormproof.commands._options import json_option, out_option

#: One row, or from one to another, both included.
RANGE = re.compile(r"([0-9]{1,18})(?:\.\.([0-9]{1,18}))?", re.ASCII)
#: Columns that stand at the beginning of a line, or that people don't read.
LEADING = ("index", "time_ns", "kind", "f", "type", "process", "node")


@click.command()
@click.argument("run")
@click.argument("which", nargs=-1, required=True, metavar="N|A..B...")
@out_option
@json_option
def rows(run: str, which: tuple[str, ...], out: Path, as_json: bool) -> None:
    """Print rows of a RUN's history: those with these numbers (A..B: from A to B), in their order.

    A report names the rows behind each violation. Times are seconds since the load began, as in the report.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from chaos.history.recorder import read_rows
    from reports.rows import RunRows

    ranges = [_range(word) for word in which]
    table, damage = read_rows(directory.resolve(run, out))
    for problem in damage:
        _console.err().print(f"note: {problem}", markup=False)
    chosen = pa.array([False] * table.num_rows)
    for first, last in ranges:
        index = table["index"]
        chosen = pc.or_(chosen, pc.and_(pc.greater_equal(index, first), pc.less_equal(index, last)))
    found = table.filter(chosen).sort_by("index").to_pylist()
    if not found:
        raise BadInput(f"{run} has no such row; it has {table.num_rows}, numbered from 0 on")
    told = RunRows(table)
    if as_json:
        _console.print_json([_object(row, told.second(row["time_ns"])) for row in found])
        return
    for line in _lines(found, told):
        click.echo(line)


def _range(word: str) -> tuple[int, int]:
    match = RANGE.fullmatch(word)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if first > last:
        raise BadInput(f"{word!r} is no row, and no range of rows from A to B such as 10..20")
    return first, last


def _object(row: Mapping[str, Any], at_s: float) -> dict[str, Any]:
    """A row as JSON: without the columns that it doesn't have, and with its value parsed where that can be done."""
    told: dict[str, Any] = {"index": row["index"], "at_s": round(at_s, 9)}
    told |= {name: row[name] for name in INTEGERS if row[name] != -1}
    told |= {name: row[name] for name in WORDS if row[name]}
    if row[VALUE]:
        try:
            told[VALUE] = json.loads(row[VALUE])
        except ValueError:
            told[VALUE] = row[VALUE]
    return told


def _lines(found: Iterable[Mapping[str, Any]], told: Any) -> Iterable[str]:
    for row in found:
        what = " ".join(filter(None, (row["kind"], row["f"], row["type"])))
        who = " ".join(filter(None, (row["process"], row["node"])))
        numbers = [f"{name} {row[name]}" for name in INTEGERS if name not in LEADING and row[name] != -1]
        line = f"{row['index']:>8} {told.second(row['time_ns']):>10.3f} s  {what:<20} {who:<24} {', '.join(numbers)}"
        yield _console.printable(f"{line}  {row[VALUE]}".rstrip())
