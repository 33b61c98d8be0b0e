"""Faults that overlap on one node: each lasts until its own undo, in whatever order they end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from chaos.deployments._sim.loop import VirtualLoop
from chaos.driver import ClusterView
from chaos.experiment.model import Schedule
from chaos.fault import Injection, Rest, Undo, Verb, World
from chaos.run.nemesis_runner import MOST_TIMES, PRIORITY_PHASE
from tests.chaos.run.journals import pending
from tests.chaos.run.toy_faults import NODES, Hold, Machine, Shy, runner, spec
from tests.views import one_group


@pytest.mark.parametrize("seed", range(200))
def test_overlapping_faults_end_independently_in_any_order(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    faults = [
        Hold(rng.choice((Verb.START, Verb.RESUME)), tuple(rng.sample(NODES, rng.randrange(1, 3)))) for _ in range(6)
    ]

    async def play() -> None:
        machine = Machine()
        made = runner(machine, [], tmp_path).injector
        waiting = list(range(len(faults)))
        active: dict[int, Any] = {}
        while waiting or active:
            if waiting and (not active or rng.random() < 0.5):
                number = waiting.pop(rng.randrange(len(waiting)))
                active[number] = await made.inject("hold", faults[number], Random(0))
            else:
                ending = rng.sample(sorted(active), min(len(active), rng.randrange(1, 3)))
                await asyncio.gather(*(made.undo(active.pop(number)) for number in ending))
            held = {
                verb: {node for number in active for node in faults[number].targets if faults[number].verb is verb}
                for verb in (Verb.START, Verb.RESUME)
            }
            assert machine.down == held[Verb.START]
            assert machine.paused >= held[Verb.RESUME] - machine.down
            assert machine.paused <= held[Verb.RESUME]
        assert not machine.down and not machine.paused
        assert not pending(tmp_path)

    asyncio.run(play())


def test_an_undo_that_failed_is_tried_again_by_heal(tmp_path: Path) -> None:
    async def play() -> None:
        machine = Machine()
        made = runner(machine, [], tmp_path)
        active = await made.injector.inject("hold", Hold(Verb.START, NODES), Random(0))
        assert active is not None
        machine.failing = True
        with pytest.raises(OSError):
            await made.injector.undo(active)
        assert pending(tmp_path)
        machine.failing = False
        await made.heal()
        assert not machine.down and not pending(tmp_path)

    asyncio.run(play())


def test_a_sequence_fires_step_by_step_and_the_end_of_the_load_is_quiet(tmp_path: Path) -> None:
    """Two steps that hold a node for a while; then two seconds in which nothing lasts."""
    told: list[tuple[str, str]] = []

    class Noting(Machine):
        async def kill(self, node: str) -> Mapping[str, object]:
            told.append(("kill", node))
            return await super().kill(node)

        async def pause(self, node: str) -> Mapping[str, object]:
            assert not self.down, "the first step still lasts"
            told.append(("pause", node))
            return await super().pause(node)

    second = spec(Hold(Verb.RESUME, ("broker-1",)), schedule=Schedule(), for_s=10.0)
    first = spec(Hold(Verb.START, ("broker-0",)), for_s=0.4, rest_s=0.2, then=second)

    async def play() -> None:
        machine = Noting()
        made = runner(machine, [first], tmp_path)
        running = asyncio.create_task(made.run(6.0, 2.0))
        await asyncio.sleep(3.0)
        assert machine.paused == {"broker-1"}
        await asyncio.sleep(1.5)
        assert not machine.paused and not running.done()
        await running

    loop = VirtualLoop()
    loop.run_until_complete(play())
    loop.close()
    assert told == [("kill", "broker-0"), ("pause", "broker-1")]


def test_faults_in_turn_fire_once_each_and_begin_again(tmp_path: Path) -> None:
    told: list[str] = []

    class Noting(Machine):
        async def kill(self, node: str) -> Mapping[str, object]:
            told.append(f"kill {node}")
            return await super().kill(node)

        async def pause(self, node: str) -> Mapping[str, object]:
            assert not self.down, "the first one still lasts"
            told.append(f"pause {node}")
            return await super().pause(node)

    second = spec(Hold(Verb.RESUME, ("broker-1",)), schedule=Schedule(), for_s=0.4)
    first = spec(Hold(Verb.START, ("broker-0",)), schedule=Schedule(every_s=1.0), for_s=0.4, then=second, in_turn=True)

    async def play() -> None:
        machine = Noting()
        made = runner(machine, [first], tmp_path)
        await made.run(3.8)
        assert not machine.down and not machine.paused

    loop = VirtualLoop()
    loop.run_until_complete(play())
    loop.close()
    assert told == ["kill broker-0", "pause broker-1", "kill broker-0"]


class Flapper:
    """Kills a node, and goes on to let it come up and to kill it again while it lasts."""

    needs = ()

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        return Injection(targets=NODES[:1], undo=(Undo(verb=Verb.START, subject=NODES[0]),))

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        machine: Any = world.deployment
        return dict(await machine.kill(NODES[0]))

    async def act(self, world: World, injection: Injection, rest: Rest) -> None:
        machine: Any = world.deployment
        while await rest(0.5):
            machine.down.discard(NODES[0])
            await asyncio.sleep(0.1)  # what it does takes time, and is never torn
            await machine.kill(NODES[0])


@pytest.mark.parametrize("for_s", [2.2, 0.0])
def test_a_fault_that_acts_ends_before_its_undo_and_never_outlives_it(tmp_path: Path, for_s: float) -> None:
    kills = []

    class Noting(Machine):
        async def kill(self, node: str) -> Mapping[str, object]:
            kills.append(asyncio.get_running_loop().time())
            return await super().kill(node)

    async def play() -> None:
        machine = Noting()
        made = runner(machine, [spec(Flapper(), schedule=Schedule(at_s=(1.0,)), for_s=for_s)], tmp_path)
        await made.run(5.0)
        assert bool(machine.down) == (not for_s)
        await made.heal()
        assert not machine.down and not pending(tmp_path)

    loop = VirtualLoop()
    loop.run_until_complete(play())
    loop.close()
    assert len(kills) == (4 if for_s else 7)
    assert max(kills) < (3.3 if for_s else 5.2)


class Blip(Hold):
    """Kills nodes and is over after 0.5 s; starts them before that."""

    def __init__(self, targets: tuple[str, ...]) -> None:
        super().__init__(Verb.START, targets)
        self.started: list[bool] = []

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        return replace(super().plan(view, rng, tag), passes=True)

    async def act(self, world: World, injection: Injection, rest: Rest) -> None:
        await rest(0.4)
        self.started = [await world.start(node, injection) for node in injection.targets]
        await rest(0.1)


@pytest.mark.parametrize("for_s", [0.0, 0.2, 5.0])
def test_a_fault_that_passes_is_undone_when_it_has_acted(tmp_path: Path, for_s: float) -> None:
    async def play() -> None:
        machine = Machine()
        blip, hold = Blip(NODES), Hold(Verb.START, NODES[:1])
        made = runner(machine, [spec(hold, for_s=3.0), spec(blip, for_s=for_s)], tmp_path)
        running = asyncio.ensure_future(made.run(5.0))
        await asyncio.sleep(0.1)
        assert machine.down == set(NODES)
        await asyncio.sleep(1.0)
        assert machine.down == {NODES[0]}, "the other fault holds it"
        assert blip.started == [False, True]
        await asyncio.sleep(2.5)
        assert not machine.down and not pending(tmp_path)
        await running

    loop = VirtualLoop()
    loop.run_until_complete(play())
    loop.close()


class Idle(Hold):
    """Puts up a rule, each time one that hits as often as it is told."""

    def __init__(self, hits: list[int]) -> None:
        super().__init__(Verb.CLEAR_RULE, NODES[:1])
        self.hits = hits
        self.times = 0

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        machine: Any = world.deployment
        machine.hits = self.hits[self.times]
        self.times += 1
        return {}


@pytest.mark.parametrize(("hits", "times"), [([1, 0], 1), ([0, 0, 3, 0], 3), ([0] * 9, MOST_TIMES)])
def test_a_fault_whose_rules_hit_nothing_is_injected_anew_a_few_times(
    tmp_path: Path, hits: list[int], times: int
) -> None:
    async def play() -> None:
        idle = Idle(hits)
        made = runner(Machine(), [spec(idle, for_s=0.5)], tmp_path)
        await made.run(20.0)
        assert idle.times == times and ("hold" in made.effective) == (times < MOST_TIMES)
        assert not pending(tmp_path)

    loop = VirtualLoop()
    loop.run_until_complete(play())
    loop.close()


class Counting(Machine):
    """Counts for each rule by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.counted: dict[str, int] = {}

    async def rule_hits(self, rule: str) -> int:
        return self.counted.get(rule, 0)

    def traffic(self, count: int) -> None:
        for rule in self.counted:
            self.counted[rule] += count


class Cut(Hold):
    """Puts up a rule, and probes it by two connections that run into all rules that stand."""

    def __init__(self) -> None:
        super().__init__(Verb.CLEAR_RULE, ())

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        return Injection(targets=NODES[:1], undo=(Undo(verb=Verb.CLEAR_RULE, subject=tag),))

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        machine: Any = world.deployment
        machine.counted[injection.undo[0].subject] = 0
        return {}

    async def probe(self, world: World, injection: Injection) -> Mapping[str, object]:
        machine: Any = world.deployment
        machine.traffic(2)
        await asyncio.sleep(0.1)
        return {"effect": "full", "across": {"a > b": False}, "within": {"c > d": False}}


@pytest.mark.parametrize("traffic", [0, 1])
def test_what_the_probes_of_others_run_into_proves_nothing(tmp_path: Path, traffic: int) -> None:
    async def play() -> None:
        machine = Counting()
        made = runner(machine, [], tmp_path)
        first = await made.injector.inject("first", Cut(), Random(0))
        second = await made.injector.inject("second", Cut(), Random(0))
        assert first and second
        machine.traffic(traffic)
        await made.injector.undo(second)
        await made.injector.undo(first)
        assert made.effective == ({"first", "second"} if traffic else set())

    loop = VirtualLoop()
    loop.run_until_complete(play())
    loop.close()


class Goal(Hold):
    """Takes a node down for something that comes about, or doesn't."""

    def __init__(self, came: bool) -> None:
        super().__init__(Verb.START, NODES[:1])
        self.came = came

    def achieved(self, world: World, injection: Injection) -> bool:
        return self.came


@pytest.mark.parametrize("came", [True, False])
def test_a_fault_that_has_not_achieved_what_it_is_for_had_no_effect(tmp_path: Path, came: bool) -> None:
    async def play() -> None:
        made = runner(Machine(), [spec(Goal(came), for_s=0.5)], tmp_path)
        await made.run(20.0)
        assert ("hold" in made.effective) == came and not pending(tmp_path)

    loop = VirtualLoop()
    loop.run_until_complete(play())
    loop.close()


class BadDisk(Hold):
    """Fails disks: nodes end of it, the paused ones later."""

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        machine: Any = world.deployment
        machine.doomed.update(injection.targets)
        return {}


def test_a_node_that_was_paused_when_the_fault_of_its_disk_ended_comes_up_after_all(tmp_path: Path) -> None:
    async def play() -> None:
        machine = Machine()
        made = runner(machine, [], tmp_path)
        paused = await made.injector.inject("hold", Hold(Verb.RESUME, NODES[:1]), Random(0))
        failed = await made.injector.inject("hold", BadDisk(Verb.START, NODES[:1]), Random(0))
        assert paused is not None and failed is not None
        await made.injector.undo(failed)
        assert machine.paused == {NODES[0]} and not machine.down
        await made.injector.undo(paused)
        assert not machine.paused and not machine.down and not machine.doomed

    loop = VirtualLoop()
    loop.run_until_complete(play())
    loop.close()


def test_after_a_node_was_started_nothing_is_settled_before_somebody_has_asked(tmp_path: Path) -> None:
    async def play() -> None:
        machine = Machine()
        view = one_group(brokers=NODES, settled=True, asked_ns=0)
        made = runner(machine, [], tmp_path, view=lambda: view)
        assert made.world.view.settled
        await asyncio.sleep(1.0)
        active = await made.injector.inject("hold", Hold(Verb.START, NODES[:1]), Random(0))  # type: ignore[arg-type]
        assert active is not None and not made.world.view.settled
        await made.injector.undo(active)
        assert not made.world.view.settled, "it was asked for before"
        view = replace(view, asked_ns=machine.now_ns())
        assert made.world.view.settled

    loop = VirtualLoop()
    loop.run_until_complete(play())
    loop.close()


class Rolling(Hold):
    """Kills nodes one after another, a second each."""

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        machine: Any = world.deployment
        return {"first": await machine.kill(injection.targets[0])}

    async def act(self, world: World, injection: Injection, rest: Rest) -> None:
        machine: Any = world.deployment
        for turn, node in enumerate(injection.targets):
            world.hold(injection, (node,))
            if turn:
                await machine.kill(node)
            await rest(1.0)
            await world.start(node, injection)


def test_a_fault_that_goes_from_node_to_node_holds_down_only_the_one_that_it_is_at(tmp_path: Path) -> None:
    async def play() -> None:
        machine = Machine()
        rolling, hold = Rolling(Verb.START, NODES), Hold(Verb.START, NODES)
        brief = spec(hold, for_s=0.4, schedule=Schedule(at_s=(0.2,)))
        made = runner(machine, [spec(rolling), brief], tmp_path)
        running = asyncio.ensure_future(made.run(5.0))
        await asyncio.sleep(0.3)
        assert machine.down == {*NODES}
        await asyncio.sleep(0.5)
        assert machine.down == {NODES[0]}, "it is not yet at the second one"
        await asyncio.sleep(0.5)
        assert machine.down == {NODES[1]}
        await asyncio.sleep(1.0)
        assert not machine.down
        await running
        await made.heal()
        assert not machine.down and not pending(tmp_path)

    loop = VirtualLoop()
    loop.run_until_complete(play())
    loop.close()


@pytest.mark.parametrize("seed", range(5))
def test_a_fault_that_found_no_moment_in_a_dense_run_goes_first_at_the_end(tmp_path: Path, seed: int) -> None:
    async def play() -> None:
        dense = spec(Hold(Verb.START, NODES[:1]), schedule=Schedule(mean_s=0.5), for_s=3.0)
        rare = spec(Shy(Verb.START, NODES[1:]), "shy", schedule=Schedule(mean_s=1000.0), for_s=0.5)
        view = one_group(brokers=NODES, settled=True)
        made = runner(Machine(), [dense, rare], tmp_path, view=lambda: view, seed=seed)
        running = asyncio.ensure_future(made.run(30.0))
        await asyncio.sleep(30.0 * PRIORITY_PHASE - 0.01)
        assert made.effective == {"hold"}, "until then the dense one leaves no gap"
        await running
        assert made.effective == {"hold", "shy"}

    loop = VirtualLoop()
    loop.run_until_complete(play())
    loop.close()


def test_faults_at_fixed_moments_give_way_to_nobody(tmp_path: Path) -> None:
    async def play() -> None:
        rows: list[str] = []
        fixed = spec(Hold(Verb.RESUME, NODES[:1]), schedule=Schedule(every_s=2.0), for_s=0.5)
        idle = spec(Idle([0] * 20), "idle", schedule=Schedule(mean_s=3.0), for_s=0.5)

        def record(kind: str, **columns: Any) -> int:
            rows.append(f"{columns['type']} {columns['f']}")
            return len(rows)

        made = runner(Machine(), [fixed, idle], tmp_path, record=record)
        await made.run(21.0)
        assert rows.count("invoke hold") == 10 and made.effective == {"hold"}

    loop = VirtualLoop()
    loop.run_until_complete(play())
    loop.close()
