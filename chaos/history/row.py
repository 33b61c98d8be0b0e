"""One row of a history as an object, for all who look at single rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from chaos.history.columns import INTEGERS, VALUE, WORDS
from chaos.history.values import value_of

#: Says of some rows which ones are wanted (an array of booleans).
Keep = Callable[[pa.Table], Any]
#: A row that has no step comes after all steps of its node: it was read from it when the run was over.
_LAST = 1 << 62


@dataclass(frozen=True, slots=True)
class Row:
    """One row (docs/history.md): its columns, in their order, the ``value`` parsed and as the ``text`` that stands
    there; ``at_s`` counts from the beginning of the load."""

    index: int
    time_ns: int
    op: int
    incarnation: int
    step: int
    epoch: int
    queue: int
    offset: int
    position: int
    message: int
    hash: int
    began_ns: int
    began_offset: int
    began_value: int
    kind: str
    type: str
    f: str
    process: str
    node: str
    text: str
    value: Mapping[str, Any]
    at_s: float

    @property
    def lane(self) -> str:
        """Who did it: a node, a client, or the faults."""
        if self.kind == "fault":
            return "faults"
        if self.kind in ("trace", "final", "poll"):
            return self.node or self.kind
        return self.client or self.kind

    @property
    def client(self) -> str:
        """The client without the number of its incarnation."""
        return self.process.rpartition(".")[0] or self.process

    @property
    def end(self) -> int:
        """Where the record of an ``append`` ends in the log."""
        size = self.value.get("size")
        return self.position + (size if isinstance(size, int) else 1)

    @property
    def entry(self) -> Mapping[str, Any]:
        """What the controllers decided, by an ``applied`` row; empty for any other one."""
        found = self.value.get("entry")
        return found if isinstance(found, dict) else {}

    def numbers(self, *names: str) -> dict[str, int]:
        """Return those of these columns that the row has."""
        return {name: number for name in names if (number := getattr(self, name)) != -1}

    @property
    def in_node_order(self) -> tuple[int, int, int]:
        """What sorts the rows of one node."""
        return (self.incarnation, self.step, self.index) if self.kind == "trace" else (_LAST, _LAST, self.index)


def rows_of(table: pa.Table, zero_ns: int) -> Iterator[Row]:
    """Return the rows of a table, in its order; what it has no column of is -1 or "". ``zero_ns``: when the load
    began."""
    names = set(table.column_names)
    numbers = [table[name].to_pylist() if name in names else repeat(-1) for name in INTEGERS]
    words = [_texts(table[name]) if name in names else repeat("") for name in WORDS]
    texts = _texts(table[VALUE]) if VALUE in names else [""] * table.num_rows
    seconds = ((time_ns - zero_ns) / 1e9 for time_ns in numbers[INTEGERS.index("time_ns")])
    return map(Row, *numbers, *words, texts, map(value_of, texts), seconds)


def _texts(column: pa.ChunkedArray) -> list[str]:
    texts: list[str] = pc.fill_null(column.cast(pa.string()), "").to_pylist()
    return texts
