"""``stormproof diff``: two runs side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape
from rich.table import Table

from chaos.history import opening
from chaos.verdict import Validity
from stormproof.commands import _console
from stormproof.commands._options import json_option, out_option
from stormproof.commands._rows import row_lines, row_object

if TYPE_CHECKING:
    from reports.comparison.pair import Pair, Parting, Side

#: What is said of a run besides its verdicts.
FACTS = ("name", "experiment", "mutant", "deployment", "seed", "verdict")


@click.command()
@click.argument("a")
@click.argument("b")
@out_option
@json_option
def diff(a: str, b: str, out: Path, as_json: bool) -> None:
    """Compare two runs: the verdict of each law, violations, availability and latency during the load, and of two
    simulated histories the first row in which they differ.

    Rows of the tables that begin with * differ. The exit code is 0 whether the runs differ or not.
    """
    from reports.comparison.pair import pair

    found = pair(opening.resolve_one(a, out), opening.resolve_one(b, out))
    for side in (found.a, found.b):
        for problem in side.damage:
            _console.err().print(f"note: {problem}", markup=False)
    if as_json:
        _console.print_json(_object(found))
        return
    console = _console.out()
    for title, rows in _tables(found):
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


def _tables(found: Pair) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Yield each table: its title, and rows of a name and a text for each run."""
    a, b = found.a.line, found.b.line
    facts = [(name, str(getattr(a, name)), str(getattr(b, name))) for name in FACTS]
    yield "run", [fact for fact in facts if any(fact[1:])]
    yield "law", found.laws
    yield "violation", [(name, str(one), str(other)) for name, one, other in found.anomalies]
    one, other = _measured(found.a), _measured(found.b)
    yield "during the load", [(name, one.get(name, ""), other.get(name, "")) for name in {**one, **other}]


def _measured(side: Side) -> dict[str, str]:
    measures = side.measures
    if measures is None:
        return {}
    measured = {}
    if measures.acknowledged is not None:
        measured["writes acknowledged"] = f"{measures.acknowledged:.2%}"
        measured["longest time without one (of a queue)"] = f"{measures.longest_gap_s:.3f} s"
    for name, calls in measures.calls.items():
        measured[f"{name}: ok of all"] = f"{calls.ok:,} of {calls.ended:,}"
        if calls.ok:
            measured[f"{name}: p50, p99, max in ms"] = f"{calls.p50_ms:.1f}, {calls.p99_ms:.1f}, {calls.max_ms:.1f}"
    return measured


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
    facts = {name: str(getattr(side.line, name)) for name in FACTS if name != "seed"}
    measures = dataclasses.asdict(side.measures) if side.measures is not None else None
    return {**facts, "seed": side.line.seed, "measures": measures, "damage": list(side.damage)}


def _parting_object(parting: Parting) -> dict[str, Any]:
    sides = {"before": parting.before, "a": parting.a, "b": parting.b}
    return {"row": parting.row} | {name: [row_object(row) for row in rows] for name, rows in sides.items()}
