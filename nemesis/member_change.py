"""Take a controller that runs out of the controllers' group; the undo lets it join again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from chaos.driver import CanChangeControllers, ClusterView
from chaos.experiment.targets import Target, choose, is_target
from chaos.fault import Effect, Injection, NotNow, Undo, Verb, World, on

ALIASES: Mapping[str, Mapping[str, object]] = {"member-change": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: controllers (any that doesn't lead), or a controller's name (which is spared while it leads)."""

    target: str = "controllers"

    def __post_init__(self) -> None:
        if self.target != Target.CONTROLLERS and is_target(self.target, ()):
            raise ValueError(f"target must be controllers or a controller's name, not {self.target}: one leaves")


@dataclass(frozen=True, slots=True)
class MemberChange:
    options: Options
    needs: Sequence[type] = (CanChangeControllers,)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        leader = view.controller_leader
        able = [name for name in choose(self.options.target, view, rng) if name in view.controllers and name != leader]
        if not leader or not able:
            raise NotNow("no controller leads" if not leader else "no other controller can leave")
        node = rng.choice(able)
        undo = (Undo(verb=Verb.ADD_CONTROLLER, subject=node),)
        return Injection(targets=(node,), undo=undo, effects=on((node,), Effect.REMOVES_REPLICA))

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        (node,) = injection.targets
        return {node: await world.remove_controller(node)}


def create(options: Options) -> MemberChange:
    return MemberChange(options)
