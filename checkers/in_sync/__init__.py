"""Every replica in sync has what is confirmed, at every step: errors show before an election exposes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkers.in_sync.members import Members
from checkers.in_sync.own_log import OwnLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


def create(options: Options) -> Sequence[OwnLog | Members]:
    return (OwnLog(), Members())
