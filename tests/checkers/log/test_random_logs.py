"""Random histories have the verdict that the page of the promise gives them, however they are divided."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from chaos import findings
from tests.checkers.log.logs import judged
from tests.checkers.log.random_logs import logs
from tests.checkers.log.slow import Slow


def check(seeds: range, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    monkeypatch.setattr(findings, "MAX_REPORTED", 1 << 40)
    seen: Counter[str] = Counter()
    for seed in seeds:
        history = logs(Random(f"logs {seed}"))
        found = Counter((one.name, one.queue, one.offset) for one in judged(history).anomalies)
        assert found == Slow(history).judged(), seed
        seen.update(name for name, _, _ in found)
    return seen


def test_random_histories_are_judged_as_the_page_says(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = check(range(40), monkeypatch)
    assert len(seen) >= 15, seen


@pytest.mark.full
def test_many_random_histories_are_judged_as_the_page_says(monkeypatch: pytest.MonkeyPatch) -> None:
    check(range(40, 2_000), monkeypatch)
