"""Make the next sync of nodes' disks fail: what is on the disk is then unknown, and the nodes stop at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chaos.effects.disks import FailSync
from nemesis._disks import OnDisks

ALIASES: Mapping[str, Mapping[str, object]] = {
    "minor-disk-error": {"target": "minority"},  # OpenChaos, as the next three
    "major-disk-error": {"target": "majority"},
    "random-disk-error": {"target": "random"},
    "fixed-disk-error": {"target": "one"},
    "fsync-failure": {},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``. A node that stopped is started when its disk works again."""

    target: str = "one"


def create(options: Options) -> OnDisks:
    return OnDisks(target=options.target, action=FailSync(), stops=True)
