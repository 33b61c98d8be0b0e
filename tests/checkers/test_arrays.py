"""What is found by addresses is what sorting would find, whatever the numbers are."""

from __future__ import annotations

from random import Random

import numpy as np

from checkers._facts import arrays
from checkers._facts.arrays import Ints

#: Dense numbers, numbers with gaps, few numbers far away, the largest ones; and -1, which stands for none.
RANGES = ((0, 20), (-1, 300), (5_000_000, 5_000_050), (0, 1 << 40), (-(1 << 63), (1 << 63) - 1))


def columns(seed: int) -> tuple[Ints, Ints]:
    rng = Random(seed)
    count = rng.choice((0, 1, 2, 50, 400))
    made = []
    for _ in range(2):
        low, high = rng.choice(RANGES)
        known = [rng.randint(low, high) for _ in range(rng.choice((1, 5, 100)))]
        made.append(np.array([rng.choice(known) for _ in range(count)], dtype=np.int64))
    return made[0], made[1]


EXAMPLES = [columns(seed) for seed in range(60)]


def test_groups_are_sorted_as_numpy_sorts_them() -> None:
    for one, two in EXAMPLES:
        order, starts = arrays.groups(one, two)
        assert order.tolist() == np.lexsort((two, one)).tolist()
        pairs = list(zip(one[order].tolist(), two[order].tolist(), strict=True))
        assert starts.tolist() == [n for n, pair in enumerate(pairs) if n == 0 or pair != pairs[n - 1]]


def test_equal_pairs_share_a_slot_and_no_others_do() -> None:
    for one, two in EXAMPLES:
        for slot, count in (arrays.slots(one, two), arrays.message_slots(one)):
            assert len(slot) == len(one) and all(0 <= place < count for place in slot.tolist())
        slot, count = arrays.slots(one, two)
        pairs = set(zip(slot.tolist(), one.tolist(), two.tolist(), strict=True))
        assert len(pairs) == len({pair[1:] for pair in pairs}) == len({pair[0] for pair in pairs})
        slot, _ = arrays.message_slots(one)
        pairs = set(zip(slot.tolist(), one.tolist(), one.tolist(), strict=True))
        assert len(pairs) == len({pair[0] for pair in pairs}) == len(np.unique(one))


def test_an_order_keeps_what_is_equal_as_it_was() -> None:
    for one, two in EXAMPLES:
        for column in (one, two, np.sort(one), one >> 20):
            assert arrays.stable_order(column).tolist() == np.argsort(column, kind="stable").tolist()


def test_numbers_are_found_among_known_ones() -> None:
    for one, two in EXAMPLES:
        known, asked = np.unique(one), np.concatenate([two, one[::3]])
        place, there = arrays.places_in(known, asked)
        assert there.tolist() == np.isin(asked, known).tolist()
        assert known[place[there]].tolist() == asked[there].tolist() and not place[~there].any()


def test_the_highest_number_of_each_key() -> None:
    for one, two in EXAMPLES:
        number = np.maximum(two, -1)
        keys, highest = arrays.tops(one, number)
        assert keys.tolist() == np.unique(one).tolist()
        assert highest.tolist() == [int(number[one == key].max()) for key in keys.tolist()]


def test_what_is_among_what() -> None:
    for one, two in EXAMPLES:
        assert arrays.distinct(one).tolist() == sorted(set(one.tolist()))
        two = np.append(two, one[::7])
        assert arrays.among(two, one).tolist() == [number in set(one.tolist()) for number in two.tolist()]
        assert arrays.occur(one, two).tolist() == [number in set(two.tolist()) for number in one.tolist()]


def test_the_highest_value_that_was_known_before() -> None:
    for key, value in EXAMPLES:
        key = np.searchsorted(np.unique(key), key)
        value = np.maximum(value, -1)
        time = np.array(Random(0).sample(range(3 * len(key)), len(key)), dtype=np.int64)
        asked = np.arange(len(key), dtype=np.int64) * 3
        high = arrays.Highest(key, time, value, 3 * len(key) + 1).before(key, asked)
        known = list(zip(key.tolist(), time.tolist(), value.tolist(), strict=True))
        for found, of, before in zip(high.tolist(), key.tolist(), asked.tolist(), strict=True):
            assert found == max((one for other, at, one in known if other == of and at < before), default=-1)
        high_of = arrays.Highest(key, time, value, 3 * len(key) + 1)
        for of in set(key.tolist()):
            values, places = high_of.records(of)
            for least in value[key == of].tolist():
                first = min(at for other, at, one in known if other == of and one >= least)
                assert int(time[places[np.searchsorted(values, least)]]) == first
