"""What the faults that put up rules on disks have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import cast

from chaos.deployment import CanRuleDisks
from chaos.driver import ClusterView
from chaos.effects.disks import DiskAction, DiskRule
from chaos.experiment.targets import choose
from chaos.fault import Effect, Injection, Undo, Verb, World, on


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDisks:
    """Puts one action up on the disk of each target. ``stops``: a node may end of it, so that it is started again
    when the fault is over."""

    target: str
    action: DiskAction
    stops: bool
    detail: Mapping[str, object] = field(default_factory=dict)
    needs: Sequence[type] = (CanRuleDisks,)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        targets = choose(self.target, view, rng)
        starts = tuple(Undo(verb=Verb.START, subject=node) for node in targets) if self.stops else ()
        clears = tuple(Undo(verb=Verb.CLEAR_DISK, subject=_rule_id(tag, node)) for node in targets)
        detail = {**self.detail, "rules": dict(zip(targets, (step.subject for step in clears), strict=True))}
        # Undone from behind: a node that was started on a disk that still fails would only stop again.
        return Injection(
            targets=targets,
            undo=(*starts, *clears),
            detail=detail,
            effects=on(targets, Effect.SLOWS, *((Effect.MAY_CRASH,) if self.stops else ())),
            concerns={step.subject: (node,) for node, step in zip(targets, clears, strict=True)},
        )

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        rules = cast(Mapping[str, str], injection.detail["rules"])
        for node, rule_id in rules.items():
            await cast(CanRuleDisks, world.deployment).set_disk_rule(rule_id, DiskRule(node, self.action))
        return {"rules": len(rules)}


def _rule_id(tag: str, node: str) -> str:
    return f"{tag}-{node}"
