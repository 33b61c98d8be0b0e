"""Limit nodes' memory to little more than they use now: requests beyond the limit fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from chaos.deployment import CanLimitMemory
from nemesis._pressure import Pressure

ALIASES: Mapping[str, Mapping[str, object]] = {
    "minor-mem-high": {"target": "minority"},  # OpenChaos, as the next three
    "major-mem-high": {"target": "majority"},
    "random-mem-high": {"target": "random"},
    "fixed-mem-high": {"target": "one"},
    "memory-stress": {},  # Chaos Mesh
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``. A node may take ``spare_mb`` MiB more than it has. A node that dies of it is started
    again when the fault is undone."""

    target: str = "one"
    spare_mb: int = field(default=2, metadata={"within": range(100_001)})


def create(options: Options) -> Pressure:
    spare = options.spare_mb
    return Pressure(
        target=options.target,
        kind="memory",
        press=lambda host, node: cast(CanLimitMemory, host).limit_memory(node, spare),
        needs=(CanLimitMemory,),
        deadly=True,
        detail={"spare_mb": spare},
    )
