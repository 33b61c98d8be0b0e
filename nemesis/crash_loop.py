"""Crash nodes, start them and crash them again, over and over, like a service that fails after each restart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from chaos.deployment import CanKill
from chaos.driver import ClusterView
from chaos.experiment.targets import choose
from chaos.fault import Injection, Rest, World
from chaos.run.probes import silence
from nemesis._lives import How, again, bring_up, downs, starts, take_down

ALIASES: Mapping[str, Mapping[str, object]] = {"crash-loop": {}, "pod-failure": {"up_s": 0.1}}  # the last: Chaos Mesh


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``. A node is up for ``up_s``, then down for ``down_s``, and so on."""

    target: str = "one"
    up_s: float = 0.7
    down_s: float = 0.2

    def __post_init__(self) -> None:
        if self.up_s <= 0 or self.down_s < 0:
            raise ValueError("up_s must be more than 0, and down_s not less than 0")


@dataclass(frozen=True, slots=True)
class CrashLoop:
    options: Options
    needs: Sequence[type] = (CanKill,)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        targets = choose(self.options.target, view, rng)
        detail = {"up_s": self.options.up_s, "down_s": self.options.down_s}
        return Injection(targets=targets, undo=starts(targets), detail=detail, effects=downs(targets))

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await take_down(world, How.KILL, injection.targets)

    async def act(self, world: World, injection: Injection, rest: Rest) -> None:
        while await rest(self.options.down_s):
            await bring_up(world, injection, injection.targets)
            if not await rest(self.options.up_s):
                return
            world.hold(injection, injection.targets)
            await again(world, injection, How.KILL, injection.targets)

    async def probe(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await silence(world, injection.targets)


def create(options: Options) -> CrashLoop:
    return CrashLoop(options)
