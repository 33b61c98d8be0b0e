"""Make writes to the tier fail: they are refused, and nothing is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chaos.driver import TierEffect, TierRequest, TierRule
from nemesis._tier import PER_MILLE, WRITES, TierBreak, partly

ALIASES: Mapping[str, Mapping[str, object]] = {"tier-put-failure": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``requests``: put (of a data object), cas (of a manifest), get, list, delete. Of these, ``per_mille`` in 1000 are
    refused."""

    requests: tuple[TierRequest, ...] = WRITES
    per_mille: int = field(default=500, metadata={"within": PER_MILLE})


def create(options: Options) -> TierBreak:
    return partly(TierRule(effect=TierEffect.REFUSE, requests=options.requests, per_mille=options.per_mille))
