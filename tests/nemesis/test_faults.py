"""What all faults have in common, and the choices of those that choose with care."""

from __future__ import annotations

import json
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

import pytest

from chaos.deployments._sim.loop import VirtualLoop
from chaos.driver import ClusterView, TierRule
from chaos.effects.corruption import Harm, Mark
from chaos.effects.disks import DiskRule, Full
from chaos.effects.links import PASS, Action, Delay, Drop, LinkRule, Pass, Reset, Stall, ruling
from chaos.fault import Effect, Effects, Fault, Injection, NotNow, Verb, on
from chaos.plugins import PluginKind, load, names, options_class
from tests.views import changed, one_group

T = TypeVar("T")
BROKERS = ("broker-0", "broker-1", "broker-2")
CONTROLLERS = ("controller-0", "controller-1", "controller-2")
VIEW = one_group(
    brokers=BROKERS,
    controllers=CONTROLLERS,
    others=("nameserver-0",),
    tier=("store-0",),
    master="broker-1",
    epoch=4,
    in_sync=BROKERS,
    controller_leader="controller-2",
    settled=True,
    zones={"zone-0": BROKERS[:2], "zone-1": BROKERS[2:]},
)
#: All but the one that does nothing.
HARMFUL = [name for name in names(PluginKind.FAULT) if name != "noop"]


@dataclass
class World:
    """Remembers what was done to it; ``dead`` nodes can't be hit again."""

    view: ClusterView = VIEW
    dead: frozenset[str] = frozenset()
    done: list[tuple[str, str]] = field(default_factory=list)
    rules: dict[str, LinkRule] = field(default_factory=dict)
    tier_rules: dict[str, TierRule] = field(default_factory=dict)
    disk_rules: dict[str, DiskRule] = field(default_factory=dict)

    @property
    def deployment(self) -> World:
        return self

    async def _hit(self, verb: str, node: str) -> Mapping[str, object]:
        if node in self.dead:
            raise NotNow("it isn't running")
        self.done.append((verb, node))
        return {"was": "alive"}

    async def kill(self, node: str) -> Mapping[str, object]:
        return await self._hit("kill", node)

    async def transfer_leader(self, node: str) -> Mapping[str, object]:
        return await self._hit("transfer", node)

    async def remove_controller(self, node: str) -> Mapping[str, object]:
        return await self._hit("remove", node)

    async def drain(self, node: str) -> Mapping[str, object]:
        return await self._hit("drain", node)

    async def change_version(self, node: str, version: str) -> Mapping[str, object]:
        return await self._hit("change version", node)

    async def terminate(self, node: str) -> Mapping[str, object]:
        return await self._hit("terminate", node)

    async def slow_processor(self, node: str, share_percent: int) -> Mapping[str, object]:
        return await self._hit("cpu", node)

    async def limit_memory(self, node: str, spare_mb: int) -> Mapping[str, object]:
        return await self._hit("memory", node)

    async def limit_descriptors(self, node: str) -> Mapping[str, object]:
        return await self._hit("descriptors", node)

    async def hang_io(self, node: str) -> Mapping[str, object]:
        return await self._hit("io", node)

    async def pause(self, node: str) -> Mapping[str, object]:
        return await self._hit("pause", node)

    async def wipe(self, node: str) -> Mapping[str, object]:
        return await self._hit("wipe", node)

    async def lose_unsynced(self, node: str) -> Mapping[str, object]:
        return await self._hit("lose", node)

    async def tear_writes(self, node: str) -> Mapping[str, object]:
        return await self._hit("tear", node)

    async def mark_disk(self, node: str) -> Mark:
        return Mark(incarnation=1, files={})

    async def harm_disk(self, node: str, marked: Mark, harm: Harm) -> Mapping[str, object]:
        return await self._hit("harm", node)

    async def copy_disk(self, node: str) -> Mapping[str, object]:
        return await self._hit("copy", node)

    async def roll_back_disk(self, node: str) -> Mapping[str, object]:
        return await self._hit("roll back", node)

    def hold(self, injection: Injection, nodes: Sequence[str]) -> None:
        assert set(nodes) <= set(injection.targets)

    def prove(self, injection: Injection, proof: Mapping[str, object], *only: Effect) -> None:
        assert proof and set(proof) <= set(injection.targets) and {*only} <= {*(injection.effects or {})}

    async def start(self, node: str, injection: Injection) -> bool:
        self.done.append(("start", node))
        return True

    async def set_disk_rule(self, rule_id: str, rule: DiskRule) -> None:
        self.disk_rules[rule_id] = rule

    async def switch(self, target: str, *, group: str = "", forced: bool = False) -> Mapping[str, object]:
        return await self._hit("switch", target)

    async def remove(self, node: str) -> Mapping[str, object]:
        return await self._hit("remove", node)

    async def break_tier(self, rule_id: str, rule: TierRule) -> None:
        self.tier_rules[rule_id] = rule

    async def set_rule(self, rule_id: str, rule: LinkRule) -> None:
        self.rules[rule_id] = rule

    async def set_clock(self, node: str, *, jump_ns: int = 0, drift_ppm: int = 0) -> Mapping[str, object]:
        self.done.append((f"clock {jump_ns} {drift_ppm}", node))
        return {"jump_ns": jump_ns}

    def action(self, source: str, target: str) -> Action:
        """What the rules do there: one thing, however many targets the link has (to be cut twice is once)."""
        actions = [action for _, action in ruling(self.rules, source, target).acting]
        assert len(actions) <= 1 or set(actions) == {Drop()}
        return actions[0] if actions else PASS

    def cut(self, source: str, target: str) -> bool:
        return isinstance(self.action(source, target), Drop)


def fault(name: str, **options: Any) -> Fault:
    module = load(PluginKind.FAULT, name)
    made: Fault = module.create(options_class(module)(**options))
    return made


def strike(name: str, view: ClusterView = VIEW, seed: int = 1, **options: Any) -> tuple[Injection, World]:
    it, world = fault(name, **options), World(view)
    injection = it.plan(view, Random(seed), "fault-7")
    played(_inject(it, world, injection))
    return injection, world


def played(script: Coroutine[Any, Any, T]) -> T:
    """Run it in virtual time: some faults wait."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(script)
    finally:
        loop.close()


async def _inject(it: Fault, world: World, injection: Injection) -> Mapping[str, object]:
    return await it.inject(world, injection)


@pytest.mark.parametrize("name", HARMFUL)
def test_every_fault_promises_its_undo_and_proves_itself_in_json(name: str) -> None:
    it, world = fault(name), World()
    injection = it.plan(VIEW, Random(3), "fault-7")
    proof = played(_inject(it, world, injection))
    assert injection.targets and it.needs and json.dumps([dict(proof), dict(injection.detail)])
    undone = {step.subject for step in injection.undo}
    undone |= {step.subject.rpartition("/")[0] for step in injection.undo if step.verb is Verb.RELEASE}
    assert set(world.rules) == {s.subject for s in injection.undo if s.verb is Verb.CLEAR_RULE}
    assert set(world.tier_rules) == {s.subject for s in injection.undo if s.verb is Verb.MEND_TIER}
    assert set(world.disk_rules) == {s.subject for s in injection.undo if s.verb is Verb.CLEAR_DISK}
    assert all(rule.startswith("fault-7-") for rule in (*world.rules, *world.tier_rules))
    for verb, node in world.done:
        assert verb in ("switch", "transfer") or node in undone


@pytest.mark.parametrize("name", names(PluginKind.FAULT))
def test_one_seed_plans_one_injection(name: str) -> None:
    assert fault(name).plan(VIEW, Random(5), "t") == fault(name).plan(VIEW, Random(5), "t")


@pytest.mark.parametrize("name", HARMFUL)
def test_an_unknown_cluster_gives_nobody_to_hit(name: str) -> None:
    with pytest.raises(NotNow):
        fault(name).plan(one_group(), Random(1), "t")


def test_noop_does_nothing_to_nobody() -> None:
    injection, world = strike("noop", one_group())
    assert injection == Injection(targets=(), effects={}) and not world.done and not world.rules


def test_kill_hits_whom_it_can_and_has_no_effect_on_the_dead() -> None:
    it = fault("kill", target="all")
    world = World(dead=frozenset({"broker-0"}))
    injection = it.plan(VIEW, Random(1), "t")
    assert sorted(played(_inject(it, world, injection))) == ["broker-1", "broker-2"]
    with pytest.raises(NotNow, match="broker-0: it isn't running"):
        played(_inject(it, World(dead=frozenset(BROKERS)), injection))


@dataclass
class Watched(World):
    """One whose nodes can be asked; those in ``silent`` don't answer."""

    silent: frozenset[str] = frozenset()

    async def answers(self, node: str) -> bool:
        return node not in self.silent

    async def reaches(self, source: str, target: str) -> bool:
        return True


@pytest.mark.parametrize("name", ["cpu", "io_hang", "memory", "descriptors"])
def test_what_weighs_on_a_node_that_is_down_already_proves_nothing(name: str) -> None:
    it = fault(name, target="all")
    world = Watched(silent=frozenset({"broker-0"}))
    injection = it.plan(VIEW, Random(1), "t")
    assert sorted(played(_inject(it, world, injection))) == ["broker-1", "broker-2"]
    with pytest.raises(NotNow, match="broker-0 does not answer"):
        played(_inject(it, Watched(silent=frozenset(BROKERS)), injection))


def test_who_was_master_must_have_been_followed_to_have_been_demoted() -> None:
    it: Any = fault("demote")
    injection = it.plan(VIEW, Random(1), "t")
    for master, achieved in (("broker-1", False), ("", False), ("broker-2", True)):
        assert it.achieved(World(changed(VIEW, master=master)), injection) == achieved


def test_controllers_can_be_hit_too() -> None:
    assert strike("pause", target="controller_leader")[1].done == [("pause", "controller-2")]
    assert strike("kill", target="nameserver-0")[1].done == [("kill", "nameserver-0")]


def test_wipe_takes_one_slave_and_only_while_all_are_in_sync() -> None:
    for seed in range(20):
        assert strike("wipe", seed=seed)[0].targets[0] in ("broker-0", "broker-2")
    behind = one_group(brokers=BROKERS, master="broker-1", in_sync=BROKERS[:2], settled=False)
    for view, target in ((behind, "slave"), (VIEW, "broker-1"), (VIEW, "controller-0")):
        with pytest.raises(NotNow):
            fault("wipe", target=target).plan(view, Random(1), "t")


def test_a_switch_goes_to_a_slave_in_sync() -> None:
    view = one_group(brokers=BROKERS, master="broker-1", in_sync=("broker-1", "broker-2"))
    for seed in range(10):
        assert strike("switch", view, seed)[1].done == [("switch", "broker-2")]
    alone = one_group(brokers=BROKERS, master="broker-1", in_sync=("broker-1",))
    for refused, target in ((alone, "slave"), (VIEW, "broker-1")):
        with pytest.raises(NotNow):
            fault("switch", target=target).plan(refused, Random(1), "t")


def test_isolate_cuts_off_clients_too_but_never_the_harness() -> None:
    _, world = strike("partition", shape="isolate", target="master")
    for other in ("broker-0", "controller-0", "store-0", "nameserver-0", "producer-0"):
        assert world.cut("broker-1", other) and world.cut(other, "broker-1")
    assert not world.cut("harness", "broker-1") and not world.cut("broker-1", "harness")
    assert not world.cut("broker-0", "broker-2") and not world.cut("producer-0", "broker-0")


def test_halves_leave_a_majority_of_each_kind_together() -> None:
    for seed in range(20):
        injection, world = strike("partition", seed=seed, shape="halves", target="master")
        small = set(injection.targets)
        assert "broker-1" in small and len(small & set(BROKERS)) == 1 and len(small & set(CONTROLLERS)) == 1
        large = [name for name in (*BROKERS, *CONTROLLERS) if name not in small]
        assert all(world.cut(a, b) and world.cut(b, a) for a in small for b in (*large, "store-0", "nameserver-0"))
        assert not any(world.cut(a, b) for a in large for b in large) and not world.cut("producer-0", "broker-1")


def test_one_way_cuts_exactly_one_direction() -> None:
    ways = set()
    for seed in range(20):
        _, world = strike("partition", seed=seed, shape="one_way", target="broker-0")
        out, back = world.cut("broker-0", "broker-1"), world.cut("broker-1", "broker-0")
        assert out != back
        ways.add(out)
    assert ways == {True, False}


@pytest.mark.parametrize("count", range(3, 10))
def test_in_a_majorities_ring_each_reaches_a_majority_and_no_two_the_same(count: int) -> None:
    brokers = tuple(f"broker-{number}" for number in range(count))
    view = one_group(brokers=brokers, controllers=CONTROLLERS, master="broker-0")
    for seed in range(5):
        _, world = strike("partition", view, seed, shape="majorities_ring")
        for kind in (brokers, CONTROLLERS):
            assert all(world.cut(a, b) == world.cut(b, a) for a in kind for b in kind if a != b)
            reached = [frozenset(a for a in kind if a == b or not world.cut(a, b)) for b in kind]
            most = max(len(names) for names in reached)
            assert min(len(names) for names in reached) == len(kind) // 2 + 1 and most <= len(kind) // 2 + 2
            assert len(set(reached)) == len(kind), "two nodes see the same majority"


def test_only_the_bridge_connects_both_sides() -> None:
    _, world = strike("partition", shape="bridge", target="broker-1")
    everybody = {*BROKERS, *CONTROLLERS} - {"broker-1"}
    assert not any(world.cut("broker-1", name) or world.cut(name, "broker-1") for name in everybody)
    side = {name for name in everybody if world.cut("broker-0", name)}
    assert "broker-2" in side and all(world.cut(a, b) == (b in side) for a in everybody - side for b in everybody)


def test_nodes_that_are_kept_apart_lose_only_the_kinds_named_and_keep_their_clients() -> None:
    _, world = strike("partition", shape="apart", target="broker-1", away_from=("brokers", "controllers"))
    lost = {"broker-0", "broker-2", *CONTROLLERS}
    assert all(world.cut("broker-1", name) and world.cut(name, "broker-1") for name in lost)
    kept = ("store-0", "nameserver-0", "producer-0")
    assert not any(world.cut("broker-1", name) or world.cut(name, "broker-1") for name in kept)
    assert not world.cut("broker-0", "controller-0")


def test_a_partition_needs_somebody_to_part() -> None:
    with pytest.raises(NotNow, match="too few"):
        fault("partition", shape="majorities_ring").plan(one_group(brokers=("broker-0",)), Random(1), "t")


def test_links_are_slowed_lossy_or_cut_from_the_tier_as_asked() -> None:
    _, world = strike("slow_link", target="broker-0", delay_ms=20, jitter_ms=5)
    assert world.action("broker-0", "x") == world.action("x", "broker-0") == Delay(20_000_000, 5_000_000)
    assert isinstance(world.action("broker-1", "x"), Pass)
    assert strike("loss", target="broker-0", per_mille=9, stall_ms=7)[1].action("x", "broker-0") == Stall(9, 7_000_000)
    assert strike("loss", target="broker-0", mode="reset", per_mille=9)[1].action("broker-0", "x") == Reset(9)
    assert strike("tier_outage")[1].action("broker-1", "store-0") == Reset()
    assert strike("tier_outage", mode="drop")[1].action("store-0", "broker-1") == Drop()


def test_a_node_that_stops_of_its_disk_is_started_once_that_is_sound() -> None:
    injection, world = strike("disk_full", target="controllers")
    assert {rule.node for rule in world.disk_rules.values()} == set(CONTROLLERS) == set(injection.targets)
    assert {rule.action for rule in world.disk_rules.values()} == {Full()}
    undone = [step.verb for step in reversed(injection.undo)]
    assert undone == [Verb.CLEAR_DISK] * 3 + [Verb.START] * 3
    injection, _ = strike("slow_disk")
    assert [step.verb for step in injection.undo] == [Verb.CLEAR_DISK], "nobody stops of that"
    for name, options in (("slow_disk", {"latency_ms": 0}), ("read_error", {"per_mille": 1001})):
        with pytest.raises(ValueError, match=next(iter(options))):
            fault(name, **options)


def test_clocks_go_either_way() -> None:
    jumps = {strike("clock", target="broker-0", jump_s=2.5, seed=seed)[0].detail["jump_ns"] for seed in range(20)}
    assert jumps == {2_500_000_000, -2_500_000_000}


DOWN = (Effect.TAKES_DOWN, Effect.MAY_CRASH)


@pytest.mark.parametrize(
    ("name", "options", "effects"),
    [
        ("noop", {}, {}),
        *((name, {"target": "broker-0"}, on(("broker-0",), *DOWN)) for name in ("kill", "stop", "crash_loop")),
        ("demote", {}, on(("broker-1",), *DOWN)),
        ("pause", {"target": "broker-0"}, on(("broker-0",), Effect.TAKES_DOWN)),
        ("wipe", {"target": "broker-0"}, on(("broker-0",), *DOWN, Effect.LOSES_DISK)),
        ("bit_flip", {"target": "broker-0"}, on(("broker-0",), *DOWN, Effect.LOSES_DISK)),
        ("restore_snapshot", {"target": "broker-0"}, on(("broker-0",), *DOWN, Effect.LOSES_DISK)),
        ("disk_full", {"target": "broker-0"}, on(("broker-0",), Effect.SLOWS, Effect.MAY_CRASH)),
        ("slow_disk", {"target": "broker-0"}, on(("broker-0",), Effect.SLOWS)),
        ("memory", {"target": "broker-0"}, on(("broker-0",), Effect.SLOWS, Effect.MAY_CRASH)),
        ("cpu", {"target": "broker-0"}, on(("broker-0",), Effect.SLOWS)),
        ("partition", {"target": "broker-0"}, on(("broker-0",), Effect.ISOLATES)),
        ("partition", {"shape": "one_way", "target": "broker-0"}, on(("broker-0",), Effect.CUTS)),
        ("partition", {"target": "client"}, on(("client",), Effect.CUTS_CLIENTS)),
        ("partition", {"shape": "apart", "target": "all", "away_from": ("clients",)}, on(BROKERS, Effect.CUTS_CLIENTS)),
        (
            "partition",
            {"shape": "apart", "target": "broker-0", "away_from": ("store", "clients")},
            {Effect.CUTS: ("broker-0", "store-0"), Effect.CUTS_CLIENTS: ("broker-0",)},
        ),
        ("loss", {"target": "broker-0"}, on(("broker-0",), Effect.SLOWS)),
        ("loss", {"target": "broker-0", "mode": "reset"}, on(("broker-0",), Effect.CUTS)),
        ("slow_link", {"target": "client"}, on(("client",), Effect.SLOWS)),
        ("reset", {"target": "client"}, on(("client",), Effect.CUTS_CLIENTS)),
        ("flapping", {"target": "broker-0"}, on(("broker-0",), Effect.CUTS)),
        ("tier_outage", {}, on(("store-0",), Effect.HARMS_TIER)),
        ("tier_stale_list", {}, on(("store-0",), Effect.HARMS_TIER)),
        ("strobe", {"target": "broker-0"}, on(("broker-0",), Effect.SKEWS_CLOCKS)),
        ("switch", {"target": "broker-0"}, on(("broker-0",), Effect.SWITCHES_MASTER)),
        ("membership", {"target": "broker-0"}, on(("broker-0",), *DOWN, Effect.REMOVES_REPLICA)),
        (
            "membership",
            {"target": "broker-0", "change": "replace"},
            on(("broker-0",), *DOWN, Effect.REMOVES_REPLICA, Effect.LOSES_DISK),
        ),
        ("membership", {"change": "add"}, on(("broker-9",), Effect.ADDS_REPLICA)),
    ],
)
def test_what_a_fault_may_do_depends_on_its_options(name: str, options: dict[str, Any], effects: Effects) -> None:
    view = changed(VIEW, newcomers=("broker-9",))
    assert fault(name, **options).plan(view, Random(1), "t").effects == effects


def test_the_smaller_side_is_isolated_and_of_other_shapes_both_sides_lose_links() -> None:
    halves = fault("partition", shape="halves", target="master").plan(VIEW, Random(1), "t")
    assert halves.effects == on(halves.targets, Effect.ISOLATES)
    majority = fault("partition", shape="majority", target="master").plan(VIEW, Random(1), "t")
    assert majority.effects == on(sorted((*BROKERS, *CONTROLLERS, "nameserver-0", "store-0")), Effect.CUTS)


@pytest.mark.parametrize("name", names(PluginKind.FAULT))
def test_every_fault_declares_its_effects_on_its_targets(name: str) -> None:
    injection = fault(name).plan(VIEW, Random(3), "fault-7")
    assert injection.effects is not None
    assert {node for nodes in injection.effects.values() for node in nodes} >= {*injection.targets}
    assert {*injection.concerns} <= {step.subject for step in injection.undo}


def test_a_store_is_lost_even_while_it_leads_but_never_while_a_copy_is_missing() -> None:
    injection, world = strike("store_loss", VIEW, target="broker-1")
    assert world.done == [("wipe", "broker-1")] and injection.targets == ("broker-1",)
    with pytest.raises(NotNow, match="out of sync"):
        fault("store_loss").plan(changed(VIEW, in_sync=BROKERS[:2]), Random(1), "t")
    with pytest.raises(NotNow, match="holds data"):
        fault("store_loss", target="nameserver-0").plan(VIEW, Random(1), "t")


def test_a_zone_goes_down_as_a_whole() -> None:
    injection, world = strike("zone_outage", VIEW, zone="zone-0")
    assert injection.targets == BROKERS[:2] and world.done == [("kill", name) for name in BROKERS[:2]]
    with pytest.raises(NotNow, match="no zone 'nowhere'"):
        fault("zone_outage", zone="nowhere").plan(VIEW, Random(1), "t")
