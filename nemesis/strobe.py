"""Make nodes' wall clocks jump forward and back, over and over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import cast

from chaos.deployment import CanSkewClocks
from chaos.driver import ClusterView
from chaos.experiment.targets import choose
from chaos.fault import Effect, Injection, NotNow, Rest, Undo, Verb, World, each, on

ALIASES: Mapping[str, Mapping[str, object]] = {"strobe-clock": {}, "clock-strobe": {}}  # Jepsen


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``. The wall clock jumps by ``jump_s``, forward or back as the seed draws, and back again
    after ``period_s``, and so on. For clocks that drift, use ``clock``."""

    target: str = "one"
    jump_s: float = 30.0
    period_s: float = 0.2

    def __post_init__(self) -> None:
        if self.period_s <= 0 or not self.jump_s:
            raise ValueError("period_s must be more than 0, and jump_s something else than 0")


@dataclass(frozen=True, slots=True)
class Strobe:
    options: Options
    needs: Sequence[type] = (CanSkewClocks,)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        targets = choose(self.options.target, view, rng)
        jump_ns = round(rng.choice((-1, 1)) * self.options.jump_s * 1_000_000_000)
        undo = tuple(Undo(verb=Verb.RESET_CLOCK, subject=name) for name in targets)
        detail = {"jump_ns": jump_ns, "period_s": self.options.period_s}
        effects = on(targets, Effect.SKEWS_CLOCKS)
        return Injection(targets=targets, undo=undo, detail=detail, effects=effects)

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await self._jump(world, injection, 1)

    async def act(self, world: World, injection: Injection, rest: Rest) -> None:
        way = 1
        while await rest(self.options.period_s):
            way = -way
            with suppress(NotNow):  # a node that is down doesn't answer, but jumps all the same
                world.prove(injection, await self._jump(world, injection, way))

    async def _jump(self, world: World, injection: Injection, way: int) -> Mapping[str, object]:
        clocks = cast(CanSkewClocks, world.deployment)
        jump_ns = way * cast(int, injection.detail["jump_ns"])

        async def jump(node: str) -> Mapping[str, object]:
            return await clocks.set_clock(node, jump_ns=jump_ns)

        return await each(injection.targets, jump)


def create(options: Options) -> Strobe:
    return Strobe(options)
