"""Reorder packets of nodes: TCP restores the order, so applications see bytes that arrive late."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chaos.effects.links import Reorder
from nemesis._links import LATE_MS, PER_MILLE, Around

ALIASES: Mapping[str, Mapping[str, object]] = {"reorder": {"per_mille": 200}}  # Jepsen


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``, or client. Each chunk of bytes is overtaken with probability ``per_mille``/1000,
    which delays its connection by up to ``stall_ms``."""

    target: str = "one"
    per_mille: int = field(default=200, metadata={"within": PER_MILLE})
    stall_ms: int = field(default=100, metadata={"within": LATE_MS})


def create(options: Options) -> Around:
    action = Reorder(options.per_mille, options.stall_ms * 1_000_000)
    return Around(target=options.target, action=action, detail={"per_mille": options.per_mille})
