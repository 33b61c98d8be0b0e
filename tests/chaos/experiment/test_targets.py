"""Words for targets: what they stand for, for any number of brokers."""

from __future__ import annotations

from random import Random

import pytest

from chaos.driver import ClusterView
from chaos.experiment.targets import Target, choose, is_target
from chaos.fault import NotNow


def view(brokers: int, *, master: bool = True) -> ClusterView:
    return ClusterView(
        brokers=tuple(f"broker-{n}" for n in range(brokers)),
        controllers=("controller-0", "controller-1", "controller-2"),
        others=("nameserver-0",),
        tier=("store-0",),
        master="broker-0" if master else "",
        controller_leader="controller-1",
    )


def count(word: str, brokers: int) -> int:
    return len(choose(word, view(brokers), Random(1)))


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("one", [1] * 9),
        ("minority", [1, 1, 1, 1, 2, 2, 3, 3, 4]),
        ("minority-third", [1, 1, 1, 1, 1, 1, 2, 2, 2]),
        ("majority", [1, 2, 2, 3, 3, 4, 4, 5, 5]),
        ("all", [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ("random(2)", [1, 2, 2, 2, 2, 2, 2, 2, 2]),
        ("50%", [1, 1, 2, 2, 3, 3, 4, 4, 5]),
        ("1/3", [1, 1, 1, 2, 2, 2, 3, 3, 3]),
        ("controllers", [3] * 9),
        ("controller_minority", [1] * 9),
    ],
)
def test_words_for_many_stand_for_this_many_of_one_to_nine_brokers(word: str, expected: list[int]) -> None:
    assert [count(word, brokers) for brokers in range(1, 10)] == expected


def test_words_for_roles() -> None:
    here = view(4)
    assert choose("primaries", here, Random(1)) == choose("master", here, Random(1)) == ("broker-0",)
    assert choose("followers", here, Random(1)) == ("broker-1", "broker-2", "broker-3")
    assert choose("controller-leader", here, Random(1)) == ("controller-1",)
    assert choose("tier", here, Random(1)) == ("store-0",)
    assert choose("nameserver-0", here, Random(1)) == choose("nameserver", here, Random(1)) == ("nameserver-0",)
    assert "broker-0" not in choose("slave", here, Random(1))


def test_random_is_never_nobody() -> None:
    assert {len(choose("random", view(3), Random(seed))) for seed in range(50)} == {1, 2, 3}


@pytest.mark.parametrize("word", ["slave", "followers", "master"])
def test_without_a_master_nobody_is_its_slave(word: str) -> None:
    with pytest.raises(NotNow):
        choose(word, view(3, master=False), Random(1))


@pytest.mark.parametrize("word", [*Target, "minority-third", "random(3)", "25%", "2/3", "leader", "broker-2"])
def test_each_word_is_known_and_finds_somebody(word: str) -> None:
    here = view(3)
    assert is_target(word, here.brokers) and choose(word, here, Random(1))


@pytest.mark.parametrize("word", ["", "nobody", "0%", "101%", "4/3", "1/0", "random()", "random(-1)", "broker_2"])
def test_other_words_are_no_targets(word: str) -> None:
    assert not is_target(word, view(3).brokers)
    with pytest.raises(NotNow):
        choose(word, view(3), Random(1))
