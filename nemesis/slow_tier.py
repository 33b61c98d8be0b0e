"""Let the tier take its time: each request is taken late, even when its sender has given up meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chaos.driver import TierEffect, TierRule
from nemesis._tier import TierBreak

ALIASES: Mapping[str, Mapping[str, object]] = {"slow-tier": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The tier takes each request ``delay_ms`` after it came. Beyond the time limit of the system under test no answer
    is of use, and writes take effect behind its back."""

    delay_ms: int = field(default=400, metadata={"within": range(1, 60_001)})


def create(options: Options) -> TierBreak:
    rule = TierRule(effect=TierEffect.SLOW, delay_ms=options.delay_ms)
    return TierBreak(rule=rule, detail={"delay_ms": options.delay_ms})
