"""Lose packets of nodes: on connections that shows as stalls (bytes come after a retransmission) or as resets."""

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
    """``target``: as in ``kill``, or client. ``mode``: stall or reset; it hits each chunk of bytes with
    ``per_mille``/1000, and a stall holds its connection up for ``stall_ms``. In containers and on hosts packets are
    lost in earnest, and how long a stall lasts is up to TCP."""

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
