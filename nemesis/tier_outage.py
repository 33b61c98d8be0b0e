"""Make the tier unreachable for all nodes: its connections break (refuse) or nothing gets through (drop)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import cast

from chaos.deployment import CanRuleLinks
from chaos.driver import ClusterView
from chaos.effects.links import Drop, LinkRule, Reset
from chaos.fault import Effect, Injection, NotNow, Undo, Verb, World, on
from chaos.run.probes import severance


class Mode(StrEnum):
    REFUSE = "refuse"
    DROP = "drop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``mode``: refuse (requests fail at once) or drop (requests hang)."""

    mode: Mode = Mode.REFUSE


@dataclass(frozen=True, slots=True)
class TierOutage:
    options: Options
    needs: Sequence[type] = (CanRuleLinks,)

    @property
    def link_actions(self) -> Sequence[type]:
        return (Drop,) if self.options.mode == Mode.DROP else (Reset,)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        if not view.tier:
            raise NotNow("this system has no tier")
        undo = tuple(Undo(verb=Verb.CLEAR_RULE, subject=f"{tag}-{way}") for way in ("out", "in"))
        targets, detail = tuple(sorted(view.tier)), {"mode": str(self.options.mode)}
        return Injection(targets=targets, undo=undo, detail=detail, effects=on(targets, Effect.HARMS_TIER))

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        links = cast(CanRuleLinks, world.deployment)
        action = Drop() if self.options.mode == Mode.DROP else Reset()
        targets, everybody = frozenset(injection.targets), frozenset({"*"})
        out_id, in_id = (step.subject for step in injection.undo)
        await links.set_rule(out_id, LinkRule(targets, everybody, action))
        await links.set_rule(in_id, LinkRule(everybody, targets, action))
        return {"rules": [out_id, in_id]}

    async def probe(self, world: World, injection: Injection) -> Mapping[str, object]:
        return await severance(world, [(injection.targets, ("*",)), (("*",), injection.targets)])


def create(options: Options) -> TierOutage:
    return TierOutage(options)
