"""Rows of a history as people and programs read them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from chaos.history.columns import INTEGERS, REPEATED, VALUE, WORDS

if TYPE_CHECKING:
    from chaos.history.row import Row

#: Columns that stand at the beginning of a line, or that people don't read.
LEADING = ("index", "time_ns", "kind", "f", "type", "process", "node", *REPEATED)


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
