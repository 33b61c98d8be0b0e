"""Switch masters again and again: the next switch comes before the group has got over the last one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from chaos.driver import CanSwitch, ClusterView
from chaos.fault import Effect, Injection, NotNow, Rest, World, on

ALIASES: Mapping[str, Mapping[str, object]] = {"switch-storm": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """A planned switch every ``period_s``, ``switches`` times in all; one that is refused, since nobody is in sync, is
    left out. Each goes to the next broker in an order that the seed draws."""

    period_s: float = 0.5
    switches: int = field(default=8, metadata={"within": range(1, 1001)})

    def __post_init__(self) -> None:
        if self.period_s <= 0:
            raise ValueError("period_s must be more than 0")


@dataclass(frozen=True, slots=True)
class SwitchStorm:
    options: Options
    needs: Sequence[type] = (CanSwitch,)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        if not view.master:
            raise NotNow("there is no master to take over from")
        others = sorted(name for name in view.brokers if name != view.master)
        if not any(name in view.in_sync for name in others):
            raise NotNow("no slave is in sync")
        order = (view.master, *rng.sample(others, len(others)))
        detail = {"from": view.master, "epoch": view.epoch, "period_s": self.options.period_s}
        return Injection(targets=order, detail=detail, passes=True, effects=on(order, Effect.SWITCHES_MASTER))

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await _to_next(world, injection.targets)

    async def act(self, world: World, injection: Injection, rest: Rest) -> None:
        for _ in range(self.options.switches - 1):
            if not await rest(self.options.period_s):
                return
            try:
                world.prove(injection, await _to_next(world, injection.targets))
            except NotNow:
                continue


async def _to_next(world: World, order: Sequence[str]) -> Mapping[str, object]:
    """Switch to the first one after the master that is in sync."""
    view = world.view
    at = order.index(view.master) if view.master in order else 0
    able = [name for name in (*order[at + 1 :], *order[:at]) if name in view.in_sync]
    if not able:
        raise NotNow("no slave is in sync")
    return {able[0]: await world.switch(able[0])}


def create(options: Options) -> SwitchStorm:
    return SwitchStorm(options)
