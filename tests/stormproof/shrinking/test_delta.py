"""The search on made-up predicates: what it returns fails, and without any one part of it nothing fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from stormproof.shrinking.delta import fewest, least, lower, stable


class Tries:
    """Answers which candidate fails first, and keeps all that were tried."""

    def __init__(self, fails: Callable[[Any], bool]) -> None:
        self.fails = fails
        self.seen: list[Any] = []

    def __call__(self, candidates: Sequence[Any]) -> int | None:
        assert candidates
        self.seen += candidates
        return next((place for place, one in enumerate(candidates) if self.fails(one)), None)


def predicate(rng: Random, items: Sequence[int]) -> Callable[[Sequence[int]], bool]:
    """Needs all of one of a few groups of items; often not monotone, as real failures are."""
    groups = [set(rng.sample(items, rng.randint(0, min(4, len(items))))) for _ in range(rng.randint(1, 3))]
    spoiled = set(rng.sample(items, min(2, len(items)))) if rng.random() < 0.5 else set()

    def fails(some: Sequence[int]) -> bool:
        held = set(some)
        return any(group <= held for group in groups) and not (spoiled and held & spoiled == spoiled and len(held) % 2)

    return fails


@pytest.mark.parametrize("keep", [0, 1, 2])
def test_the_fewest_items_fail_and_none_of_them_can_be_left_out(keep: int) -> None:
    for seed in range(400):
        rng = Random(f"{seed}/{keep}")
        items = tuple(range(rng.randint(keep, 24)))
        fails = predicate(rng, items)
        if not fails(items):
            continue
        tries = Tries(fails)
        left = fewest(items, tries, keep=keep)
        assert fails(left)
        assert list(left) == sorted(left) and set(left) <= set(items) and len(left) >= keep
        assert items not in tries.seen, "what is known to fail was tried again"
        assert all(len(some) >= keep for some in tries.seen)
        for place in range(len(left)):
            assert len(left) == keep or not fails(left[:place] + left[place + 1 :]), (seed, left)


def test_nothing_is_tried_first() -> None:
    tries = Tries(lambda some: True)
    assert fewest("abc", tries) == ()
    assert tries.seen == [()]


def test_one_of_many_is_found_in_few_tries() -> None:
    tries = Tries(lambda some: 700 in some)
    assert fewest(range(1000), tries) == (700,)
    assert len(tries.seen) < 50


def test_equal_items_are_told_apart() -> None:
    assert fewest("aabaa", Tries(lambda some: some.count("a") >= 3)) == ("a", "a", "a")


@pytest.mark.parametrize(("value", "floor"), [(45.0, 0.0), (12.345678, 0.01), (9, 1), (1, 1), (0.5, 0.0), (100, 1)])
def test_lower_numbers_begin_with_the_least(value: float, floor: float) -> None:
    found = lower(value, floor, 1 if isinstance(value, int) else 0.0)
    assert found == sorted(set(found))
    assert all(floor <= number < value for number in found)
    assert (found[0] == floor) if value > floor else not found


def test_the_least_number_still_fails_and_no_step_below_it_does() -> None:
    for seed in range(300):
        rng = Random(seed)
        value, bound = rng.randint(1, 5000), rng.randint(0, 5000)
        if value < bound:
            continue
        fails = lambda number, bound=bound: number >= bound  # noqa: E731
        found = least(value, lambda number: lower(number, 0, 1), Tries(fails))
        assert found == bound


def test_passes_are_repeated_until_a_round_changes_nothing() -> None:
    rounds = []

    def halve(value: int) -> int:
        rounds.append(value)
        return value // 2 if value > 3 else value

    def less(value: int) -> int:
        return value - 1 if value % 2 and value > 3 else value

    assert stable(100, [halve, less]) <= 3
    assert rounds[-1] == rounds[-2] or rounds[-1] <= 3
