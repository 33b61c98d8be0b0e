"""Faults that end nodes and start them again: when, in which order, and how long each lasts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from chaos.deployments._sim.loop import VirtualLoop
from chaos.driver import ClusterView
from chaos.fault import Acts, Effect, Injection, NotNow, Verb
from chaos.plugins import PluginKind, load, options_class
from tests.views import changed, one_group

BROKERS = ("broker-0", "broker-1", "broker-2")
VIEW = one_group(brokers=BROKERS, master="broker-0", epoch=3, in_sync=BROKERS, settled=True)


@dataclass
class World:
    """Remembers what was done to it and when; a node is in sync ``recovers_s`` after its start."""

    view: ClusterView = VIEW
    recovers_s: float = 0.0
    held: frozenset[str] = frozenset()
    holding: set[str] | None = None
    down: set[str] = field(default_factory=set)
    done: list[tuple[float, str, str]] = field(default_factory=list)

    @property
    def deployment(self) -> World:
        return self

    def _now(self) -> float:
        return round(asyncio.get_running_loop().time() - self.began_s, 3)

    async def _end(self, how: str, node: str) -> Mapping[str, object]:
        if node in self.down:
            raise NotNow("it isn't running")
        assert self.holding is None or node in self.holding
        await asyncio.sleep(0)
        self.done.append((self._now(), how, node))
        self.down.add(node)
        self.view = changed(self.view, in_sync=tuple(name for name in self.view.groups[0].in_sync if name != node))
        return {}

    async def kill(self, node: str) -> Mapping[str, object]:
        return await self._end("kill", node)

    async def terminate(self, node: str) -> Mapping[str, object]:
        return await self._end("stop", node)

    def hold(self, injection: Injection, nodes: Sequence[str]) -> None:
        self.holding = {*nodes}

    def prove(self, injection: Injection, proof: Mapping[str, object], *only: Effect) -> None:
        assert proof and set(proof) <= set(injection.targets) and {*only} <= {*(injection.effects or {})}

    async def start(self, node: str, injection: Injection) -> bool:
        if node in self.held:
            return False
        self.done.append((self._now(), "start", node))
        self.down.discard(node)
        asyncio.get_running_loop().call_later(self.recovers_s, self._recovered, node)
        return True

    def _recovered(self, node: str) -> None:
        if node not in self.down:
            self.view = changed(self.view, in_sync=(*self.view.groups[0].in_sync, node))

    async def switch(self, target: str) -> Mapping[str, object]:
        raise AssertionError("nobody asked for a switch")

    def play(self, name: str, lasts_s: float = 60.0, **options: Any) -> tuple[Injection, float]:
        """Inject this fault, and let it act for so long; the injection, and how long it did act."""
        module = load(PluginKind.FAULT, name)
        fault = module.create(options_class(module)(**options))
        assert isinstance(fault, Acts)

        async def main() -> tuple[Injection, float]:
            loop = asyncio.get_running_loop()
            self.began_s = loop.time()
            injection = fault.plan(self.view, Random(4), "fault-0")
            await fault.inject(self, injection)

            async def rest(seconds: float) -> bool:
                await asyncio.sleep(min(seconds, max(0.0, lasts_s - self._now())))
                return self._now() < lasts_s

            await fault.act(self, injection, rest)
            return injection, self._now()

        loop = VirtualLoop()
        try:
            return loop.run_until_complete(main())
        finally:
            loop.close()


def test_a_crash_loop_kills_each_life_until_it_ends() -> None:
    world = World()
    injection, _ = world.play("crash_loop", 2.0, target="broker-1", up_s=0.5, down_s=0.25)
    assert not injection.passes and [step.verb for step in injection.undo] == [Verb.START]
    what = [(0.0, "kill"), (0.25, "start"), (0.75, "kill"), (1.0, "start"), (1.5, "kill"), (1.75, "start")]
    assert [(at_s, did) for at_s, did, _ in world.done] == what


def test_a_crash_loop_leaves_alone_what_another_fault_holds_down() -> None:
    world = World(held=frozenset({"broker-1"}))
    world.play("crash_loop", 3.0, target="all", up_s=0.5, down_s=0.25)
    assert [did for _, did, node in world.done if node == "broker-1"] == ["kill"]
    assert [did for _, did, node in world.done if node == "broker-2"].count("kill") == 4


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_restart_takes_all_down_at_once_and_passes(how: str) -> None:
    world = World()
    injection, took_s = world.play("restart", how=how, down_s=0.5)
    assert injection.passes and took_s == 0.5 and not world.down
    assert world.done == [(0.0, how, node) for node in BROKERS] + [(0.5, "start", node) for node in BROKERS]


def test_a_restart_that_is_ended_leaves_the_start_to_its_undo() -> None:
    world = World()
    injection, took_s = world.play("restart", 0.2, down_s=0.5)
    assert took_s == 0.2 and world.down == {step.subject for step in injection.undo} == set(BROKERS)


def test_a_rolling_restart_waits_for_each_node_and_never_has_two_down() -> None:
    world = World(recovers_s=2.0)
    injection, took_s = world.play("rolling_restart", down_s=0.5, pause_s=1.0, within_s=10.0)
    assert injection.passes and took_s == pytest.approx(3 * 2.5, abs=0.4) and sorted(injection.targets) == [*BROKERS]
    assert [(did, node) for _, did, node in world.done] == [
        (did, node) for node in injection.targets for did in ("stop", "start")
    ]


def test_a_rolling_restart_goes_on_after_its_bound() -> None:
    _, took_s = World(recovers_s=100.0).play("rolling_restart", down_s=0.5, pause_s=1.0, within_s=3.0)
    assert took_s == pytest.approx(3 * 3.5, abs=0.4)


@pytest.mark.parametrize("elected_s", [2.0, 100.0])
def test_the_old_master_comes_back_once_there_is_another_or_after_a_bound(elected_s: float) -> None:
    class Electing(World):
        async def kill(self, node: str) -> Mapping[str, object]:
            loop = asyncio.get_running_loop()
            loop.call_later(elected_s / 2, lambda: setattr(self, "view", changed(self.view, master="")))
            loop.call_later(elected_s, lambda: setattr(self, "view", changed(self.view, master="broker-2")))
            return await super().kill(node)

    world = Electing()
    injection, took_s = world.play("demote", within_s=15.0)
    assert injection.targets == ("broker-0",) and injection.passes
    assert took_s == pytest.approx(min(elected_s, 15.0), abs=0.3)


@pytest.mark.parametrize(
    ("name", "options"),
    [("crash_loop", {"up_s": 0}), ("restart", {"down_s": -1}), ("rolling_restart", {"pause_s": 11})],
)
def test_times_that_make_no_sense_are_refused(name: str, options: dict[str, float]) -> None:
    module = load(PluginKind.FAULT, name)
    with pytest.raises(ValueError, match="must"):
        options_class(module)(**options)
