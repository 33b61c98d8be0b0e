"""Make the tier slow: each request is executed late, even if its sender has given up by then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chaos.driver import TierEffect, TierRule
from nemesis._tier import TierBreak

ALIASES: Mapping[str, Mapping[str, object]] = {"slow-tier": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The tier executes each request ``delay_ms`` after it arrived. If that is longer than the time limit of the system
    under test, the system no longer waits for the answer, but its writes still take effect."""

    delay_ms: int = field(default=400, metadata={"within": range(1, 60_001)})


def create(options: Options) -> TierBreak:
    rule = TierRule(effect=TierEffect.SLOW, delay_ms=options.delay_ms)
    return TierBreak(rule=rule, detail={"delay_ms": options.delay_ms})
