"""Words for targets: what they stand for, for any number of brokers."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from chaos.driver import ClusterView, ReplicaGroup
from chaos.experiment.targets import Target, choose, choose_led, is_target
from chaos.fault import NotNow
from tests.views import one_group


def view(brokers: int, *, master: bool = True) -> ClusterView:
    return one_group(
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


ALWAYS = [word for word in Target if word is not Target.EVENT_NODE]


@pytest.mark.parametrize("word", [*ALWAYS, "minority-third", "random(3)", "25%", "2/3", "leader", "broker-2"])
def test_each_word_is_known_and_finds_somebody(word: str) -> None:
    here = view(3)
    assert is_target(word, here.brokers) and choose(word, here, Random(1))


def test_the_node_of_an_event_is_nobody_without_one() -> None:
    assert is_target(Target.EVENT_NODE, ())
    with pytest.raises(NotNow):
        choose(Target.EVENT_NODE, view(3), Random(1))


@pytest.mark.parametrize("word", ["", "nobody", "0%", "101%", "4/3", "1/0", "random()", "random(-1)", "broker_2"])
def test_other_words_are_no_targets(word: str) -> None:
    assert not is_target(word, view(3).brokers)
    with pytest.raises(NotNow):
        choose(word, view(3), Random(1))


# Several groups


def groups(*members: str, led: bool = True) -> ClusterView:
    """A group for each text, whose letters are its replicas; the first one leads."""
    return ClusterView(
        groups=tuple(
            ReplicaGroup(name=f"group-{number}", replicas=tuple(names), leader=names[0] if led else "", epoch=1)
            for number, names in enumerate(members)
        )
    )


#: Two groups of their own nodes; partitions that share three nodes; two that share one.
APART, SHARED, JOINED = groups("abc", "defgh"), groups("abc", "bca", "cab", "abc"), groups("abc", "cde")


@pytest.mark.parametrize("here", [APART, SHARED, JOINED])
@pytest.mark.parametrize("seed", range(30))
def test_roles_are_those_of_one_group(here: ClusterView, seed: int) -> None:
    (master,) = choose("master", here, Random(seed))
    assert master in here.leaders
    (slave,) = choose("slave", here, Random(seed))
    assert any(slave in group.followers for group in here.groups)
    assert choose("followers", here, Random(seed)) in [tuple(sorted(group.followers)) for group in here.groups]


def test_the_seed_draws_the_group() -> None:
    assert {choose("master", APART, Random(seed)) for seed in range(30)} == {("a",), ("d",)}
    assert {len(choose("followers", APART, Random(seed))) for seed in range(30)} == {2, 4}


@pytest.mark.parametrize("here", [APART, SHARED, JOINED])
@pytest.mark.parametrize("seed", range(30))
def test_shares_are_those_of_every_group(here: ClusterView, seed: int) -> None:
    few, many = (set(choose(word, here, Random(seed))) for word in ("minority", "majority"))
    for group in here.groups:
        assert len(few & {*group.replicas}) <= (len(group.replicas) - 1) // 2, "a majority is left in each"
        assert len(many & {*group.replicas}) > len(group.replicas) // 2
    assert few


def test_a_minority_of_groups_apart_is_one_of_each() -> None:
    found = [choose("minority", APART, Random(seed)) for seed in range(30)]
    assert {len([name for name in one if name in "abc"]) for one in found} == {1}
    assert {len([name for name in one if name in "defgh"]) for one in found} == {2}


def test_other_words_do_not_look_at_groups() -> None:
    assert choose("all", JOINED, Random(1)) == ("a", "b", "c", "d", "e")
    assert len(choose("random(4)", JOINED, Random(1))) == len(choose("75%", JOINED, Random(1))) == 4


def test_a_group_without_a_leader_has_no_followers() -> None:
    nobody = groups("abc", "def", led=False)
    for word in ("master", "slave", "followers"):
        with pytest.raises(NotNow):
            choose(word, nobody, Random(1))
    half = ClusterView(groups=(*groups("abc", led=False).groups, *groups("def").groups))
    assert {choose("master", half, Random(seed)) for seed in range(9)} == {("d",)}


def test_who_takes_over_does_so_in_a_group_that_it_follows_in() -> None:
    assert choose_led(JOINED, Random(1), follower="e").name == "group-1"
    assert {choose_led(SHARED, Random(seed), follower="a").name for seed in range(30)} == {"group-1", "group-2"}
    with pytest.raises(NotNow, match="a can't take over from a, c"):
        choose_led(JOINED, Random(1), follower="a")


def test_one_group_needs_no_draw() -> None:
    rng, alone = Random(5), groups("abc")
    assert choose("master", alone, rng) == ("a",) and choose("followers", alone, rng) == ("b", "c")
    assert choose_led(alone, rng).leader == "a" and rng.getstate() == Random(5).getstate()


# What is known of leaders between two polls


def test_a_later_leader_replaces_the_one_of_its_group_alone() -> None:
    later = replace(APART, settled=True).with_leader("group-0", "b", 2)
    assert [group.leader for group in later.groups] == ["b", "d"] and not later.settled
    assert later.with_leader("group-0", "c", 2) is later, "an epoch has one leader"
    assert later.with_leader("nobody", "c", 9) is later


def test_a_view_says_what_keeps_it_from_being_settled() -> None:
    whole, half = (replace(group, in_sync=group.replicas) for group in APART.groups)
    assert replace(APART, groups=(whole, half)).lacks().endswith("not ready for writes")
    lost = replace(APART, groups=(replace(whole, leader=""), replace(half, in_sync=("d",))))
    assert lost.lacks() == "group-0 has no leader; e, f, g, h not in sync in group-1"
    assert ClusterView().lacks() == "no group of replicas is known"


def test_groups_that_hold_data_and_groups_that_do_not_have_words_of_their_own() -> None:
    data = ReplicaGroup(name="group-0", replicas=("store-0", "store-1", "store-2"), leader="store-1", epoch=1)
    slices = ReplicaGroup(
        name="slice-0", replicas=("broker-0", "broker-1"), leader="broker-1", epoch=1, holds_data=False
    )
    here = ClusterView(groups=(data, slices), controllers=("meta-0",), controller_leader="meta-0")
    assert choose("group-leader", here, Random(1)) == ("store-1",)
    assert choose("owner", here, Random(1)) == ("broker-1",)
    assert choose("meta-leader", here, Random(1)) == ("meta-0",)
    assert {choose("group_member", here, Random(seed)) for seed in range(50)} == {(name,) for name in data.replicas}
    assert {choose("master", here, Random(seed)) for seed in range(50)} == {("store-1",), ("broker-1",)}


def test_where_all_groups_are_of_one_kind_each_of_them_is_meant() -> None:
    assert choose("owner", view(3), Random(1)) == choose("group_leader", view(3), Random(1)) == ("broker-0",)
