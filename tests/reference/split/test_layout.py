"""Every queue lies in one group and one slice, and ranks number a slice's queues without a gap, for ever."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.node import Malformed
from reference.split.layout import (
    check_layout,
    count_in,
    group_of,
    groups_in,
    number_at,
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
        expected = [number for number in range(queues) if slice_of(group_of(topic, number, groups), slices) == one]
        assert count_in(one, topic, queues, groups, slices) == len(expected)
        for rank, number in enumerate(expected):
            assert rank_of(number, topic, groups, slices) == rank
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
        for rank in range(count_in(one, topic, queues, *layout)):
            before = number_at(one, rank, topic, queues, *layout)
            assert number_at(one, rank, topic, queues + more, *layout) == before


def test_a_million_queues_cost_nothing() -> None:
    assert abs(count_in(3, 7, 1_000_000, 4096, 20) - 50_000) < 300
    assert rank_of(number_at(3, 49_000, 7, 1_000_000, 4096, 20), 7, 4096, 20) == 49_000


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
