"""Freeze nodes, as SIGSTOP does: their peers hear nothing, and messages in progress are sent after the pause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import cast

from chaos.deployment import CanPause
from chaos.driver import ClusterView
from chaos.experiment.targets import choose
from chaos.fault import Effect, Injection, Undo, Verb, World, each, on
from chaos.run.probes import silence

ALIASES: Mapping[str, Mapping[str, object]] = {
    "minor-suspend": {"target": "minority"},  # OpenChaos, as the next four
    "major-suspend": {"target": "majority"},
    "random-suspend": {"target": "random"},
    "fixed-suspend": {"target": "one"},
    "leader-suspend": {"target": "master"},
    "hammer-time": {},  # Jepsen
    "controller-leader-pause": {"target": "controller_leader"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: one, minority, minority_third, majority, all, random, random(K), 50%, master, slave, followers,
    controller_leader, controllers, controller_minority, nameserver, tier, or a node's name."""

    target: str = "one"


@dataclass(frozen=True, slots=True)
class Pause:
    options: Options
    needs: Sequence[type] = (CanPause,)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        targets = choose(self.options.target, view, rng)
        undo = tuple(Undo(verb=Verb.RESUME, subject=name) for name in targets)
        return Injection(targets=targets, undo=undo, effects=on(targets, Effect.TAKES_DOWN))

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await each(injection.targets, cast(CanPause, world.deployment).pause)

    async def probe(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await silence(world, injection.targets)


def create(options: Options) -> Pause:
    return Pause(options)
