"""Let no file of a node grow: it refuses what it can refuse, and stops where it can't go on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chaos.effects.disks import Full
from nemesis._disks import OnDisks

ALIASES: Mapping[str, Mapping[str, object]] = {"disk-full": {}, "fill-disk": {}, "disk-fill": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``. Whoever stopped is started when there is room again."""

    target: str = "one"


def create(options: Options) -> OnDisks:
    return OnDisks(target=options.target, action=Full(), stops=True)
