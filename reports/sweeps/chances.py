"""Probabilities from few samples, with their bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass

#: How sure a bound is.
CONFIDENCE = 0.95
#: The quantile of the normal distribution for both sides of :data:`CONFIDENCE`.
_Z = 1.959964
#: Halvings after which a float does not change any more.
_STEPS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """``hits`` of ``tries``. ``low`` and ``high`` are Wilson's bounds of the probability, with 95 % confidence; of no
    tries at all nothing is known, and they are 0 and 1."""

    hits: int
    tries: int

    @property
    def value(self) -> float:
        """The share itself; 0 of no tries."""
        return self.hits / self.tries if self.tries else 0.0

    @property
    def low(self) -> float:
        return self._bound(-1.0) if self.hits else 0.0

    @property
    def high(self) -> float:
        return self._bound(1.0) if self.hits < self.tries or not self.tries else 1.0

    def _bound(self, sign: float) -> float:
        if not self.tries:
            return 0.0 if sign < 0 else 1.0
        n, p, z = self.tries, self.value, _Z
        middle = p + z * z / (2 * n)
        width = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return min(1.0, max(0.0, (middle + sign * width) / (1 + z * z / n)))

    def __str__(self) -> str:
        return f"{self.hits} of {self.tries}"


def at_most(hits: int, tries: int) -> float:
    """Return the bound of Clopper and Pearson: with 95 % confidence the probability of a hit is not above it, whatever
    it is. With no hit in n tries it is about 3/n; 1 where nothing was tried."""
    if hits >= tries:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _cumulative(hits, tries, middle) > 1 - CONFIDENCE:
            low = middle
        else:
            high = middle
    return high


def _cumulative(hits: int, tries: int, p: float) -> float:
    """Return the probability of at most so many hits."""
    if p <= 0.0 or p >= 1.0:
        return 1.0 if p <= 0.0 else 0.0
    logs = (
        math.lgamma(tries + 1) - math.lgamma(k + 1) - math.lgamma(tries - k + 1)
        + k * math.log(p) + (tries - k) * math.log1p(-p)
        for k in range(hits + 1)
    )  # fmt: skip
    return math.fsum(math.exp(one) for one in logs)
