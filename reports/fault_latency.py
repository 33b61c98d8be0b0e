"""How long acknowledged sends took before, during and after each fault, and when the first one came after it.

It is counted in the bins of :mod:`reports.latency_grid`, so that a run of any size has the same numbers, whether its
sends are held or were summarised some at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reports.faults import FaultLine
from reports.latency_grid import BINS, bins_of, quantile

Floats = npt.NDArray[np.float64]

#: What comes before and after a fault are so many seconds, within the load; and so many faults are looked at.
AROUND_S, MOST = 5.0, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Acknowledged sends of some seconds: how many, and quantiles in ms."""

    count: int
    p50_ms: float
    p99_ms: float
    max_ms: float

    @property
    def json(self) -> dict[str, Any]:
        """The latency as ``--json`` prints it."""
        return {
            "sends": self.count,
            "p50_ms": round(self.p50_ms, 3),
            "p99_ms": round(self.p99_ms, 3),
            "max_ms": round(self.max_ms, 3),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultLatency:
    """One fault that took effect, and the sends around it; None where none was acknowledged. ``first_ok_s``: so long
    after the fault was over the first send was acknowledged."""

    name: str
    targets: str
    start_s: float
    end_s: float
    before: Latency | None
    during: Latency | None
    after: Latency | None
    first_ok_s: float | None

    @property
    def json(self) -> dict[str, Any]:
        """The fault as ``--json`` prints it."""
        spans = {"before": self.before, "during": self.during, "after": self.after}
        return {
            "fault": self.name,
            "targets": self.targets,
            "start_s": round(self.start_s, 3),
            "end_s": round(self.end_s, 3),
            **{name: span.json if span else None for name, span in spans.items()},
            "first_ok_s": None if self.first_ok_s is None else round(self.first_ok_s, 3),
        }


class FaultLatencies:
    """Counts the acknowledged sends around each of some faults."""

    def __init__(self, faults: Sequence[FaultLine], load_end_s: float) -> None:
        self._faults = [fault for fault in faults if fault.effective == "yes"][:MOST]
        self._end_s = load_end_s
        spans = [span for fault in self._faults for span in self._spans(fault)]
        self._counts = np.zeros((len(spans), BINS), np.int64)
        self._lowest, self._highest = np.full(len(spans), np.inf), np.zeros(len(spans))
        self._begin, self._until = (np.array([span[side] for span in spans], float) for side in (0, 1))
        self._ends = np.array([fault.end_s for fault in self._faults], float)
        self._first = np.full(len(self._faults), np.inf)

    def _spans(self, fault: FaultLine) -> list[tuple[float, float]]:
        begin, end = min(fault.start_s, self._end_s), min(fault.end_s, self._end_s)
        return [(max(begin - AROUND_S, 0.0), begin), (begin, end), (end, min(end + AROUND_S, self._end_s))]

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return self._counts.nbytes + 5 * self._lowest.nbytes

    def add(self, second: Floats, latency_ms: Floats) -> None:
        """Add acknowledged sends: when, and after how many ms."""
        order = np.argsort(second, kind="stable")
        second, latency_ms = second[order], latency_ms[order]
        bins = bins_of(latency_ms)
        begin, until = (np.searchsorted(second, side) for side in (self._begin, self._until))
        for span, (low, high) in enumerate(zip(begin.tolist(), until.tolist(), strict=True)):
            if high > low:
                self._counts[span] += np.bincount(bins[low:high], minlength=BINS)
                self._lowest[span] = min(self._lowest[span], float(latency_ms[low:high].min()))
                self._highest[span] = max(self._highest[span], float(latency_ms[low:high].max()))
        later = np.searchsorted(second, self._ends)
        known = later < np.searchsorted(second, self._end_s, side="right")
        self._first[known] = np.minimum(self._first[known], second[later[known]])

    def merge(self, other: FaultLatencies) -> None:
        """Take what was added to another one about the same faults."""
        self._counts += other._counts
        self._lowest, self._highest = (
            np.minimum(self._lowest, other._lowest),
            np.maximum(self._highest, other._highest),
        )
        self._first = np.minimum(self._first, other._first)

    def lines(self) -> list[FaultLatency]:
        """Return what was counted, by fault."""
        return [
            FaultLatency(
                name=fault.name,
                targets=fault.targets,
                start_s=fault.start_s,
                end_s=fault.end_s,
                before=self._latency(3 * place),
                during=self._latency(3 * place + 1),
                after=self._latency(3 * place + 2),
                first_ok_s=float(first - fault.end_s) if np.isfinite(first) else None,
            )
            for place, (fault, first) in enumerate(zip(self._faults, self._first.tolist(), strict=True))
        ]

    def _latency(self, span: int) -> Latency | None:
        counts, lowest, highest = self._counts[span], float(self._lowest[span]), float(self._highest[span])
        if not counts.any():
            return None
        p50, p99 = (quantile(counts, lowest, highest, share) for share in (0.5, 0.99))
        return Latency(count=int(counts.sum()), p50_ms=p50, p99_ms=p99, max_ms=highest)
