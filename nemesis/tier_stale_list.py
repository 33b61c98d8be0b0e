"""Make lists of the tier stale: they show its state when the fault began, deleted objects included."""

from __future__ import annotations

from collections.abc import Mapping

from chaos.driver import TierEffect, TierRequest, TierRule
from nemesis._tier import TierBreak

ALIASES: Mapping[str, Mapping[str, object]] = {"tier-stale-list": {}}


def create(options: object) -> TierBreak:
    return TierBreak(rule=TierRule(effect=TierEffect.STALE_LIST, requests=(TierRequest.LIST,)))
