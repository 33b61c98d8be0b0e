"""Latencies of any number of sends, in memory that depends on how long the run was and not on how many there were.

Each latency counts in one of :data:`BINS` bins, the upper edge of which is 2 % above the lower one, so what is reported
of it is at most 1 % wrong; the highest and the lowest ones are exact. A run is divided into at most :data:`MOST` pieces
of whole seconds for the quantiles, and into as many columns as a picture has dots beside one another.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: The lowest latency that is distinguished from none, in ms; how much each bin's edge is above the one before; and how
#: many bins there are, which go up to 10,000 s.
LEAST_MS, RATIO, BINS = 1e-3, 1.02, 1165
#: A run is divided into so many pieces at most.
MOST = 3600
#: What quantiles are asked for.
QUANTILES = (("p50", 0.5), ("p99", 0.99), ("max", 1.0))


def piece_s(span_s: float) -> int:
    """Return how many seconds of a run of this length stand together."""
    return max(1, math.ceil(span_s / MOST))


class LatencyGrid:
    """``left_s`` to ``right_s``: what is drawn; ``end_s``: the end of the run. All in seconds since the load began."""

    def __init__(self, left_s: float, right_s: float, end_s: float, columns: int) -> None:
        self.piece_s = piece_s(max(end_s, right_s) - left_s)
        self._left_s = left_s
        #: Of each piece in which a send ended: how many latencies each bin has, the lowest and the highest one.
        self._pieces: dict[int, tuple[Ints, float, float]] = {}
        self._least = np.inf  # of all above zero
        self._wide_ms = max(round(1000 * (right_s - left_s)) // columns, 1)
        self._columns = round(1000 * (right_s - left_s)) // self._wide_ms + 1
        #: The places of the picture that have a send: column * :data:`BINS` + bin, ascending.
        self._seen = np.empty(0, np.int64)

    @property
    def nbytes(self) -> int:
        return self._seen.nbytes + sum(counts.nbytes for counts, _, _ in self._pieces.values())

    def add(self, second: Floats, latency_ms: Floats) -> None:
        """Add some acknowledged sends: when, and after how many ms."""
        self._least = min(self._least, float(np.min(latency_ms, where=latency_ms > 0, initial=np.inf)))
        bins = bins_of(latency_ms)
        piece = np.floor(second / self.piece_s).astype(np.int64)
        order = np.argsort(piece, kind="stable")
        pieces, begins = np.unique(piece[order], return_index=True)
        for one, mine in zip(pieces.tolist(), np.split(order, begins[1:]), strict=False):
            counts = np.bincount(bins[mine], minlength=BINS)
            self._add(one, counts, float(latency_ms[mine].min()), float(latency_ms[mine].max()))
        column = np.rint(1000 * (second - self._left_s)).astype(np.int64) // self._wide_ms
        inside = (column >= 0) & (column < self._columns)
        self._seen = np.union1d(self._seen, column[inside] * BINS + bins[inside])

    def _add(self, piece: int, counts: Ints, lowest: float, highest: float) -> None:
        known = self._pieces.get(piece, (0, np.inf, 0.0))
        self._pieces[piece] = (known[0] + counts, min(known[1], lowest), max(known[2], highest))

    def merge(self, other: LatencyGrid) -> None:
        """Take what was added to another grid of the same run."""
        for piece, found in other._pieces.items():
            self._add(piece, *found)
        self._least = min(self._least, other._least)
        self._seen = np.union1d(self._seen, other._seen)

    def quantiles(self) -> list[tuple[str, list[float], list[float]]]:
        """(label, x, y) of each quantile, for the pieces in which there was a send; x is the middle of the piece."""
        found = sorted(self._pieces)
        x = [(piece + 0.5) * self.piece_s for piece in found]
        return [(label, x, [self._quantile(piece, share) for piece in found]) for label, share in QUANTILES]

    def _quantile(self, piece: int, share: float) -> float:
        return quantile(*self._pieces[piece], share)

    def dots(self) -> tuple[Floats, Floats]:
        """When, and after how many ms: a send for each place of the picture that has any."""
        column, bins = np.divmod(self._seen, BINS)
        x = self._left_s + (column * self._wide_ms + self._wide_ms // 2) / 1000
        y = _values(bins)
        y[bins == bins.max(initial=0)] = max((highest for _, _, highest in self._pieces.values()), default=0.0)
        y[bins == bins.min(where=bins > 0, initial=BINS)] = self._least
        return x, y


def quantile(counts: Ints, lowest: float, highest: float, share: float) -> float:
    """Return a quantile of latencies of which each bin has so many, as ``numpy.quantile`` does: between the two
    neighbours of the place by a straight line."""
    if share == 1.0:
        return highest
    up_to = np.cumsum(counts)
    place = share * (int(up_to[-1]) - 1)
    low, high = np.searchsorted(up_to, [math.floor(place), math.ceil(place)], side="right")
    ends = np.clip(_values(np.array([low, high])), lowest, highest)
    return float(ends[0] + (place - math.floor(place)) * (ends[1] - ends[0]))


def bins_of(latency_ms: Floats) -> Ints:
    """Return the bin of each latency."""
    known = np.maximum(latency_ms, LEAST_MS)
    found = 1 + np.floor(np.log(known / LEAST_MS) / math.log(RATIO)).astype(np.int64)
    return np.where(latency_ms < LEAST_MS, 0, np.minimum(found, BINS - 1))


def _values(bins: npt.NDArray[Any]) -> Floats:
    """Return the middle of each bin; 0 for latencies below :data:`LEAST_MS`."""
    return np.where(bins > 0, LEAST_MS * RATIO ** (bins - 0.5), 0.0)
