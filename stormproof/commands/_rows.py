"""Rows of a history as people and programs read them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from chaos.history.columns import INTEGERS, VALUE, WORDS

if TYPE_CHECKING:
    from reports.rows import RunRows

#: Columns that stand at the beginning of a line, or that people don't read.
LEADING = ("index", "time_ns", "kind", "f", "type", "process", "node")


def row_object(row: Mapping[str, Any], at_s: float) -> dict[str, Any]:
    """Return a row as JSON: without the columns that it doesn't have, and with its value parsed where that can be
    done."""
    fields: dict[str, Any] = {"index": row["index"], "at_s": round(at_s, 9)}
    fields |= {name: row[name] for name in INTEGERS if row[name] != -1}
    fields |= {name: row[name] for name in WORDS if row[name]}
    if row[VALUE]:
        try:
            fields[VALUE] = json.loads(row[VALUE])
        except ValueError:
            fields[VALUE] = row[VALUE]
    return fields


def row_lines(found: Iterable[Mapping[str, Any]], history: RunRows) -> Iterator[str]:
    """Yield a line for each row; times are seconds since the load began."""
    for row in found:
        what = " ".join(filter(None, (row["kind"], row["f"], row["type"])))
        who = " ".join(filter(None, (row["process"], row["node"])))
        numbers = [f"{name} {row[name]}" for name in INTEGERS if name not in LEADING and row[name] != -1]
        line = f"{row['index']:>8} {history.second(row['time_ns']):>10.3f} s  {what:<20} {who:<24} {', '.join(numbers)}"
        yield f"{line}  {row[VALUE] or ''}".rstrip()
