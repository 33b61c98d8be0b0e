"""When faults strike."""

from __future__ import annotations

import itertools
from random import Random

from chaos.driver import ClusterView, ReplicaGroup
from chaos.experiment.model import Schedule, Trigger
from chaos.experiment.schedule import LEAST_GAP_S, Watch, moments
from tests.views import one_group

VIEW = one_group(brokers=("broker-0", "broker-1"), master="broker-1")


def test_fixed_moments_come_in_order_and_end_with_the_load() -> None:
    assert tuple(moments(Schedule(at_s=(5.0, 1.0, 9.0)), 8.0, Random(1))) == (1.0, 5.0)


def test_periodic_moments_are_multiples_before_the_end() -> None:
    assert tuple(moments(Schedule(every_s=1.5), 6.0, Random(1))) == (1.5, 3.0, 4.5)


def test_a_period_that_a_swarm_has_made_longer_than_the_load_strikes_once_all_the_same() -> None:
    for every_s in (6.0, 11.0):
        (moment,) = moments(Schedule(every_s=every_s), 6.0, Random(1))
        assert 0 <= moment < 6.0


def test_random_moments_come_from_the_seed_and_keep_their_mean() -> None:
    schedule = Schedule(mean_s=2.0)
    found = tuple(moments(schedule, 2000.0, Random(7)))
    assert found == tuple(moments(schedule, 2000.0, Random(7))) != tuple(moments(schedule, 2000.0, Random(8)))
    assert 850 < len(found) < 1150
    gaps = [after - before for before, after in itertools.pairwise(found)]
    assert min(gaps) >= LEAST_GAP_S - 1e-9


def test_a_schedule_on_an_event_has_no_moments() -> None:
    assert tuple(moments(Schedule(when=Trigger(event="role")), 100.0, Random(1))) == ()


def test_a_watch_skips_then_fires_so_many_times() -> None:
    watch = Watch(Trigger(event="tier_commit", skip=2, times=2))
    row = {"f": "tier_commit", "node": "broker-0"}
    assert [watch.due(row, VIEW, 1.0) for _ in range(6)] == [False, False, True, True, False, False]
    assert watch.spent


def test_a_watch_with_a_gap_passes_over_what_comes_too_soon_after_it_fired() -> None:
    watch = Watch(Trigger(event="tier_commit", skip=1, times=3, gap_s=2.0))
    row = {"f": "tier_commit", "node": "broker-0"}
    moments_s = (0.0, 0.5, 1.0, 2.4, 2.5, 3.0, 4.4, 9.0, 20.0)
    assert [now_s for now_s in moments_s if watch.due(row, VIEW, now_s)] == [0.5, 2.5, 9.0]
    assert watch.spent


def test_a_watch_counts_only_events_of_its_node() -> None:
    def due(word: str, node: str, event: str = "role") -> bool:
        return Watch(Trigger(event="role", node=word)).due({"f": event, "node": node}, VIEW, 0.0)

    assert due("master", "broker-1") and not due("master", "broker-0")
    assert due("slave", "broker-0") and not due("slave", "broker-1") and not due("slave", "controller-0")
    assert due("any", "controller-0") and due("controller-0", "controller-0") and not due("broker-0", "broker-1")
    assert not due("any", "broker-0", event="append")


def test_a_node_of_several_groups_may_be_master_and_slave() -> None:
    groups = (
        ReplicaGroup(name="p-0", replicas=("a", "b"), leader="a"),
        ReplicaGroup(name="p-1", replicas=("b", "a"), leader="b"),
        ReplicaGroup(name="p-2", replicas=("c",), leader="c"),
    )

    def due(word: str, node: str) -> bool:
        view = ClusterView(groups=groups)
        return Watch(Trigger(event="role", node=word)).due({"f": "role", "node": node}, view, 0.0)

    assert [due("master", node) for node in "abc"] == [True, True, True]
    assert [due("slave", node) for node in "abc"] == [True, True, False]
