"""Ask for a planned switch: a replica that is in sync becomes the master."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from chaos.driver import CanSwitch, ClusterView
from chaos.fault import Injection, NotNow, World
from chaos.targets import Target, choose


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: slave (any that is in sync), or the name of the broker that shall be master."""

    target: str = "slave"


@dataclass(frozen=True, slots=True)
class Switch:
    options: Options
    needs: Sequence[type] = (CanSwitch,)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        if not view.master:
            raise NotNow("there is no master to take over from")
        if self.options.target == Target.SLAVE:
            ready = sorted(name for name in view.in_sync if name != view.master)
            if not ready:
                raise NotNow("no slave is in sync")
            targets: tuple[str, ...] = (rng.choice(ready),)
        else:
            targets = choose(self.options.target, view, rng)
        if len(targets) != 1 or targets[0] == view.master:
            raise NotNow(f"{', '.join(targets)} can't take over from {view.master}")
        return Injection(targets=targets, detail={"from": view.master, "epoch": view.epoch})

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await world.switch(injection.targets[0])


def create(options: Options) -> Switch:
    return Switch(options)
