"""Have another replica become the master: as planned, of those in sync, or by force, of all that live."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from chaos.driver import ClusterView
from chaos.experiment.targets import Target, check_single_slave, choose
from chaos.fault import Effect, Injection, NotNow, World, on
from nemesis._switching import Mode, power, ready

ALIASES: Mapping[str, Mapping[str, object]] = {"forced-switch": {"mode": "forced"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: slave (any that may take over), or the name of the broker that shall be master. ``mode``: planned (to
    a replica in sync) or forced (to any one; where that would lose what was promised, the system must refuse)."""

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
        if not view.master:
            raise NotNow("there is no master to take over from")
        if self.options.target == Target.SLAVE:
            able = ready(view, self.options.mode)
            if not able:
                raise NotNow("no slave is in sync")
            targets: tuple[str, ...] = (rng.choice(able),)
        else:
            targets = choose(self.options.target, view, rng)
        if len(targets) != 1 or targets[0] == view.master:
            raise NotNow(f"{', '.join(targets)} can't take over from {view.master}")
        mode = {"mode": str(self.options.mode)} if self.options.mode != Mode.PLANNED else {}
        detail = {"from": view.master, "epoch": view.epoch, **mode}
        return Injection(targets=targets, detail=detail, effects=on(targets, Effect.SWITCHES_MASTER))

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        (node,) = injection.targets
        return {node: await world.switch(node, forced=self.options.mode == Mode.FORCED)}


def create(options: Options) -> Switch:
    return Switch(options)
