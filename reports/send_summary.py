"""All sends that have ended, as numbers, or as far as pictures show them, where they are too many to be held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from chaos.history.history import History
from reports.drawn import drawn_of
from reports.fault_latency import FaultLatencies
from reports.faults import fault_lines
from reports.latency_grid import LatencyGrid
from reports.served import Outages, Waits

#: So many dots stand beside one another in the picture of all latencies.
DOTS_ACROSS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sends:
    """Sends that have ended: when, after how many ms (NaN where its beginning is unknown), whether it was acknowledged,
    to which queue, and by whom, as a number of ``clients``. Those of a run whose rows are held are in the order of
    recording."""

    second: npt.NDArray[np.float64]
    latency_ms: npt.NDArray[np.float64]
    ok: npt.NDArray[np.bool_]
    queue: npt.NDArray[Any]
    client: npt.NDArray[Any]
    clients: Sequence[str]


class SendSummary:
    """What is shown of some sends. What it holds depends on how long these took, on how often their queues and clients
    were not served, and on how many of these there are."""

    def __init__(self, sends: Sends, clock: History) -> None:
        self._end_s = clock.load_end_s
        second, latency_ms, ok = sends.second, sends.latency_ms, sends.ok
        acked = ok & (second <= self._end_s)
        self._outages = Outages()
        self._outages.add(sends.queue[acked], second[acked])
        known = ~np.isnan(latency_ms)
        since = second[known] - latency_ms[known] / 1e3
        self._waits = Waits(sends.clients)
        self._waits.add(sends.client[known], second[known], since, ok[known])
        self.latencies = LatencyGrid(*drawn_of(clock), clock.end_s, DOTS_ACROSS)
        self.latencies.add(second[ok & known], latency_ms[ok & known])
        self.around_faults = FaultLatencies(fault_lines(clock), self._end_s)
        self.around_faults.add(second[ok & known], latency_ms[ok & known])

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return self.latencies.nbytes + self.around_faults.nbytes + self._outages.nbytes + self._waits.nbytes

    def merge(self, other: SendSummary) -> None:
        """Take other sends of the same run."""
        self._outages.merge(other._outages)
        self._waits.merge(other._waits)
        self.latencies.merge(other.latencies)
        self.around_faults.merge(other.around_faults)

    def outages(self) -> list[tuple[int, float, float]]:
        """Return (queue, from, to): no send to it was acknowledged for more than a second of the load."""
        return self._outages.gaps(self._end_s)

    def waits(self) -> list[tuple[str, float, float]]:
        """Return (client, from, to): it had asked for sends, and none was acknowledged for more than a second of the
        load."""
        return sorted(self._waits.gaps(self._end_s))
