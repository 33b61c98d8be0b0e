"""Take the master down until another one is elected, so that it comes back in another role."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from chaos.driver import ClusterView
from chaos.experiment.targets import Target, choose
from chaos.fault import Injection, Rest, World
from chaos.run.probes import silence
from nemesis._lives import LOOK_S, How, downs, power, starts, take_down

ALIASES: Mapping[str, Mapping[str, object]] = {"restart-into-another-role": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``how``: kill or stop (an orderly end). The others have ``within_s`` to elect a master. Once they have, or when
    that time is over, the old master is started, and the fault ends."""

    how: How = How.KILL
    within_s: float = 15.0


@dataclass(frozen=True, slots=True)
class Demote:
    options: Options

    @property
    def needs(self) -> Sequence[type]:
        return (power(self.options.how),)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        targets = choose(Target.MASTER, view, rng)
        detail = {
            "how": str(self.options.how),
            "epoch": max(group.epoch for group in view.groups if group.leader in targets),
        }
        return Injection(targets=targets, undo=starts(targets), detail=detail, passes=True, effects=downs(targets))

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await take_down(world, self.options.how, injection.targets)

    async def act(self, world: World, injection: Injection, rest: Rest) -> None:
        left_s = self.options.within_s
        while left_s > 0 and not self.achieved(world, injection) and await rest(LOOK_S):
            left_s -= LOOK_S

    def achieved(self, world: World, injection: Injection) -> bool:
        (node,) = injection.targets
        return all(group.leader not in ("", node) for group in world.view.groups_of(node))

    async def probe(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await silence(world, injection.targets)


def create(options: Options) -> Demote:
    return Demote(options)
