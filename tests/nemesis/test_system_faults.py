"""Faults of the system under test itself: who takes over when, and which rule the tier is given."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from chaos.driver import ClusterView, TierEffect, TierRequest, TierRule
from chaos.fault import Effect, Fault, Injection, NotNow, Verb
from chaos.plugins import PluginKind, load, options_class, resolve
from tests.views import changed, one_group

BROKERS = ("broker-0", "broker-1", "broker-2")
VIEW = one_group(brokers=BROKERS, tier=("store-0",), master="broker-0", epoch=3, in_sync=BROKERS, settled=True)


@dataclass
class World:
    """A group that switches to whom it is told to, unless that one is ``behind``."""

    view: ClusterView = VIEW
    behind: tuple[str, ...] = ()
    masters: list[str] = field(default_factory=list)
    forced: list[bool] = field(default_factory=list)
    rules: dict[str, TierRule] = field(default_factory=dict)
    done: list[tuple[str, str]] = field(default_factory=list)
    keeps: bool = False
    proven: list[Effect] = field(default_factory=list)

    @property
    def deployment(self) -> World:
        return self

    async def switch(self, target: str, *, group: str = "", forced: bool = False) -> Mapping[str, object]:
        self.forced.append(forced)
        if target in self.behind:
            raise NotNow("refused")
        self.masters.append(target)
        self.view = changed(self.view, master=target)
        return {"to": target}

    def prove(self, injection: Injection, proof: Mapping[str, object], *only: Effect) -> None:
        assert proof and set(proof) <= set(injection.targets) and {*only} <= {*(injection.effects or {})}
        self.proven += only

    async def break_tier(self, rule_id: str, rule: TierRule) -> None:
        self.rules[rule_id] = rule

    async def kill(self, node: str) -> Mapping[str, object]:
        self.done.append(("kill", node))
        return {}

    async def wipe(self, node: str) -> Mapping[str, object]:
        self.done.append(("wipe", node))
        return {}

    async def remove(self, node: str) -> Mapping[str, object]:
        self.done.append(("remove", node))
        if self.keeps:
            raise NotNow("no controller leads")
        return {"removed": node}

    async def start(self, node: str, injection: Injection) -> bool:
        raise AssertionError("nobody was down")


def fault(name: str, **options: Any) -> Any:
    meant = resolve(PluginKind.FAULT, name)
    module = load(PluginKind.FAULT, meant.plugin)
    return module.create(options_class(module)(**{**meant.options, **options}))


async def _inject(it: Fault, world: World, injection: Injection) -> Mapping[str, object]:
    return await it.inject(world, injection)


def storm(world: World, *, rests: int = 1000, seed: int = 1, **options: Any) -> Injection:
    it = fault("switch_storm", **options)
    injection: Injection = it.plan(world.view, Random(seed), "t")
    left = rests

    async def rest(seconds: float) -> bool:
        nonlocal left
        left -= 1
        return left >= 0

    async def main() -> None:
        await it.inject(world, injection)
        await it.act(world, injection, rest)

    asyncio.run(main())
    return injection


def test_a_switch_storm_goes_round_the_brokers() -> None:
    for seed in range(10):
        world = World()
        injection = storm(world, seed=seed, switches=7)
        one, other = injection.targets[1:]
        assert injection.passes and not injection.undo and injection.targets[0] == "broker-0"
        assert world.masters == [one, other, "broker-0", one, other, "broker-0", one]


def test_a_switch_storm_passes_over_whoever_is_not_in_sync_and_goes_on_after_a_refusal() -> None:
    world = World(view=changed(VIEW, in_sync=BROKERS[:2]))
    storm(world, switches=3)
    assert world.masters == ["broker-1", "broker-0", "broker-1"]
    refusing = World(behind=("broker-0",))
    storm(refusing, switches=9)
    assert "broker-0" not in refusing.masters and len(refusing.forced) == 9


def test_a_switch_storm_ends_when_it_is_told_to() -> None:
    world = World()
    storm(world, rests=2, switches=100)
    assert len(world.masters) == 3


@pytest.mark.parametrize("view", [changed(VIEW, master=""), changed(VIEW, in_sync=BROKERS[:1])])
def test_there_is_no_switch_storm_where_nobody_can_take_over(view: ClusterView) -> None:
    with pytest.raises(NotNow):
        fault("switch_storm").plan(view, Random(1), "t")


def test_a_forced_switch_goes_to_any_broker_but_the_master() -> None:
    alone, taken = changed(VIEW, in_sync=BROKERS[:1]), set()
    for seed in range(20):
        world, it = World(view=alone), fault("forced-switch")
        asyncio.run(_inject(it, world, it.plan(alone, Random(seed), "t")))
        assert world.forced == [True]
        taken |= {*world.masters}
    assert taken == {"broker-1", "broker-2"}


@pytest.mark.parametrize(
    ("name", "options", "rule"),
    [
        ("slow_tier", {"delay_ms": 70}, TierRule(effect=TierEffect.SLOW, delay_ms=70)),
        ("tier_expired_credentials", {}, TierRule(effect=TierEffect.EXPIRE)),
        ("tier_stale_list", {}, TierRule(effect=TierEffect.STALE_LIST, requests=(TierRequest.LIST,))),
        (
            "tier_put_failure",
            {"per_mille": 100},
            TierRule(effect=TierEffect.REFUSE, requests=(TierRequest.PUT, TierRequest.CAS), per_mille=100),
        ),
        (
            "tier_answer_lost",
            {"requests": (TierRequest.CAS,)},
            TierRule(effect=TierEffect.LOSE_ANSWER, requests=(TierRequest.CAS,), per_mille=500),
        ),
    ],
)
def test_a_fault_of_the_tier_is_one_rule_in_the_store(name: str, options: dict[str, Any], rule: TierRule) -> None:
    module = load(PluginKind.FAULT, name)
    made = options_class(module)
    it, world = module.create(made(**options) if options else made()), World()
    injection = it.plan(VIEW, Random(1), "fault-4")
    asyncio.run(_inject(it, world, injection))
    (step,) = injection.undo
    assert injection.targets == ("store-0",) and world.rules == {step.subject: rule}
    with pytest.raises(NotNow, match="no tier"):
        it.plan(replace(VIEW, tier=()), Random(1), "t")


@pytest.mark.parametrize(
    ("name", "how"), [("membership", "kill"), ("remove-broker", "kill"), ("replace-broker", "wipe")]
)
def test_a_broker_leaves_once_it_is_down_and_comes_back_when_it_is_started(name: str, how: str) -> None:
    for seed in range(10):
        it, world = fault(name), World()
        injection = it.plan(VIEW, Random(seed), "t")
        asyncio.run(_inject(it, world, injection))
        (node,) = injection.targets
        assert node != "broker-0" and world.done == [(how, node), ("remove", node)]
        assert [(step.verb, step.subject) for step in injection.undo] == [(Verb.START, node)]


@pytest.mark.parametrize(("name", "lost"), [("remove-broker", []), ("replace-broker", [Effect.LOSES_DISK])])
def test_a_broker_that_may_not_leave_was_crashed_all_the_same(name: str, lost: list[Effect]) -> None:
    """What a refused change has done by then was told of no node, and laws held its empty disk against the system."""
    it, world = fault(name), World(keeps=True)
    with pytest.raises(NotNow):
        asyncio.run(_inject(it, world, it.plan(VIEW, Random(1), "t")))
    assert world.proven == [Effect.TAKES_DOWN, Effect.MAY_CRASH, *lost]


def test_only_one_slave_leaves_and_only_while_all_are_in_sync() -> None:
    behind = changed(VIEW, in_sync=BROKERS[:2], settled=False)
    for view, target in ((behind, "slave"), (VIEW, "broker-0"), (changed(VIEW, settled=False), "slave")):
        with pytest.raises(NotNow):
            fault("membership", target=target).plan(view, Random(1), "t")


@pytest.mark.parametrize("what", ["kill", "pause", "cut"])
def test_the_leader_of_the_controllers_has_presets(what: str) -> None:
    view = replace(VIEW, controllers=("controller-0", "controller-1"), controller_leader="controller-1")
    assert fault(f"controller-leader-{what}").plan(view, Random(1), "t").targets == ("controller-1",)
