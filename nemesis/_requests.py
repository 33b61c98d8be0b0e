"""What the faults on requests have in common: for each target one rule on what clients ask of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import cast

from chaos.deployment import CanRuleLinks, CanRuleRequests
from chaos.driver import CanFrame, ClusterView
from chaos.effects.requests import OnRequests
from chaos.experiment.targets import CLIENT, choose
from chaos.fault import Effect, Injection, World, on
from chaos.plugins import nearest
from nemesis._links import put_up, rule, undo_of


@dataclass(frozen=True, slots=True, kw_only=True)
class OfClients:
    """A fault that does one thing to requests of clients to its targets. Nodes' own requests go on as ever."""

    target: str
    action: OnRequests
    effect: Effect = Effect.CUTS_CLIENTS
    detail: Mapping[str, object] = field(default_factory=dict)
    needs: Sequence[type] = (CanRuleLinks, CanRuleRequests, CanFrame)

    def misfits(self, driver: object) -> Mapping[str, str]:
        """Refuse kinds that no client asks for there."""
        known = cast(CanFrame, driver).framing().kinds
        unknown = next((kind for kind in self.action.kinds if kind not in known), "")
        return (
            {"requests": f"clients of this system don't ask for {unknown!r}; {nearest(unknown, known)}"}
            if unknown
            else {}
        )

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        targets = choose(self.target, view, rng)
        undo = undo_of(tag, targets)
        return Injection(
            targets=targets,
            undo=undo,
            detail={
                **({"requests": list(self.action.kinds)} if self.action.kinds else {}),
                "per_mille": self.action.per_mille,
                **self.detail,
            },
            effects=on(targets, self.effect),
            concerns={step.subject: (target,) for step, target in zip(undo, targets, strict=True)},
        )

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        rules = [rule((CLIENT,), (target,), self.action, world.view) for target in injection.targets]
        return await put_up(world, injection, rules)
