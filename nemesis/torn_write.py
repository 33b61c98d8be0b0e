"""Crash nodes in the middle of unsynced writes: some sectors of these writes reach the disk, others don't."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from chaos.deployment import CanTearWrites
from nemesis._unsynced import Unsynced

ALIASES: Mapping[str, Mapping[str, object]] = {
    "torn-op": {},  # LazyFS, as the next one
    "torn-seq": {},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``."""

    target: str = "one"


def create(options: Options) -> Unsynced:
    return Unsynced(
        target=options.target,
        needs=(CanTearWrites,),
        crash=lambda deployment: cast(CanTearWrites, deployment).tear_writes,
    )
