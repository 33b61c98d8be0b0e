"""When things happened that are too many to be told one by one: as close as pictures show it, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

#: So many places are told apart; a screen has no more.
MOST_PLACES = 1024
#: Places are 2 ** 23 ns (8.4 ms) wide at least.
LEAST_SHIFT = 23
#: More bits than any number here has.
NEVER = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """Moments after the load began fell into each of the ``places``, which ascend: a place is its number times 2 **
    ``shift`` ns. Places are as wide as it takes to have no more than :data:`MOST_PLACES`, so that moments that are
    merged are the same in any bracket. ``whole``: they are all that there are."""

    shift: int = LEAST_SHIFT
    places: tuple[int, ...] = ()
    whole: bool = True

    def merge(self, later: Moments) -> Moments:
        shift = max(self.shift, later.shift)
        places = {place >> (shift - one.shift) for one in (self, later) for place in one.places}
        wider = _wider(sorted(places))
        merged = sorted({place >> wider for place in places})
        return Moments(shift=shift + wider, places=tuple(merged), whole=self.whole and later.whole)

    def middles_ns(self) -> list[float]:
        """Return the middle of each place."""
        return [(place + 0.5) * 2.0**self.shift for place in self.places]


def _wider(places: Iterable[int]) -> int:
    """Return by how many bits places must be wider to be few enough. Neighbours are one place from the highest bit on
    in which they differ; those on both sides of zero never are."""
    bits = (NEVER if one < 0 <= other else (one ^ other).bit_length() for one, other in pairwise(places))
    differ = sorted(bits, reverse=True)
    return differ[MOST_PLACES - 1] if len(differ) >= MOST_PLACES else 0


def together(first: Mapping[str, Moments], later: Mapping[str, Moments]) -> dict[str, Moments]:
    """Return those of each name together."""
    return {name: first.get(name, Moments()).merge(later.get(name, Moments())) for name in sorted({*first, *later})}
