"""Lose packets of nodes: connections stall (bytes arrive after a retransmission) or are reset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from chaos.effects.links import Reset, Stall
from nemesis._links import LATE_MS, PER_MILLE, Around

ALIASES: Mapping[str, Mapping[str, object]] = {
    "minor-loss": {"target": "minority", "per_mille": 800},  # OpenChaos, as the next three
    "major-loss": {"target": "majority", "per_mille": 800},
    "random-loss": {"target": "random", "per_mille": 800},
    "fixed-loss": {"target": "one", "per_mille": 800},
}


class Mode(StrEnum):
    STALL = "stall"
    RESET = "reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``, or client. Each chunk of bytes is hit with probability ``per_mille``/1000. ``mode``
    says what a hit does to its connection: stall (it is held up for ``stall_ms``) or reset. In containers and on hosts
    packets are really lost, and TCP decides how long a stall lasts."""

    target: str = "one"
    mode: Mode = Mode.STALL
    per_mille: int = field(default=50, metadata={"within": PER_MILLE})
    stall_ms: int = field(default=300, metadata={"within": LATE_MS})


def create(options: Options) -> Around:
    stall = Stall(options.per_mille, options.stall_ms * 1_000_000)
    return Around(
        target=options.target,
        action=Reset(options.per_mille) if options.mode == Mode.RESET else stall,
        detail={"mode": str(options.mode), "per_mille": options.per_mille},
    )
