"""Parts of the time axis that are finer than a picture can show: of very many moments it is counted how many are in
each of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

#: Strokes beside one another in a lane of moments; and into how many parts each of them is divided at most.
STROKES, PARTS = 600, 50
#: What is before the axis, and behind it.
BEFORE, AFTER = 0, 65_535


class Parts:
    """The parts of an axis, from ``left_s`` to ``right_s``, in which moments are distinguished."""

    def __init__(self, left_s: float, right_s: float) -> None:
        self._left_s, self._right_s = left_s, right_s
        self._wide = max(round(1000 * (right_s - left_s)) // STROKES, 1)
        self._each = min(self._wide, PARTS)

    def counted(self, at_s: npt.NDArray[np.float64]) -> tuple[Ints, Ints]:
        """Return the parts in which some moments are, ascending, and how many in each."""
        seen = np.rint(1000 * (at_s - self._left_s)).astype(np.int64)
        found = 1 + seen * self._each // self._wide
        found = np.where(at_s < self._left_s, BEFORE, np.where(at_s > self._right_s, AFTER, found))
        counts = np.bincount(found, minlength=AFTER + 1)
        parts = np.flatnonzero(counts)
        return parts, counts[parts]

    def seconds(self, parts: Ints) -> npt.NDArray[np.float64]:
        """Return the first moment, in whole milliseconds, of each of these parts; what is outside of the axis stays
        there."""
        ms = -((1 - parts) * self._wide // self._each)
        found = self._left_s + ms / 1000
        return np.where(parts == BEFORE, self._left_s - 1, np.where(parts == AFTER, self._right_s + 1, found))


def merged(counted: list[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    """Return what some moments and others were counted as together."""
    counts = np.zeros(AFTER + 1, np.int64)
    for parts, more in counted:
        counts[parts] += more
    found: Any = np.flatnonzero(counts)
    return found, counts[found]
