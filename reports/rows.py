"""The rows of a run, by kind and name, on the one clock of a report."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class RunRows:
    """A run's rows. Times are seconds since the load began (since the harness's first row, if it never did), as laws
    count them too."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self._by_kind: dict[str, pa.Table] = {}
        self._phases: dict[str, int] = {}
        for row in self.select("harness", "phase").to_pylist():
            self._phases.setdefault(str(json.loads(row["value"] or "{}").get("phase")), int(row["time_ns"]))
        self.zero_ns = self._zero()
        times = self.numbers(table, "time_ns")
        self.end_s = float((times.max() - self.zero_ns) / 1e9) if len(times) else 0.0

    def _zero(self) -> int:
        if "load" in self._phases:
            return self._phases["load"]
        harness = self.select("harness")
        times = self.numbers(harness if harness.num_rows else self.table, "time_ns")
        return int(times[0]) if len(times) else 0

    def phase_s(self, phase: str) -> float:
        """When this phase began; infinity if it never did."""
        return self.second(self._phases[phase]) if phase in self._phases else float("inf")

    def select(self, kind: str, *names: str) -> pa.Table:
        if kind not in self._by_kind:
            self._by_kind[kind] = self.table.filter(pc.equal(self.table["kind"], kind))
        chosen = self._by_kind[kind]
        return chosen.filter(pc.is_in(chosen["f"], pa.array(names))) if names else chosen

    @cached_property
    def polls(self) -> list[tuple[str, float, dict[str, Any]]]:
        """Node, second and state of each poll of a node that was answered with a state."""
        told = self.select("poll", "state")
        told = told.filter(pc.equal(told["type"], "ok"))
        states = map(json.loads, (value or "{}" for value in told["value"].to_pylist()))
        found = zip(told["node"].to_pylist(), self.seconds(told).tolist(), states, strict=True)
        return [poll for poll in found if isinstance(poll[2], dict)]

    def by_step(self, *names: str) -> pa.Table:
        """Traces of these names in the order of the steps of each node, one node after the other, with all words as
        plain strings."""
        chosen = self.select("trace", *names)
        plain = pa.schema(
            field.with_type(pa.string()) if pa.types.is_dictionary(field.type) else field for field in chosen.schema
        )
        order = [(name, "ascending") for name in ("node", "incarnation", "step", "index")]
        return chosen.cast(plain).sort_by(order)

    @staticmethod
    def numbers(table: pa.Table, column: str) -> np.ndarray[Any, np.dtype[np.int64]]:
        return table[column].to_numpy()

    def seconds(self, table: pa.Table) -> np.ndarray[Any, np.dtype[np.float64]]:
        return (self.numbers(table, "time_ns") - self.zero_ns) / 1e9

    def second(self, time_ns: int) -> float:
        return (time_ns - self.zero_ns) / 1e9
