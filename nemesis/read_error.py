"""Make reads from nodes' disks fail: a node that needs the data stops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chaos.effects.disks import FailReads
from nemesis._disks import OnDisks

ALIASES: Mapping[str, Mapping[str, object]] = {"read-error": {}, "io-fault": {}, "charybdefs": {"per_mille": 10}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``. Each read fails with probability ``per_mille``/1000. A node that stopped is started
    when its disk can be read again."""

    target: str = "one"
    per_mille: int = 100

    def __post_init__(self) -> None:
        if not 0 < self.per_mille <= 1000:
            raise ValueError(f"per_mille: expected 1 to 1000, got {self.per_mille}")


def create(options: Options) -> OnDisks:
    return OnDisks(
        target=options.target,
        action=FailReads(options.per_mille),
        stops=True,
        detail={"per_mille": options.per_mille},
    )
