"""Rows of a history as people and programs read them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaos.errors import BadInput
from chaos.history.columns import INTEGERS, REPEATED, VALUE, WORDS
from stormproof.commands import _console

if TYPE_CHECKING:
    from chaos.history.history import History
    from chaos.history.row import Row

#: Columns that stand at the beginning of a line, or that people don't read.
LEADING = ("index", "time_ns", "kind", "f", "type", "process", "node", *REPEATED)
#: One row, or from one to another, both included.
RANGE = re.compile(r"([0-9]{1,18})(?:\.\.([0-9]{1,18}))?", re.ASCII)


def show_rows(run: str, out: Path, which: Sequence[str], *, as_json: bool, svg: Path | None = None) -> None:
    """Print the rows of a run that have these numbers, in their order, or draw them as a sequence into ``svg``. Raises
    :class:`BadInput` where it has none of them."""
    from chaos.history.history import History

    history = History.open(run, out)
    for problem in history.damage:
        _console.err().print(f"note: {problem}", markup=False)
    found = _chosen(history, [_range(word) for word in which])
    if not found:
        raise BadInput(f"{run} has no such row; it has {history.num_rows}, numbered from 0 on")
    if svg is not None:
        from reports.explanation.chosen import of_rows
        from reports.explanation.diagram import write

        _console.say(write(svg, of_rows(found, history)))
    elif as_json:
        _console.print_json([row_object(row) for row in found])
    else:
        for line in row_lines(found):
            _console.say(line)


def _chosen(history: History, ranges: Sequence[tuple[int, int]]) -> list[Row]:
    import numpy as np
    import pyarrow as pa

    index = history.table["index"].to_numpy()
    chosen = np.any([(first <= index) & (index <= last) for first, last in ranges], axis=0)
    return history.of_table(history.table.filter(pa.array(chosen)))


def _range(word: str) -> tuple[int, int]:
    match = RANGE.fullmatch(word)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if first > last:
        raise BadInput(f"{word!r} is no row, and no range of rows from A to B such as 10..20")
    return first, last


def row_object(row: Row) -> dict[str, Any]:
    """Return a row as JSON: without the columns that it doesn't have, and with its value parsed where that can be
    done."""
    fields: dict[str, Any] = {"index": row.index, "at_s": round(row.at_s, 9)}
    fields |= row.numbers(*INTEGERS)
    fields |= {name: word for name in WORDS if (word := getattr(row, name))}
    if row.text:
        try:
            fields[VALUE] = json.loads(row.text)
        except ValueError:
            fields[VALUE] = row.text
    return fields


def row_lines(found: Iterable[Row]) -> Iterator[str]:
    """Yield a line for each row; times are seconds since the load began."""
    for row in found:
        what = " ".join(filter(None, (row.kind, row.f, row.type)))
        who = " ".join(filter(None, (row.process, row.node)))
        given = row.numbers(*(name for name in INTEGERS if name not in LEADING))
        numbers = ", ".join(f"{name} {number}" for name, number in given.items())
        yield f"{row.index:>8} {row.at_s:>10.3f} s  {what:<20} {who:<24} {numbers}  {row.text}".rstrip()
