"""Expire the credentials for the tier: every request is refused until there are new ones."""

from __future__ import annotations

from collections.abc import Mapping

from chaos.driver import TierEffect, TierRule
from nemesis._tier import TierBreak

ALIASES: Mapping[str, Mapping[str, object]] = {"tier-expired-credentials": {}}


def create(options: object) -> TierBreak:
    return TierBreak(rule=TierRule(effect=TierEffect.EXPIRE))
