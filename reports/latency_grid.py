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
        self._first = math.floor(left_s / self.piece_s)
        pieces = math.ceil(max(end_s, right_s) / self.piece_s) - self._first + 2
        self._counts = np.zeros((pieces, BINS), np.uint32)
        self._max, self._min = np.zeros(pieces), np.full(pieces, np.inf)
        self._least = np.inf  # of all above zero
        self._wide_ms = max(round(1000 * (right_s - left_s)) // columns, 1)
        self._seen = np.zeros((round(1000 * (right_s - left_s)) // self._wide_ms + 1, BINS), np.bool_)

    @property
    def nbytes(self) -> int:
        return self._counts.nbytes + self._seen.nbytes

    def add(self, second: Floats, latency_ms: Floats) -> None:
        """Add some acknowledged sends: when, and after how many ms."""
        self._least = min(self._least, float(np.min(latency_ms, where=latency_ms > 0, initial=np.inf)))
        bins = _bins(latency_ms)
        piece = np.clip(np.floor(second / self.piece_s).astype(np.int64) - self._first, 0, len(self._counts) - 1)
        np.add.at(self._counts, (piece, bins), 1)
        np.maximum.at(self._max, piece, latency_ms)
        np.minimum.at(self._min, piece, latency_ms)
        column = np.rint(1000 * (second - self._left_s)).astype(np.int64) // self._wide_ms
        inside = (column >= 0) & (column < len(self._seen))
        self._seen[column[inside], bins[inside]] = True

    def quantiles(self) -> list[tuple[str, list[float], list[float]]]:
        """(label, x, y) of each quantile, for the pieces in which there was a send; x is the middle of the piece."""
        found = np.flatnonzero(self._counts.any(axis=1))
        x = ((found + self._first + 0.5) * self.piece_s).tolist()
        return [(label, x, [self._quantile(piece, share) for piece in found.tolist()]) for label, share in QUANTILES]

    def _quantile(self, piece: int, share: float) -> float:
        """Return a quantile as ``numpy.quantile`` does: between the two neighbours of the place by a straight line."""
        up_to = np.cumsum(self._counts[piece], dtype=np.int64)
        place = share * (int(up_to[-1]) - 1)
        low, high = np.searchsorted(up_to, [math.floor(place), math.ceil(place)], side="right")
        ends = np.clip(_values(np.array([low, high])), self._min[piece], self._max[piece])
        if share == 1.0:
            return float(self._max[piece])
        return float(ends[0] + (place - math.floor(place)) * (ends[1] - ends[0]))

    def dots(self) -> tuple[Floats, Floats]:
        """When, and after how many ms: a send for each place of the picture that has any."""
        column, bins = np.nonzero(self._seen)
        x = self._left_s + (column * self._wide_ms + self._wide_ms // 2) / 1000
        y = _values(bins)
        y[bins == bins.max(initial=0)] = self._max.max(initial=0.0)
        y[bins == bins.min(where=bins > 0, initial=BINS)] = self._least
        return x, y


def _bins(latency_ms: Floats) -> Ints:
    known = np.maximum(latency_ms, LEAST_MS)
    found = 1 + np.floor(np.log(known / LEAST_MS) / math.log(RATIO)).astype(np.int64)
    return np.where(latency_ms < LEAST_MS, 0, np.minimum(found, BINS - 1))


def _values(bins: npt.NDArray[Any]) -> Floats:
    """Return the middle of each bin; 0 for latencies below :data:`LEAST_MS`."""
    return np.where(bins > 0, LEAST_MS * RATIO ** (bins - 0.5), 0.0)
