"""Crash nodes at once, as a power cut does: no node code runs, and unsynced bytes may be lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import cast

from chaos.deployment import CanKill
from chaos.driver import ClusterView
from chaos.experiment.targets import choose
from chaos.fault import Effect, Injection, Undo, Verb, World, each, on
from chaos.run.probes import silence

ALIASES: Mapping[str, Mapping[str, object]] = {
    "minor-kill": {"target": "minority"},  # OpenChaos, as the next four
    "major-kill": {"target": "majority"},
    "random-kill": {"target": "random"},
    "fixed-kill": {"target": "one"},
    "leader-kill": {"target": "master"},
    "node-start-stopper": {"target": "random"},  # Jepsen
    "crash": {},
    "controller-leader-kill": {"target": "controller_leader"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: one, minority, minority_third, majority, all, random, random(K), 50%, master, slave, followers,
    controller_leader, controllers, controller_minority, nameserver, tier, or a node's name."""

    target: str = "master"


@dataclass(frozen=True, slots=True)
class Kill:
    options: Options
    needs: Sequence[type] = (CanKill,)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        targets = choose(self.options.target, view, rng)
        undo = tuple(Undo(verb=Verb.START, subject=name) for name in targets)
        effects = on(targets, Effect.TAKES_DOWN, Effect.MAY_CRASH)
        return Injection(targets=targets, undo=undo, effects=effects)

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await each(injection.targets, cast(CanKill, world.deployment).kill)

    async def probe(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await silence(world, injection.targets)


def create(options: Options) -> Kill:
    return Kill(options)
