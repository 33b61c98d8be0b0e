"""The rows of a run, asked for by kind and name, each as one object with its value parsed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from reports.rows import RunRows, value_of

#: A row that has no step comes after all steps of its node: it was read from it when the run was over.
_LAST = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of a history (docs/history.md); ``value`` is parsed, ``at_s`` counts from the beginning of the load."""

    index: int
    at_s: float
    time_ns: int
    kind: str
    f: str
    type: str
    process: str
    node: str
    op: int
    life: int
    step: int
    epoch: int
    queue: int
    offset: int
    position: int
    message: int
    value: Mapping[str, Any]

    @property
    def lane(self) -> str:
        """Who did it: a node, a client without the number of its life, or the faults."""
        if self.kind == "fault":
            return "faults"
        if self.kind in ("trace", "final", "poll"):
            return self.node or self.kind
        return self.process.rpartition(".")[0] or self.process or self.kind

    @property
    def end(self) -> int:
        """Where the record of an ``append`` ends in the log."""
        size = self.value.get("size")
        return self.position + (size if isinstance(size, int) else 1)

    @property
    def in_node_order(self) -> tuple[int, int, int]:
        return (self.life, self.step, self.index) if self.kind == "trace" else (_LAST, _LAST, self.index)


class Rows:
    """All rows of a run. ``one_clock``: the order of recording is that of time, for rows of different nodes too."""

    def __init__(self, rows: RunRows, *, one_clock: bool) -> None:
        self._source = rows
        self.one_clock = one_clock
        self.has_traces = rows.select("trace").num_rows > 0
        self.drain_s = rows.phase_s("drain")

    def of(self, kind: str, *names: str, where: Callable[[pa.Table], Any] | None = None) -> list[Row]:
        """Return the rows of a kind and of these names, for which the mask ``where`` of the chosen table holds."""
        table = self._source.select(kind, *names)
        return self._rows(table if where is None else table.filter(where(table)))

    def numbered(self, indices: Iterable[int]) -> list[Row]:
        wanted = pa.array(sorted(set(indices)), pa.int64())
        table = self._source.table
        return self._rows(table.filter(pc.is_in(table["index"], wanted)))

    def ops_of(self, calls: Iterable[int]) -> list[Row]:
        """Return the answers to these calls, without the messages that a reader was given."""
        wanted = pa.array(sorted(set(calls)), pa.int64())
        return [row for row in self.of("op", where=lambda t: pc.is_in(t["op"], wanted)) if row.f != "delivered"]

    def before(self, one: Row, other: Row) -> bool:
        """Return whether a row was recorded before another: by the order of recording, or else by the clocks."""
        if self.one_clock:
            return one.index < other.index
        return (one.time_ns, one.index) < (other.time_ns, other.index)

    def _rows(self, table: pa.Table) -> list[Row]:
        return [self._row(found) for found in table.sort_by("index").to_pylist()]

    def _row(self, found: Mapping[str, Any]) -> Row:
        words = {name: str(found[name] or "") for name in ("kind", "f", "type", "process", "node")}
        same = ("index", "time_ns", "op", "step", "epoch", "queue", "offset", "position", "message")
        columns: dict[str, Any] = words | {name: int(found[name]) for name in same}
        at_s, life = self._source.second(columns["time_ns"]), int(found["incarnation"])
        return Row(**columns, at_s=at_s, life=life, value=value_of(found["value"]))
