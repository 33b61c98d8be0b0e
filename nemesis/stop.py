"""Stop nodes in an orderly way, as an operator does (SIGTERM): they sync their disks and end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import cast

from chaos.deployment import CanTerminate
from chaos.driver import ClusterView
from chaos.experiment.targets import choose
from chaos.fault import Effect, Injection, Undo, Verb, World, on, together
from chaos.run.probes import silence

ALIASES: Mapping[str, Mapping[str, object]] = {"terminate": {}, "shutdown": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``. A node that has not ended after a few seconds is killed."""

    target: str = "one"


@dataclass(frozen=True, slots=True)
class Stop:
    options: Options
    needs: Sequence[type] = (CanTerminate,)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        targets = choose(self.options.target, view, rng)
        undo = tuple(Undo(verb=Verb.START, subject=name) for name in targets)
        effects = on(targets, Effect.TAKES_DOWN, Effect.MAY_CRASH)
        return Injection(targets=targets, undo=undo, effects=effects)

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await together(injection.targets, cast(CanTerminate, world.deployment).terminate)

    async def probe(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await silence(world, injection.targets)


def create(options: Options) -> Stop:
    return Stop(options)
