"""When things happened that are too many to be told one by one: as close as pictures show it, in bounded memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

#: So many places are told apart; a screen has no more.
MOST_PLACES = 1024
#: Places are 2 ** 23 ns (8.4 ms) wide at least.
LEAST_SHIFT = 23


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """Moments after the load began fell into each of the ``places``, which ascend: a place is its number times 2 **
    ``shift`` ns. Places are as wide as it takes to have no more than :data:`MOST_PLACES`, so that moments that are
    merged are the same in any bracket. ``whole``: they are all that there are."""

    shift: int = LEAST_SHIFT
    places: tuple[int, ...] = ()
    whole: bool = True

    @classmethod
    def of(cls, times_ns: npt.NDArray[np.int64], *, whole: bool) -> Moments:
        return cls._in(np.asarray(times_ns, np.int64) >> LEAST_SHIFT, LEAST_SHIFT, whole)

    @classmethod
    def _in(cls, places: npt.NDArray[np.int64], shift: int, whole: bool) -> Moments:
        places = np.unique(places)
        # Neighbours are one place from the highest bit on in which they differ.
        differ = np.frexp((places[1:] ^ places[:-1]).astype(np.float64))[1]
        wider = int(np.sort(np.append(np.zeros(MOST_PLACES, differ.dtype), differ))[-MOST_PLACES])
        places, shift = np.unique(places >> wider), shift + wider
        return cls(shift=shift, places=tuple(places.tolist()), whole=whole)

    def merge(self, later: Moments) -> Moments:
        shift = max(self.shift, later.shift)
        both = [np.array(one.places, np.int64) >> (shift - one.shift) for one in (self, later)]
        return Moments._in(np.concatenate(both), shift, self.whole and later.whole)

    def middles_ns(self) -> npt.NDArray[np.float64]:
        """Return the middle of each place."""
        return (np.array(self.places, np.float64) + 0.5) * 2.0**self.shift


def together(first: Mapping[str, Moments], later: Mapping[str, Moments]) -> dict[str, Moments]:
    """Return those of each name together."""
    return {name: first.get(name, Moments()).merge(later.get(name, Moments())) for name in sorted({*first, *later})}
