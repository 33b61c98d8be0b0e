"""Fill nodes' disks: no file can grow. A node refuses requests where it can, and stops where it can't continue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chaos.effects.disks import Full
from nemesis._disks import OnDisks

ALIASES: Mapping[str, Mapping[str, object]] = {"disk-full": {}, "fill-disk": {}, "disk-fill": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``. A node that stopped is started when there is room again."""

    target: str = "one"


def create(options: Options) -> OnDisks:
    return OnDisks(target=options.target, action=Full(), stops=True)
