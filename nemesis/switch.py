"""Make another replica the master: planned (one that is in sync) or forced (any live one)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from chaos.driver import ClusterView
from chaos.experiment.targets import Target, check_single_slave, choose, choose_led
from chaos.fault import Effect, Injection, NotNow, World, on
from nemesis._switching import Mode, group_of, name_of, power, ready

ALIASES: Mapping[str, Mapping[str, object]] = {"forced-switch": {"mode": "forced"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: slave (any that may take over), or the name of the broker to become master. ``mode``: planned (to a
    replica in sync) or forced (to any replica; the system must refuse if that would break its promises)."""

    target: str = "slave"
    mode: Mode = Mode.PLANNED

    def __post_init__(self) -> None:
        check_single_slave(self.target, "that can't take over from the master")


@dataclass(frozen=True, slots=True)
class Switch:
    options: Options

    @property
    def needs(self) -> Sequence[type]:
        return (power(self.options.mode),)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        if self.options.target == Target.SLAVE:
            group = choose_led(view, rng)
            able = ready(group, self.options.mode)
            if not able:
                raise NotNow("no slave is in sync")
            target = rng.choice(able)
        else:
            (target,) = choose(self.options.target, view, rng)
            group = choose_led(view, rng, follower=target)
        mode = {"mode": str(self.options.mode)} if self.options.mode != Mode.PLANNED else {}
        detail = {"from": group.leader, "epoch": group.epoch, **mode, **name_of(group, view)}
        return Injection(targets=(target,), detail=detail, effects=on((target,), Effect.SWITCHES_MASTER))

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        (node,) = injection.targets
        group, forced = group_of(injection, world.view), self.options.mode == Mode.FORCED
        return {node: await world.switch(node, group=group.name, forced=forced)}


def create(options: Options) -> Switch:
    return Switch(options)
