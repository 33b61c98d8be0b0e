"""Make every sync of nodes' disks last longer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chaos.effects.disks import SlowDisk
from nemesis._disks import OnDisks

ALIASES: Mapping[str, Mapping[str, object]] = {"slow-disk": {}, "disk-delay": {}, "io-delay": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``. Each sync lasts ``latency_ms`` longer; syncs that come after it wait."""

    target: str = "one"
    latency_ms: int = 100

    def __post_init__(self) -> None:
        if not 0 < self.latency_ms <= 60_000:
            raise ValueError(f"latency_ms: expected 1 to 60000, got {self.latency_ms}")


def create(options: Options) -> OnDisks:
    return OnDisks(
        target=options.target,
        action=SlowDisk(options.latency_ms * 1_000_000),
        stops=False,
        detail={"latency_ms": options.latency_ms},
    )
