"""Makes :class:`chaos.moments.Moments` of columns, and joins them: the same in any bracket."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from chaos.moments import LEAST_SHIFT, MOST_PLACES, Moments

#: More bits than any place has.
NEVER = 64


def moments_of(times_ns: npt.NDArray[np.int64], *, whole: bool) -> Moments:
    """Return when these were, in ns since the load began. ``whole``: they are all that there are."""
    return _in(np.asarray(times_ns, np.int64) >> LEAST_SHIFT, LEAST_SHIFT, whole)


def together(first: Mapping[str, Moments], later: Mapping[str, Moments]) -> dict[str, Moments]:
    """Return those of each name together."""
    return {name: _merged(first.get(name, Moments()), later.get(name, Moments())) for name in sorted({*first, *later})}


def _merged(one: Moments, other: Moments) -> Moments:
    shift = max(one.shift, other.shift)
    places = [np.array(each.places, np.int64) >> (shift - each.shift) for each in (one, other)]
    return _in(np.concatenate(places), shift, one.whole and other.whole)


def _in(places: npt.NDArray[np.int64], shift: int, whole: bool) -> Moments:
    """Return the moments in these places, wider ones if they are too many. Neighbours are one place from the highest
    bit on in which they differ; those on both sides of zero never are."""
    places = np.unique(places)
    bits = np.frexp((places[1:] ^ places[:-1]).astype(np.float64))[1]
    bits[(places[:-1] < 0) & (places[1:] >= 0)] = NEVER
    wider = int(np.sort(np.append(np.zeros(MOST_PLACES, bits.dtype), bits))[-MOST_PLACES])
    return Moments(shift=shift + wider, places=tuple(np.unique(places >> wider).tolist()), whole=whole)
