"""Moments are the same in whatever pieces they come, and no more than a screen has room for."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from chaos.merged_moments import moments_of, together
from chaos.moments import LEAST_SHIFT, MOST_PLACES, Moments

PLACE_NS = 1 << LEAST_SHIFT


def of(times_ns: object, *, whole: bool = True) -> Moments:
    return moments_of(np.asarray(times_ns, np.int64), whole=whole)


def merge(one: Moments, other: Moments) -> Moments:
    return together({"it": one}, {"it": other})["it"]


@pytest.mark.parametrize("spread", [3, 900, 1_024, 5_000, 10**6])
def test_they_are_the_same_in_any_bracket(spread: int) -> None:
    rng = np.random.default_rng(spread)
    times = rng.integers(0, spread, 3_000) * PLACE_NS + rng.integers(0, PLACE_NS, 3_000) - spread // 3 * PLACE_NS
    every = of(times)
    assert 0 < len(every.places) <= MOST_PLACES and every.whole
    assert reduce(merge, (of([one]) for one in times.tolist())) == every
    for seed in range(5):
        cuts = np.sort(np.random.default_rng(seed).integers(0, 3_000, 7))
        parts = [of(part) for part in np.split(times, cuts)]
        left = reduce(merge, parts)
        right = reduce(lambda later, one: merge(one, later), reversed(parts))
        assert left == right == every
    nearest = np.abs(np.array(every.middles_ns())[:, None] - times[None, :]).min(axis=1)
    assert nearest.max() <= 2.0**every.shift  # each place has a moment
    assert set((times >> every.shift).tolist()) == set(every.places)


def test_places_are_as_wide_as_they_must_be_and_no_wider() -> None:
    assert of(np.arange(MOST_PLACES) * PLACE_NS).shift == LEAST_SHIFT
    assert of(np.arange(MOST_PLACES + 1) * PLACE_NS).shift == LEAST_SHIFT + 1
    assert of([]).places == () and of([5, 6, PLACE_NS]).places == (0, 1)


def test_what_lacks_some_in_one_piece_lacks_some() -> None:
    found = together({"lost": of([1]), "skipped": of([2], whole=False)}, {"lost": of([3 * PLACE_NS]), "late": of([4])})
    assert {name: (one.places, one.whole) for name, one in found.items()} == {
        "late": ((0,), True),
        "lost": ((0, 3), True),
        "skipped": ((0,), False),
    }
