"""What the faults of the tier have in common: one rule in the object store, put up and taken down by id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from chaos.driver import CanBreakTier, ClusterView, TierRequest, TierRule
from chaos.fault import Effect, Injection, NotNow, Undo, Verb, World, on

#: The numbers that a probability in 1/1000 may have.
PER_MILLE = range(1, 1001)
#: Requests that change what the tier holds, but for deletions, on which no promise rests.
WRITES = (TierRequest.PUT, TierRequest.CAS)


@dataclass(frozen=True, slots=True, kw_only=True)
class TierBreak:
    rule: TierRule
    detail: Mapping[str, object] = field(default_factory=dict)
    needs: Sequence[type] = (CanBreakTier,)

    def plan(self, view: ClusterView, rng: Random, tag: str) -> Injection:
        if not view.tier:
            raise NotNow("this system has no tier")
        undo = (Undo(verb=Verb.MEND_TIER, subject=f"{tag}-tier"),)
        targets = tuple(sorted(view.tier))
        return Injection(targets=targets, undo=undo, detail=self.detail, effects=on(targets, Effect.HARMS_TIER))

    async def inject(self, world: World, injection: Injection) -> Mapping[str, object]:
        (step,) = injection.undo
        await world.break_tier(step.subject, self.rule)
        return {"rules": [step.subject]}


def partly(rule: TierRule) -> TierBreak:
    """Return a fault that hits a part of the requests of some kinds. Raises ``ValueError`` when it would hit none."""
    if not rule.requests:
        raise ValueError(f"requests must name at least one of {', '.join(TierRequest)}")
    return TierBreak(rule=rule, detail={"requests": [str(kind) for kind in rule.requests], "per_mille": rule.per_mille})
