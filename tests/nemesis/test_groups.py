"""Faults on a system with several groups of replicas: each stays within one of them, and spares who leads any."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from chaos.driver import ClusterView, ReplicaGroup
from chaos.fault import NotNow
from chaos.plugins import PluginKind, load
from nemesis._lives import comes_back


def group(name: str, members: str) -> ReplicaGroup:
    return ReplicaGroup(name=name, replicas=tuple(members), leader=members[0], epoch=ord(name), in_sync=tuple(members))


#: Partitions: ``a`` and ``b`` lead one each, ``c`` and ``d`` none.
VIEW = ClusterView(groups=(group("p", "abc"), group("q", "bda")), settled=True)


@dataclass
class World:
    view: ClusterView = VIEW
    switched: list[tuple[str, str]] = field(default_factory=list)
    deployment: object = None

    async def switch(self, target: str, *, group: str = "", forced: bool = False) -> Mapping[str, object]:
        self.switched.append((group, target))
        (own,) = [one for one in self.view.groups if one.name == group]
        assert target in own.followers
        self.view = self.view.with_leader(group, target, own.epoch + 1)
        return {}

    def prove(self, injection: object, proof: object) -> None: ...


def fault(name: str, **options: Any) -> Any:
    module = load(PluginKind.FAULT, name)
    return module.create(module.Options(**options))


@pytest.mark.parametrize("seed", range(20))
def test_a_switch_goes_to_a_follower_of_the_group_that_it_names(seed: int) -> None:
    injection = fault("switch").plan(VIEW, Random(seed), "t")
    (one,) = [one for one in VIEW.groups if one.name == injection.detail["group"]]
    assert injection.detail["from"] == one.leader and injection.detail["epoch"] == one.epoch
    assert injection.targets[0] in one.followers


def test_a_switch_to_a_certain_node_is_of_a_group_that_it_follows_in() -> None:
    assert fault("switch", target="d").plan(VIEW, Random(1), "t").detail["group"] == "q"
    with pytest.raises(NotNow, match="x can't take over from a, b"):
        fault("switch", target="x").plan(replace(VIEW, others=("x",)), Random(1), "t")


def test_with_one_group_nothing_names_it() -> None:
    alone = ClusterView(groups=VIEW.groups[:1], settled=True)
    assert "group" not in fault("switch").plan(alone, Random(1), "t").detail
    assert "group" not in fault("switch_storm").plan(alone, Random(1), "t").detail


@pytest.mark.parametrize("seed", range(10))
def test_a_storm_of_switches_stays_in_its_group(seed: int) -> None:
    storm, world = fault("switch_storm", switches=4), World()
    injection = storm.plan(world.view, Random(seed), "t")
    (own,) = [one for one in VIEW.groups if one.name == injection.detail["group"]]
    assert {*injection.targets} == {*own.replicas} and injection.targets[0] == own.leader

    async def rest(seconds: float) -> bool:
        return True

    async def main() -> None:
        await storm.inject(world, injection)
        await storm.act(world, injection, rest)

    asyncio.run(main())
    assert [name for name, _ in world.switched] == [own.name] * 4


def test_a_demoted_node_leads_nothing_any_more() -> None:
    demote, world = fault("demote"), World()
    injection = demote.plan(VIEW, Random(3), "t")
    (node,) = injection.targets
    assert node in VIEW.leaders and not demote.achieved(world, injection)
    others = tuple(replace(one, leader=next(name for name in one.replicas if name != node)) for one in VIEW.groups)
    world.view = replace(VIEW, groups=others)
    assert demote.achieved(world, injection)
    world.view = replace(VIEW, groups=(others[0], replace(others[1], leader="")))
    assert not demote.achieved(world, injection), "one of its groups has no leader yet"


@pytest.mark.parametrize("name", ["wipe", "membership", "truncate", "bit_flip"])
def test_who_leads_any_group_keeps_its_data(name: str) -> None:
    for node in "ab":
        with pytest.raises(NotNow):
            fault(name, target=node).plan(VIEW, Random(1), "t")
    assert fault(name, target="c").plan(VIEW, Random(1), "t").targets == ("c",)
    behind = replace(VIEW, groups=(VIEW.groups[0], replace(VIEW.groups[1], in_sync=("b", "d"))))
    with pytest.raises(NotNow, match="out of sync"):
        fault(name, target="c").plan(behind, Random(1), "t")


def test_a_node_is_back_when_it_is_in_sync_in_all_of_its_groups() -> None:
    async def rest(seconds: float) -> bool:
        world.view = VIEW
        looks.append(seconds)
        return True

    looks: list[float] = []
    world: Any = World(replace(VIEW, groups=(VIEW.groups[0], replace(VIEW.groups[1], in_sync=("b", "d")))))
    assert asyncio.run(comes_back(world, "a", rest, pause_s=0.0, within_s=5.0)) and looks
