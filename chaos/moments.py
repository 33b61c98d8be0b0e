"""When things happened that are too many to be told one by one: as close as pictures show it, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass

#: So many places are told apart; a screen has no more.
MOST_PLACES = 1024
#: Places are 2 ** 23 ns (8.4 ms) wide at least.
LEAST_SHIFT = 23


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """Moments after the load began fell into each of the ``places``, which ascend: a place is its number times 2 **
    ``shift`` ns. Places are as wide as it takes to have no more than :data:`MOST_PLACES`. ``whole``: they are all that
    there are."""

    shift: int = LEAST_SHIFT
    places: tuple[int, ...] = ()
    whole: bool = True

    def middles_ns(self) -> list[float]:
        """Return the middle of each place."""
        return [(place + 0.5) * 2.0**self.shift for place in self.places]
