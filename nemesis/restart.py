"""Take nodes down together and start them again together, as when the whole room loses power."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from chaos.driver import ClusterView
from chaos.experiment.targets import choose
from chaos.fault import Injection, Rest, World
from chaos.run.probes import silence
from nemesis._lives import How, bring_up, downs, power, starts, take_down

ALIASES: Mapping[str, Mapping[str, object]] = {"restart-all": {}, "power-outage": {}, "recycle-all": {"how": "stop"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``. ``how``: kill or stop (an orderly end). They are down for ``down_s``. The fault ends
    when they are up again; ``for`` in the experiment does not change that."""

    target: str = "all"
    how: How = How.KILL
    down_s: float = 0.5

    def __post_init__(self) -> None:
        if self.down_s < 0:
            raise ValueError("down_s must not be less than 0")


@dataclass(frozen=True, slots=True)
class Restart:
    options: Options

    @property
    def needs(self) -> Sequence[type]:
        return (power(self.options.how),)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        targets = choose(self.options.target, view, rng)
        detail = {"how": str(self.options.how)}
        return Injection(targets=targets, undo=starts(targets), detail=detail, passes=True, effects=downs(targets))

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await take_down(world, self.options.how, injection.targets)

    async def act(self, world: World, injection: Injection, rest: Rest) -> None:
        if await rest(self.options.down_s):
            await bring_up(world, injection, injection.targets)

    async def probe(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await silence(world, injection.targets)


def create(options: Options) -> Restart:
    return Restart(options)
