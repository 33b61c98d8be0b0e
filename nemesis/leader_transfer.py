"""Have the controllers' leader hand over to another controller, as an operator does before maintenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from chaos.driver import CanTransferLeader, ClusterView
from chaos.experiment.targets import Target, choose, is_target
from chaos.fault import Effect, Injection, NotNow, World, on

ALIASES: Mapping[str, Mapping[str, object]] = {"leader-transfer": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: controllers (any that doesn't lead), or the name of the controller to lead."""

    target: str = "controllers"

    def __post_init__(self) -> None:
        if self.target != Target.CONTROLLERS and is_target(self.target, ()):
            raise ValueError(f"target must be controllers or a controller's name, not {self.target}: one is to lead")


@dataclass(frozen=True, slots=True)
class LeaderTransfer:
    options: Options
    needs: Sequence[type] = (CanTransferLeader,)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        leader = view.controller_leader
        able = [name for name in choose(self.options.target, view, rng) if name in view.controllers and name != leader]
        if not leader or not able:
            raise NotNow("no controller leads" if not leader else "no other controller can take over")
        target = rng.choice(able)
        effects = on((target,), Effect.SWITCHES_MASTER)
        return Injection(targets=(target,), detail={"from": leader}, effects=effects)

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        (node,) = injection.targets
        return {node: await world.transfer_leader(node)}


def create(options: Options) -> LeaderTransfer:
    return LeaderTransfer(options)
