"""Restart nodes one after another, each when the previous one serves again, as an upgrade to the same version does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from chaos.driver import ClusterView
from chaos.experiment.targets import choose
from chaos.fault import Injection, Rest, World
from chaos.run.probes import silence
from nemesis._lives import How, again, downs, one_by_one, power, starts, take_down

ALIASES: Mapping[str, Mapping[str, object]] = {"rolling-restart": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``; the seed draws the order. ``how``: stop (an orderly end) or kill. Each is down for
    ``down_s``. The next one follows when the node serves again, but not before ``pause_s`` and not after ``within_s``.
    The fault ends after the last one."""

    target: str = "all"
    how: How = How.STOP
    down_s: float = 0.2
    pause_s: float = 1.0
    within_s: float = 10.0

    def __post_init__(self) -> None:
        if self.down_s < 0 or not 0 <= self.pause_s <= self.within_s:
            raise ValueError("down_s must not be less than 0, nor pause_s more than within_s")


@dataclass(frozen=True, slots=True)
class RollingRestart:
    options: Options

    @property
    def needs(self) -> Sequence[type]:
        return (power(self.options.how),)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        chosen = choose(self.options.target, view, rng)
        targets = tuple(rng.sample(chosen, len(chosen)))
        detail = {"how": str(self.options.how)}
        return Injection(targets=targets, undo=starts(targets), detail=detail, passes=True, effects=downs(targets))

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await take_down(world, self.options.how, injection.targets[:1])

    async def act(self, world: World, injection: Injection, rest: Rest) -> None:
        options = self.options

        async def strike(node: str) -> bool:
            return await again(world, injection, options.how, (node,))

        pace = {"down_s": options.down_s, "pause_s": options.pause_s, "within_s": options.within_s}
        await one_by_one(world, injection, rest, strike, **pace)

    async def probe(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await silence(world, injection.targets[:1])


def create(options: Options) -> RollingRestart:
    return RollingRestart(options)
