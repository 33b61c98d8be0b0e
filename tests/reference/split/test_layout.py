"""Every queue lies in one group and one slice, and ranks number a slice's queues without a gap, for ever."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.node import Malformed
from reference.split.layout import (
    check_layout,
    group_of,
    groups_in,
    number_at,
    numbers_in,
    rank_of,
    slice_name,
    slice_number,
    slice_of,
)

LAYOUTS = st.integers(1, 40).flatmap(lambda groups: st.tuples(st.just(groups), st.integers(1, groups)))


@given(LAYOUTS, st.integers(1, 10_000), st.integers(0, 150))
def test_the_slices_hold_every_queue_once_and_ranks_number_theirs(
    layout: tuple[int, int], topic: int, queues: int
) -> None:
    groups, slices = layout
    found = []
    for one in range(slices):
        numbers = numbers_in(one, topic, queues, groups, slices)
        expected = [number for number in range(queues) if slice_of(group_of(topic, number, groups), slices) == one]
        assert list(numbers) == expected == list(numbers[:]) and len(numbers) == len(expected)
        for rank, number in enumerate(expected):
            assert rank_of(number, topic, groups, slices) == rank == numbers.index(number)
            assert number_at(one, rank, topic, queues, groups, slices) == number
            assert group_of(topic, number, groups) in groups_in(one, groups, slices)
        for rank in (-1, len(expected)):
            with pytest.raises(Malformed):
                number_at(one, rank, topic, queues, groups, slices)
        found += expected
    assert sorted(found) == list(range(queues))


@given(LAYOUTS, st.integers(1, 10_000), st.integers(0, 150), st.integers(0, 150))
def test_ranks_stay_when_a_topic_grows(layout: tuple[int, int], topic: int, queues: int, more: int) -> None:
    for one in range(layout[1]):
        before = list(numbers_in(one, topic, queues, *layout))
        assert list(numbers_in(one, topic, queues + more, *layout))[: len(before)] == before


def test_a_million_queues_cost_nothing() -> None:
    numbers = numbers_in(3, 7, 1_000_000, 4096, 20)
    assert abs(len(numbers) - 50_000) < 300
    assert numbers.index(numbers[49_000]) == 49_000 == rank_of(numbers[49_000], 7, 4096, 20)


@given(st.integers(0, 4095))
def test_a_slice_has_one_name(number: int) -> None:
    assert slice_number(slice_name(number)) == number


@pytest.mark.parametrize("name", ["", "slice-", "slice--1", "slice-01", "slice-2", "slice-x", "broker-0", "slice-²"])
def test_other_names_are_no_slice(name: str) -> None:
    with pytest.raises(Malformed):
        slice_number(name, 2)


@pytest.mark.parametrize(("groups", "slices"), [(0, 1), (4097, 1), (4, 0), (4, 5)])
def test_a_layout_that_cannot_be_is_refused(groups: int, slices: int) -> None:
    with pytest.raises(ValueError, match="must be between"):
        check_layout(groups, slices)
