"""Where slices and groups go: evenly, one step at a time, and never below a majority."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.split.meta.entries import Entry
from reference.split.meta.placement import balancing_move, births, levelling_move, vacancies, wishes
from reference.split.meta.state import ClusterCatalog, ClusterState
from reference.split.names import node_of


class Plan:
    """A state machine of which all decisions are applied at once."""

    def __init__(self, groups: int = 8, slices: int = 4) -> None:
        self.state = ClusterState(ClusterCatalog(), groups=groups, slices=slices)
        self.cluster, self.groups, self.slices = self.state.cluster, groups, slices

    def brokers(self, *names: str) -> None:
        for name in names:
            self.state.apply({"op": "register_broker", "node": name, "nonce": "n"})

    def stores(self, *zones: str) -> None:
        for number, zone in enumerate(zones):
            self.state.apply({"op": "register_store", "node": f"store-{number}", "word": "w", "zone": zone})

    def drain(self, name: str) -> None:
        self.state.apply({"op": "drain", "node": name, "undo": False})

    def lose(self, name: str) -> None:
        store = self.cluster.store(name)
        assert store is not None
        self.state.apply({"op": "lost", "node": name, "disk": store.disk})

    def end(self, name: str) -> None:
        broker = self.cluster.broker(name)
        assert broker is not None
        self.state.apply({"op": "ended", "node": name, "life": broker.life})

    def settle(self) -> int:
        """Apply all decisions about slices; return how many moves there were."""
        for entry in vacancies(self.cluster, self.slices):
            assert self.state.apply(entry).code == 0
        moves = 0
        while (entry := balancing_move(self.cluster, self.slices)) is not None:
            assert self.state.apply(entry).code == 0
            moves += 1
        return moves

    def owned(self) -> Counter[str]:
        return Counter(self.cluster.owner(number).broker for number in range(self.slices))

    def born(self, replicas: int = 3) -> None:
        for entry in births(self.cluster, self.groups, replicas, self.groups):
            assert self.state.apply(entry).code == 0

    def move(self, moves: int) -> None:
        """Apply wishes, and let every group that changes arrive there."""
        self.arrive([*wishes(self.cluster, moves)], moves)

    def level(self) -> int:
        """Apply all moves that spread groups more evenly; return how many there were."""
        count = 0
        while (entry := levelling_move(self.cluster)) is not None:
            self.arrive([entry], 1)
            count += 1
        return count

    def arrive(self, entries: Sequence[Entry], moves: int) -> None:
        for entry in entries:
            assert self.state.apply(entry).code == 0
        moving = [group for group in self.cluster.groups() if not group.is_settled]
        assert len(moving) <= moves
        for group in moving:
            assert 2 * len(set(group.voters) & set(group.wanted)) > len(group.voters)
            report = {"op": "report", "group": group.number, "index": group.index + 1}
            self.state.apply({**report, "voters": list(group.wanted), "learners": []})

    def held(self) -> Counter[str]:
        return Counter(node_of(name) for group in self.cluster.groups() for name in group.voters)


@given(st.integers(1, 5), st.integers(1, 12))
def test_slices_are_spread_evenly_and_nothing_moves_twice(brokers: int, slices: int) -> None:
    it = Plan(16, slices)
    it.brokers(*(f"broker-{number}" for number in range(brokers)))
    assert it.settle() == 0, "vacancies are filled evenly"
    counts = [it.owned()[f"broker-{number}"] for number in range(brokers)]
    assert sum(counts) == slices and max(counts) - min(counts) <= 1
    it.brokers("broker-x")
    assert it.settle() == slices // (brokers + 1)
    it.end("broker-0")
    it.settle()
    assert "broker-0" not in it.owned() and sum(it.owned().values()) == slices


def test_a_broker_that_drains_gives_everything_away_unless_it_is_the_last() -> None:
    it = Plan()
    it.brokers("a", "b")
    it.settle()
    it.drain("a")
    assert it.settle() == 2 and it.owned() == {"b": 4}
    it.drain("b")
    assert it.settle() == 0 and it.owned() == {"b": 4}
    it.end("b")
    assert vacancies(it.cluster, 4) == [
        {"op": "orphaned", "slice": n, "after": it.cluster.owner(n).epoch} for n in range(4)
    ]
    it.settle()
    assert it.owned() == {"": 4} and vacancies(it.cluster, 4) == []


@pytest.mark.parametrize("zones", ["abc", "abcabc", "aabbcc", "aab", "aaaa", "abcdefg"])
def test_groups_are_born_evenly_in_zones_of_their_own_where_there_are_enough(zones: str) -> None:
    it = Plan(28)
    it.stores(*zones[:2])
    assert births(it.cluster, 28, 3, 28) == []
    it.stores(*zones)
    it.born()
    zone = {f"store-{number}": name for number, name in enumerate(zones)}
    for group in it.cluster.groups():
        found = {zone[node_of(name)] for name in group.voters}
        assert len(group.voters) == 3 and len(found) == min(3, len(set(zones)))
    if len(set(zones)) in (1, 3, len(zones)) and zones != "aab":
        counts = [it.held()[name] for name in zone]
        assert max(counts) - min(counts) <= 1


def test_a_lost_store_is_replaced_before_a_drained_one_and_few_groups_move_at_once() -> None:
    it = Plan()
    it.stores(*"abcde")
    it.born()
    it.drain("store-0")
    it.lose("store-1")
    first = wishes(it.cluster, 1)
    assert len(first) == 1
    group = it.cluster.group(first[0]["group"])
    assert group is not None and not any("store-1#" in name for name in first[0]["wanted"])
    for _ in range(20):
        it.move(2)
    assert set(it.held()) == {"store-2", "store-3", "store-4"} and wishes(it.cluster, 2) == []


def test_with_nowhere_to_go_nothing_is_wished_for_and_a_wiped_store_takes_its_own_place() -> None:
    it = Plan()
    it.stores(*"abc")
    it.born()
    it.lose("store-1")
    assert wishes(it.cluster, 8) == []
    it.state.apply({"op": "register_store", "node": "store-1", "word": "wiped", "zone": "b"})
    it.move(8)
    store = it.cluster.store("store-1")
    assert store is not None and all(store.replica in group.voters for group in it.cluster.groups())


def test_a_newcomer_that_dies_on_its_way_is_replaced_and_the_one_that_came_back_stays() -> None:
    it = Plan(1, 1)
    it.stores(*"abcd")
    it.born()
    it.lose("store-1")
    (wish,) = wishes(it.cluster, 1)
    it.state.apply(wish)
    it.lose("store-3")
    assert wishes(it.cluster, 1) == []
    store = it.cluster.store("store-1")
    assert store is not None
    it.state.apply({"op": "seen", "node": "store-1", "disk": store.disk})
    (again,) = wishes(it.cluster, 1)
    it.state.apply(again)
    group = it.cluster.group(0)
    assert group is not None and group.is_settled and store.replica in group.wanted


def test_a_store_that_joins_gets_its_share_and_no_zone_is_lost() -> None:
    it = Plan(12)
    it.stores(*"abc")
    it.born()
    it.stores(*"abca")
    assert it.level() == 6 and it.held() == {"store-0": 6, "store-1": 12, "store-2": 12, "store-3": 6}
    it.stores(*"abcabc")
    it.level()
    assert set(it.held().values()) == {6}
    zones = {f"store-{number}": zone for number, zone in enumerate("abcabc")}
    assert all(len({zones[node_of(name)] for name in group.voters}) == 3 for group in it.cluster.groups())
    it.drain("store-5")
    assert levelling_move(it.cluster) is None, "what drains is no place to go to, nor too full"


@settings(max_examples=30)
@given(st.data())
def test_whatever_happens_to_stores_groups_keep_their_size_and_come_to_rest(data: st.DataObject) -> None:
    it = Plan()
    it.stores(*data.draw(st.lists(st.sampled_from("abc"), min_size=5, max_size=8)))
    it.born()
    names = [store.name for store in it.cluster.stores()]
    for name in data.draw(st.lists(st.sampled_from(names), max_size=2, unique=True)):
        data.draw(st.sampled_from([it.drain, it.lose]))(name)
        it.move(3)
    for _ in range(60):
        it.move(3)
    assert wishes(it.cluster, 3) == []
    it.level()
    able = {store.name for store in it.cluster.stores() if store.may_hold}
    assert set(it.held()) <= able and all(len(group.voters) == 3 for group in it.cluster.groups())
