"""All sends that have ended, as far as pictures show them, where they are too many to be held."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from chaos.history.history import History
from reports.drawn import drawn_of
from reports.latency_grid import LatencyGrid
from reports.served import Outages, Waits

#: So many dots stand beside one another in the picture of all latencies.
DOTS_ACROSS = 1000


class SendSummary:
    """Takes some sends at a time, in any order. What it holds depends on how long the run took, on how often its queues
    and clients were not served, and on how many of these there are."""

    def __init__(self, clock: History, clients: Sequence[str]) -> None:
        self.clients = clients
        self.latencies = LatencyGrid(*drawn_of(clock), clock.end_s, DOTS_ACROSS)
        self._end_s = clock.load_end_s
        self._outages = Outages()
        self._waits = Waits()

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return self.latencies.nbytes + self._outages.nbytes + self._waits.nbytes

    def add(self, sends: dict[str, npt.NDArray[Any]]) -> None:
        """Add some sends, with the columns of :class:`reports.operations.Sends`."""
        second, latency_ms, ok = sends["second"], sends["latency_ms"], sends["ok"]
        acked = ok & (second <= self._end_s)
        self._outages.add(sends["queue"][acked], second[acked])
        known = ~np.isnan(latency_ms)
        since = second[known] - latency_ms[known] / 1e3
        self._waits.add(sends["client"][known], second[known], since, ok[known])
        timed = ok & known
        self.latencies.add(second[timed], latency_ms[timed])

    def outages(self) -> list[tuple[int, float, float]]:
        """Return (queue, from, to): no send to it was acknowledged for more than a second of the load."""
        return self._outages.gaps(self._end_s)

    def waits(self) -> list[tuple[str, float, float]]:
        """Return (client, from, to): it had asked for sends, and none was acknowledged for more than a second of the
        load."""
        return sorted((self.clients[client], start, end) for client, start, end in self._waits.gaps(self._end_s))
