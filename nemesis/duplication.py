"""Send packets of nodes twice: TCP drops the second copy, so applications see only a short stall."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chaos.effects.links import Duplicate
from nemesis._links import LATE_MS, PER_MILLE, Around

ALIASES: Mapping[str, Mapping[str, object]] = {"duplicate": {"per_mille": 200}}  # Jepsen and Chaos Mesh


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``, or client. Each chunk of bytes is hit with probability ``per_mille``/1000; a hit
    delays its connection by up to ``stall_ms``."""

    target: str = "one"
    per_mille: int = field(default=200, metadata={"within": PER_MILLE})
    stall_ms: int = field(default=20, metadata={"within": LATE_MS})


def create(options: Options) -> Around:
    action = Duplicate(options.per_mille, options.stall_ms * 1_000_000)
    return Around(target=options.target, action=action, detail={"per_mille": options.per_mille})
