"""Whole numbers that occur are found as numpy finds them."""

from __future__ import annotations

import numpy as np
import pytest

from chaos.history.parted import numbers


@pytest.mark.parametrize("count", [0, 1, 2, 50])
@pytest.mark.parametrize("most", [1, 7, 1 << 62])
def test_numbers_that_occur_are_those_of_numpy(count: int, most: int) -> None:
    rng = np.random.default_rng([count, most])
    for _ in range(20):
        one, two = (rng.integers(-most, most, count) for _ in range(2))
        assert numbers.distinct(one).tolist() == np.unique(one).tolist()
        few = two[: count // 2]
        assert numbers.among(one, few).tolist() == np.isin(one, few).tolist()


@pytest.mark.parametrize("seed", range(30))
def test_wanted_numbers_are_found_in_any_block(seed: int) -> None:
    rng = np.random.default_rng(seed)
    index = rng.choice(60, int(rng.integers(0, 20)), replace=bool(seed % 3 == 0))
    index = np.sort(index) if seed % 2 else index
    wanted = np.unique(rng.integers(0, 60, int(rng.integers(0, 30))))
    assert numbers.wanted(index, wanted).tolist() == [one in wanted for one in index.tolist()]
