"""A broker under everything at once: it never says what isn't so, and each of its decisions is needed for that."""

from __future__ import annotations

from typing import Any

import pytest

from reference.split.broker.appending import Appends, Batch
from reference.wire.codes import Request
from tests.reference.split.broker_storm import Storm

STEPS = 150


def stormy(seed: int, *, loses_slice: bool, **parts: Any) -> Storm:
    storm = Storm(seed, **parts)
    while not storm.traced("opened"):
        storm.step()
    for _ in range(STEPS):
        storm.step()
    if loses_slice:
        storm.take_over()
        for _ in range(STEPS // 3):
            storm.step()
    storm.settle()
    storm.check()
    return storm


@pytest.mark.parametrize("seed", range(15))
def test_whatever_is_lost_a_broker_says_only_what_is_so(seed: int) -> None:
    storm = stormy(seed, loses_slice=bool(seed % 2))
    if not seed % 2:  # the slice is served on
        assert not any(storm.waiting(code) for code in (Request.GROUP_APPEND, Request.GROUP_CONFIRM))
        stored = {storm.sends[number] for number in storm.sends if storm.code(number) in (0, 12)}
        assert stored <= set(storm.bodies) and storm.code(storm.send(b"last")) is None


class FencedMeansNotStored(Appends):
    """An owner that is fenced off says that what waits is not stored."""

    def is_definite(self, batch: Batch) -> bool:
        return True


class AcknowledgedBeforeReadable(Appends):
    """Producers have their answers before readers see anything."""

    _shown = 0

    def stored(self, env: Any, batch: Batch) -> None:
        end = self.acknowledged_end()
        self.answer(env, end)
        self.show(self._shown)
        self._shown = end


@pytest.mark.parametrize("bug", [FencedMeansNotStored, AcknowledgedBeforeReadable])
def test_without_one_of_its_decisions_it_says_what_is_not_so(bug: type[Appends]) -> None:
    def is_found(seed: int) -> bool:
        try:
            stormy(seed, loses_slice=True, appends=bug)
        except AssertionError:
            return True
        return False

    assert any(is_found(seed) for seed in range(20))
