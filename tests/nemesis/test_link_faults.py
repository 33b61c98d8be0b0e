"""Faults on links: whom they touch, what they do to them, and how those that come and go do it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from chaos.deployments._sim.loop import VirtualLoop
from chaos.deployments._sim.network import SimNet
from chaos.draws import Draws
from chaos.driver import ClusterView
from chaos.effects.links import (
    PASS,
    Action,
    Corrupt,
    Delay,
    Drop,
    Duplicate,
    LinkRule,
    Pass,
    Reorder,
    Reset,
    SlowClose,
    Stall,
    Throttle,
    ruling,
)
from chaos.experiment.model import FaultSpec, PluginUse, Schedule
from chaos.fault import Acts, Fault, Injection, NotNow, Undo, Verb
from chaos.plugins import PluginKind, load, options_class, resolve
from chaos.run.journal import Journal
from chaos.run.nemesis_runner import NemesisRunner
from reference.wire.codec import RemotingCodec
from tests.chaos.run.journals import pending
from tests.views import one_group

BROKERS = ("broker-0", "broker-1", "broker-2")
CONTROLLERS = ("controller-0", "controller-1", "controller-2")
NODES = (*BROKERS, *CONTROLLERS, "nameserver-0", "store-0")
VIEW = one_group(
    brokers=BROKERS,
    controllers=CONTROLLERS,
    others=("nameserver-0",),
    tier=("store-0",),
    master="broker-1",
    in_sync=BROKERS,
    controller_leader="controller-2",
    settled=True,
)


@dataclass
class World:
    """Links that only remember their rules."""

    view: ClusterView = VIEW
    rules: dict[str, LinkRule] = field(default_factory=dict)

    @property
    def deployment(self) -> World:
        return self

    async def set_rule(self, rule_id: str, rule: LinkRule) -> None:
        self.rules[rule_id] = rule

    async def switch(self, target: str) -> Mapping[str, object]:
        raise NotNow("there is nobody")

    def action(self, source: str, target: str) -> Action:
        """What the rules do there: one thing, however many targets the link has (to be cut twice is once)."""
        actions = [action for _, action in ruling(self.rules, source, target).acting]
        assert len(actions) <= 1 or set(actions) == {Drop()}
        return actions[0] if actions else PASS

    def cut(self, source: str, target: str) -> bool:
        return isinstance(self.action(source, target), Drop)

    def hit(self) -> list[str]:
        """The links, in their order, that some rule has an opinion on."""
        pairs = [(a, b) for a in NODES for b in NODES if a != b]
        return [f"{a} > {b}" for a, b in pairs if not isinstance(self.action(a, b), Pass)]


def fault(name: str, **options: Any) -> Fault:
    meant = resolve(PluginKind.FAULT, name)
    module = load(PluginKind.FAULT, meant.plugin)
    given: dict[str, Any] = {**meant.options, **options}
    made: Fault = module.create(options_class(module)(**given))
    return made


def play(it: Fault, script: Callable[[World, Injection], Any], seed: int = 1) -> None:
    """Inject in virtual time; the script looks on."""
    loop = VirtualLoop()

    async def main() -> None:
        world = World()
        injection = it.plan(VIEW, Random(seed), "fault-7")
        await it.inject(world, injection)
        await script(world, injection)

    loop.run_until_complete(main())
    loop.close()


def strike(name: str, seed: int = 1, **options: Any) -> tuple[Injection, World]:
    found: list[tuple[Injection, World]] = []

    async def look(world: World, injection: Injection) -> None:
        found.append((injection, world))

    play(fault(name, **options), look, seed)
    return found[0]


@pytest.mark.parametrize(
    ("name", "options", "action"),
    [
        ("rate_limit", {"bytes_per_s": 500}, Throttle(500)),
        ("corruption", {"per_mille": 7}, Corrupt(7)),
        ("slow_close", {"delay_ms": 30}, SlowClose(30_000_000)),
        ("duplication", {"per_mille": 7, "stall_ms": 3}, Duplicate(7, 3_000_000)),
        ("reordering", {"per_mille": 7, "stall_ms": 3}, Reorder(7, 3_000_000)),
        ("reset", {"per_mille": 7}, Reset(7)),
        ("reset", {"per_mille": 7, "period_s": 0.0}, Reset(7)),
        ("flapping", {}, Drop()),
        ("packet", {}, Delay(40_000_000, 20_000_000)),
        ("fixed-loss", {}, Stall(800, 300_000_000)),
    ],
)
def test_a_fault_does_to_all_links_of_its_targets_what_it_says_that_it_uses(
    name: str, options: dict[str, Any], action: Action
) -> None:
    it = fault(name, target="broker-0", **options)
    _, world = strike(name, target="broker-0", **options)
    for other in (*NODES[1:], "producer-0"):
        assert world.action("broker-0", other) == world.action(other, "broker-0") == action
    assert isinstance(world.action("broker-1", "broker-2"), Pass)
    assert type(action) in it.link_actions  # type: ignore[attr-defined]


def test_clients_are_a_target_of_their_own() -> None:
    for name in ("slow_link", "corruption", "flapping"):
        injection, world = strike(name, target="client")
        assert injection.targets == ("client",) and world.hit() == []
        assert all(not isinstance(world.action("producer-0", node), Pass) for node in NODES)
        assert all(not isinstance(world.action(node, "reader-3"), Pass) for node in NODES)
        assert isinstance(world.action("harness", "broker-0"), Pass)
    for name in ("kill", "pause"):
        with pytest.raises(NotNow):
            fault(name, target="client").plan(VIEW, Random(1), "t")
    for name, options in (("swizzle_clog", {}), ("partition", {"shape": "halves"}), ("bridge", {})):
        with pytest.raises(ValueError, match="client"):
            fault(name, target="client", **options)


def test_clients_are_cut_off_from_some_nodes_only() -> None:
    _, world = strike("client-cut")
    assert all(world.cut("producer-0", node) and world.cut(node, "producer-0") for node in BROKERS)
    assert not any(world.cut("producer-0", node) for node in NODES if node not in BROKERS) and world.hit() == []
    _, world = strike("partition", shape="apart", target="broker-1", away_from=("controllers", "clients"))
    assert world.cut("producer-0", "broker-1") and world.cut("broker-1", "controller-0")
    assert not world.cut("broker-0", "broker-1") and not world.cut("producer-0", "broker-0")


def test_the_controllers_lose_the_brokers_and_nobody_else_does() -> None:
    _, world = strike("controllers-from-brokers")
    assert all(world.cut(a, b) and world.cut(b, a) for a in CONTROLLERS for b in BROKERS)
    assert len(world.hit()) == 18 and not world.cut("producer-0", "controller-0")


def test_the_larger_side_keeps_its_targets_and_the_name_server() -> None:
    for seed in range(10):
        injection, world = strike("partition", seed, shape="majority", target="master")
        large = set(injection.targets)
        small = {*BROKERS, *CONTROLLERS} - large
        assert "broker-1" in large and len(small & set(BROKERS)) == 1 and len(small & set(CONTROLLERS)) == 1
        assert all(world.cut(a, b) and world.cut(b, a) for a in small for b in (*large, "store-0", "nameserver-0"))
        assert not any(world.cut(a, b) for a in large for b in (*large, "store-0")) and not world.cut("p", "broker-0")


def test_random_halves_are_halves_of_all() -> None:
    kinds = set()
    for seed in range(20):
        injection, world = strike("partition-random-halves", seed)
        some = set(injection.targets)
        assert len(some) == 3 and len(world.hit()) == 18
        kinds.add(len(some & set(BROKERS)))
    assert len(kinds) > 2


#: Of OpenChaos and Jepsen, those that concern links.
FOREIGN = [
    *(f"{who}-{what}" for who in ("minor", "major", "random", "fixed") for what in ("loss", "delay")),
    *("leader-partition", "random-partition", "fixed-partition", "partition-majorities-ring", "bridge"),
    *("partition", "packet", "partition-halves", "partition-random-halves", "partition-random-node"),
    *("delay", "loss", "corrupt", "duplicate", "reorder", "rate", "start-partition"),
]


@pytest.mark.parametrize("name", FOREIGN)
def test_names_of_others_stand_for_faults_that_can_be_planned(name: str) -> None:
    assert fault(name).plan(VIEW, Random(1), "t").undo


def test_flapping_comes_and_goes_until_its_end() -> None:
    it = fault("flapping", target="broker-0", period_s=2.0, cut_s=0.5)
    seen = []

    async def script(world: World, injection: Injection) -> None:
        waits = iter((0.5, 1.5, 0.5, 1.5, 0.5))

        async def rest(seconds: float) -> bool:
            seen.append(world.cut("broker-0", "broker-1"))
            due = next(waits, None)
            assert due is None or seconds == due
            return due is not None

        assert isinstance(it, Acts)
        await it.act(world, injection, rest)
        assert set(world.rules) == {step.subject for step in injection.undo}

    play(it, script)
    assert seen == [True, False, True, False, True, False]


def test_resets_all_the_time_need_no_action() -> None:
    assert not isinstance(fault("reset", period_s=0.0), Acts) and isinstance(fault("reset"), Acts)


@pytest.mark.parametrize("options", [{"period_s": 1.0, "cut_s": 1.0}, {"cut_s": 0.0}])
def test_a_cut_must_be_a_part_of_its_period(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="cut_s: expected more than 0 s and less than"):
        fault("flapping", **options)


@pytest.mark.parametrize("seed", range(10))
def test_links_are_clogged_one_by_one_and_unclogged_in_another_order(seed: int) -> None:
    it = fault("swizzle_clog", links=5, step_s=0.5)
    counts, firsts = [], []

    async def script(world: World, injection: Injection) -> None:
        async def rest(seconds: float) -> bool:
            clogged = [
                number for number, step in enumerate(injection.undo) if world.rules[step.subject].action == Drop()
            ]
            assert len(world.hit()) == 2 * len(clogged)  # both ways
            counts.append(len(clogged))
            firsts.append(clogged)
            return len(counts) < 21

        assert isinstance(it, Acts)
        await it.act(world, injection, rest)
        assert set(world.rules) == {step.subject for step in injection.undo}

    play(it, script, seed)
    assert counts == [1, 2, 3, 4, 5, 4, 3, 2, 1, 0] * 2 + [1]
    assert firsts[1] == [0, 1] and firsts[10:20] == firsts[:10]


def test_swizzling_differs_in_its_two_orders() -> None:
    plans = [fault("swizzle_clog").plan(VIEW, Random(seed), "t").detail for seed in range(5)]
    assert any(plan["unclogged"] != sorted(plan["unclogged"]) for plan in plans)  # type: ignore[type-var]
    with pytest.raises(NotNow):
        fault("swizzle_clog").plan(one_group(brokers=("broker-0",)), Random(1), "t")


class Wires:
    """A deployment of nothing but simulated links."""

    def __init__(self, loop: VirtualLoop, seed: int) -> None:
        self.net = SimNet(loop, seed)
        self.net.codec = RemotingCodec()

    @property
    def rules(self) -> set[str]:
        return set(self.net._rules)

    async def set_rule(self, rule_id: str, rule: LinkRule) -> None:
        await asyncio.sleep(0.003)  # others act meanwhile
        self.net.set_rule(rule_id, rule)

    async def rule_hits(self, rule_id: str) -> int:
        return self.net.rule_hits(rule_id)

    async def undo(self, step: Undo) -> None:
        await asyncio.sleep(0.003)
        assert step.verb is Verb.CLEAR_RULE
        self.net.clear_rule(step.subject)


ON_LINKS = ["partition", "slow_link", "loss", "rate_limit", "corruption", "slow_close", "duplication", "reordering"]
ON_LINKS += ["reset", "flapping", "swizzle_clog", "tier_outage"]


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(8, 25))])
def test_faults_on_links_overlap_and_end_in_any_order_and_leave_nothing(tmp_path: Path, seed: int) -> None:
    """At any moment each rule that is up is one that the journal promises to clear, were the harness to die now."""
    rng = Random(seed)
    specs = []
    for name in rng.sample(ON_LINKS, 8):
        options = options_class(load(PluginKind.FAULT, name))()
        use = PluginUse(kind=PluginKind.FAULT, name=name, options=options)
        for_s = rng.choice((0.0, rng.uniform(0.2, 3.0)))
        specs.append(FaultSpec(use=use, schedule=Schedule(mean_s=rng.uniform(0.5, 3.0)), for_s=for_s))
    loop = VirtualLoop()
    wires = Wires(loop, seed)
    most = 0
    nemesis = NemesisRunner(
        specs,
        deployment=wires,  # type: ignore[arg-type]
        driver=None,  # type: ignore[arg-type]
        record=lambda kind, **columns: 0,
        journal=Journal(tmp_path, durable=False),
        view=lambda: VIEW,
        draws=Draws(seed),
    )

    async def watch() -> None:
        nonlocal most
        while True:
            promised = {step.subject for step in pending(tmp_path)}
            assert wires.rules <= promised, wires.rules - promised
            most = max(most, len(wires.rules))
            await asyncio.sleep(0.05)

    async def main() -> None:
        watching = asyncio.ensure_future(watch())
        await nemesis.run(8.0)
        await nemesis.heal()
        assert not watching.done()
        watching.cancel()

    loop.run_until_complete(main())
    loop.close()
    assert wires.rules == set() and pending(tmp_path) == [] and most > 5
