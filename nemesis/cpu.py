"""Give nodes only a part of a processor's time: other processes take the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from chaos.deployment import CanSlowProcessors
from nemesis._pressure import Pressure

_HIGH = {"share_percent": 5}
ALIASES: Mapping[str, Mapping[str, object]] = {
    "minor-cpu-high": {"target": "minority", **_HIGH},  # OpenChaos, as the next three
    "major-cpu-high": {"target": "majority", **_HIGH},
    "random-cpu-high": {"target": "random", **_HIGH},
    "fixed-cpu-high": {"target": "one", **_HIGH},
    "cpu-stress": {},  # Chaos Mesh
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``. A node gets ``share_percent`` of one processor. In the simulator each of its steps
    takes longer accordingly."""

    target: str = "one"
    share_percent: int = field(default=10, metadata={"within": range(5, 51)})


def create(options: Options) -> Pressure:
    share = options.share_percent
    return Pressure(
        target=options.target,
        kind="cpu",
        press=lambda host, node: cast(CanSlowProcessors, host).slow_processor(node, share),
        needs=(CanSlowProcessors,),
        detail={"share_percent": share},
    )
