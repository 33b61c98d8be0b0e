"""Lose the answers of the tier: requests are executed, but their senders get no answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chaos.driver import TierEffect, TierRequest, TierRule
from nemesis._tier import PER_MILLE, WRITES, TierBreak, partly

ALIASES: Mapping[str, Mapping[str, object]] = {"tier-answer-lost": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``requests``: put (of a data object), cas (of a manifest), get, list, delete. Of the answers to these,
    ``per_mille`` in 1000 are lost."""

    requests: tuple[TierRequest, ...] = WRITES
    per_mille: int = field(default=500, metadata={"within": PER_MILLE})


def create(options: Options) -> TierBreak:
    return partly(TierRule(effect=TierEffect.LOSE_ANSWER, requests=options.requests, per_mille=options.per_mille))
