"""Make every sync of nodes' disks hang, as on a volume whose storage is gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from chaos.deployment import CanHangIo
from nemesis._pressure import Pressure

ALIASES: Mapping[str, Mapping[str, object]] = {
    "minor-io-hang": {"target": "minority"},  # OpenChaos, as the next three
    "major-io-hang": {"target": "majority"},
    "random-io-hang": {"target": "random"},
    "fixed-io-hang": {"target": "one"},
    "io-hang": {},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``. Syncs that hang complete when the fault is undone."""

    target: str = "one"


def create(options: Options) -> Pressure:
    return Pressure(
        target=options.target,
        kind="io",
        press=lambda host, node: cast(CanHangIo, host).hang_io(node),
        needs=(CanHangIo,),
    )
