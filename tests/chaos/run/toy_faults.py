"""Two nodes without a deployment, and faults that hold them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from chaos.draws import Draws
from chaos.driver import ClusterView
from chaos.experiment.model import FaultSpec, Schedule
from chaos.fault import Injection, NotNow, Undo, Verb, World
from chaos.run.journal import Journal
from chaos.run.nemesis_runner import NemesisRunner
from tests.views import one_group

NODES = ("broker-0", "broker-1")


class Machine:
    """A deployment of two nodes that only remembers what was done to them."""

    def __init__(self) -> None:
        self.down: set[str] = set()
        self.paused: set[str] = set()
        self.failing = False
        self.hits = 1
        self.doomed: set[str] = set()  # they end as soon as they run

    def now_ns(self) -> int:
        return int(asyncio.get_running_loop().time() * 1e9)

    async def kill(self, node: str) -> Mapping[str, object]:
        if node in self.down:
            raise NotNow("it isn't running")
        self.down.add(node)
        self.paused.discard(node)
        return {}

    async def pause(self, node: str) -> Mapping[str, object]:
        if node in self.down or node in self.paused:
            raise NotNow("it isn't running")
        self.paused.add(node)
        return {}

    async def undo(self, step: Undo) -> None:
        await asyncio.sleep(0)  # others run meanwhile
        if self.failing:
            raise OSError("no")
        if step.verb is Verb.START and step.subject in self.down:
            self.down.discard(step.subject)
        elif step.verb is Verb.RESUME:
            self.paused.discard(step.subject)
            if step.subject in self.doomed:
                self.down.add(step.subject)
                self.doomed.discard(step.subject)

    async def rule_hits(self, rule: str) -> int:
        return self.hits


class Hold:
    """Kills or pauses nodes; a node that is down or paused already counts as hit, as in a fault with many targets."""

    needs = ()

    def __init__(self, verb: Verb, targets: tuple[str, ...]) -> None:
        self.verb, self.targets = verb, targets

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        return Injection(targets=self.targets, undo=tuple(Undo(verb=self.verb, subject=one) for one in self.targets))

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        machine: Any = world.deployment
        for node in injection.targets:
            try:
                await (machine.kill if self.verb is Verb.START else machine.pause)(node)
            except NotNow:
                pass
        return {}


class Made:
    options = None

    def __init__(self, fault: Hold, name: str) -> None:
        self.name, self.fault = name, fault

    def build(self) -> Hold:
        return self.fault


def spec(fault: object, name: str = "hold", **more: Any) -> FaultSpec:
    use: Any = Made(fault, name)  # type: ignore[arg-type]
    return FaultSpec(use=use, **{"schedule": Schedule(at_s=(0.0,)), **more})


def runner(
    machine: Machine,
    specs: list[FaultSpec],
    directory: Path,
    *,
    view: Callable[[], ClusterView] = lambda: one_group(brokers=NODES),
    record: Callable[..., int] = lambda kind, **columns: 0,
    seed: int = 1,
) -> NemesisRunner:
    return NemesisRunner(
        specs,
        deployment=machine,  # type: ignore[arg-type]
        driver=None,  # type: ignore[arg-type]
        record=record,
        journal=Journal(directory, durable=False),
        view=view,
        draws=Draws(seed),
    )


class Shy(Hold):
    """Has an effect only while nothing else has one."""

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        if not view.settled:
            raise NotNow("something is down")
        return super().plan(view, rng, tag)
