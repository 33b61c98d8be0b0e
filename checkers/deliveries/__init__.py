"""Groups are given every message that is theirs, orderly ones in order; a delay is kept; a transaction decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkers.deliveries.by_key import ByKey
from checkers.deliveries.given import Given
from checkers.deliveries.in_order import InOrder
from checkers.deliveries.promise import PROMISE
from checkers.deliveries.returned import Returned

__all__ = ["PROMISE", "Options", "create"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


def create(options: Options) -> Sequence[Given | InOrder | Returned | ByKey]:
    return (Given(), InOrder(), Returned(), ByKey())
