"""The rows of a run, by kind and name, on the one clock of a report."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: After the load and the recovery the axis goes on for this share of it.
AFTER = 0.02


def drawn_s(phases: Iterable[float], drain_s: float, end_s: float) -> tuple[float, float]:
    """Return when the drawn part begins and ends: from the first phase to the end of the recovery. What is read and
    collected after it is shown elsewhere. ``drain_s``: infinity where there was no final reading."""
    left = min([0.0, *phases])
    drain = end_s if drain_s == float("inf") else drain_s
    return left, max(drain + AFTER * (drain - left), left + 1.0)


def value_of(text: str | None) -> dict[str, Any]:
    """Return the value of a row as its text has it; what is no object says nothing: a run may be a stranger's."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


class RunRows:
    """A run's rows. Times are seconds since the load began (since the harness's first row, if it never did), as laws
    count them too."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self._by_kind: dict[str, pa.Table] = {}
        self._phases: dict[str, int] = {}
        for row in self.select("harness", "phase").to_pylist():
            self._phases.setdefault(str(value_of(row["value"]).get("phase")), int(row["time_ns"]))
        self.zero_ns = self._zero()
        times = self.numbers(table, "time_ns")
        self.end_s = (int(times.max()) - self.zero_ns) / 1e9 if len(times) else 0.0

    def _zero(self) -> int:
        if "load" in self._phases:
            return self._phases["load"]
        harness = self.select("harness")
        times = self.numbers(harness if harness.num_rows else self.table, "time_ns")
        return int(times[0]) if len(times) else 0

    def phase_s(self, phase: str) -> float:
        """Return when this phase began; infinity if it never did."""
        return self.second(self._phases[phase]) if phase in self._phases else float("inf")

    @property
    def load_end_s(self) -> float:
        """When the phase after the load began; the end of the run, if none did."""
        phases = [*self._phases]
        after = phases.index("load") + 1 if "load" in phases else len(phases)
        return self.phase_s(phases[after]) if after < len(phases) else self.end_s

    @property
    def drawn_s(self) -> tuple[float, float]:
        """The seconds that pictures show."""
        return drawn_s([self.second(at) for at in self._phases.values()], self.phase_s("drain"), self.end_s)

    def select(self, kind: str, *names: str) -> pa.Table:
        if kind not in self._by_kind:
            self._by_kind[kind] = self.table.filter(pc.equal(self.table["kind"], kind))
        chosen = self._by_kind[kind]
        return chosen.filter(pc.is_in(chosen["f"], pa.array(names))) if names else chosen

    @cached_property
    def polls(self) -> list[tuple[str, float, dict[str, Any]]]:
        """Node, second and state of each poll of a node that was answered with a state."""
        answered = self.select("poll", "state")
        answered = answered.filter(pc.equal(answered["type"], "ok"))
        states = map(value_of, answered["value"].to_pylist())
        return list(zip(answered["node"].to_pylist(), self.seconds(answered).tolist(), states, strict=True))

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
