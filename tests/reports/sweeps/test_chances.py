"""Bounds of probabilities are those of the books, also at their ends."""

from __future__ import annotations

import pytest

from reports.sweeps.chances import Share, at_most


@pytest.mark.parametrize(
    ("hits", "tries", "low", "high"), [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634)]
)
def test_wilsons_interval(hits: int, tries: int, low: float, high: float) -> None:
    share = Share(hits=hits, tries=tries)
    assert (share.low, share.high) == pytest.approx((low, high), abs=1e-4)


def test_of_no_tries_nothing_is_known() -> None:
    share = Share(hits=0, tries=0)
    assert (share.value, share.low, share.high, at_most(0, 0)) == (0.0, 0.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("hits", "tries", "bound"), [(0, 100, 0.029513), (1, 10, 0.394163), (10, 10, 1.0), (0, 1, 0.95)]
)
def test_the_bound_of_clopper_and_pearson(hits: int, tries: int, bound: float) -> None:
    assert at_most(hits, tries) == pytest.approx(bound, abs=1e-6)
