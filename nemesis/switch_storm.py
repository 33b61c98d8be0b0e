"""Switch masters again and again: each switch comes before the group has recovered from the last one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from chaos.driver import CanSwitch, ClusterView
from chaos.experiment.targets import choose_led
from chaos.fault import Effect, Injection, NotNow, Rest, World, on
from nemesis._switching import group_of, name_of

ALIASES: Mapping[str, Mapping[str, object]] = {"switch-storm": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """A planned switch every ``period_s``, ``switches`` times in all; one that is refused, since no replica is in sync,
    is skipped. Each goes to the next broker in an order that the seed draws."""

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
        group = choose_led(view, rng)
        others = sorted(group.followers)
        if not any(name in group.in_sync for name in others):
            raise NotNow("no slave is in sync")
        order = (group.leader, *rng.sample(others, len(others)))
        detail = {"from": group.leader, "epoch": group.epoch, "period_s": self.options.period_s, **name_of(group, view)}
        return Injection(targets=order, detail=detail, passes=True, effects=on(order, Effect.SWITCHES_MASTER))

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await _to_next(world, injection)

    async def act(self, world: World, injection: Injection, rest: Rest) -> None:
        for _ in range(self.options.switches - 1):
            if not await rest(self.options.period_s):
                return
            try:
                world.prove(injection, await _to_next(world, injection))
            except NotNow:
                continue


async def _to_next(world: World, injection: Injection) -> Mapping[str, object]:
    """Switch to the first one after the master that is in sync."""
    order, group = injection.targets, group_of(injection, world.view)
    at = order.index(group.leader) if group.leader in order else 0
    able = [name for name in (*order[at + 1 :], *order[:at]) if name in group.in_sync]
    if not able:
        raise NotNow("no slave is in sync")
    return {able[0]: await world.switch(able[0], group=group.name)}


def create(options: Options) -> SwitchStorm:
    return SwitchStorm(options)
