"""Segments neither overlap nor leave a gap; tier and local log together hold everything, with the same content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkers.tier_continuity.at_once import AtOnce
from checkers.tier_continuity.in_time import Uploads
from checkers.tier_continuity.left_behind import Garbage
from checkers.tier_continuity.manifests import TierContinuity
from checkers.tier_continuity.objects import OF_EACH, Objects
from checkers.tier_continuity.own_tiers import OwnTiers
from checkers.tier_continuity.promise import PROMISE
from checkers.tier_continuity.same_reads import SameReads

__all__ = ["PROMISE", "Options", "create"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


def create(options: Options) -> Sequence[TierContinuity | SameReads | Garbage | Uploads | AtOnce | OwnTiers | Objects]:
    return (
        TierContinuity(),
        SameReads(),
        Garbage(),
        Uploads(),
        AtOnce(),
        OwnTiers(),
        Objects(),
        Objects(needs=OF_EACH),
    )
