"""Crash nodes while they have unsynced bytes, and lose all of those bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from chaos.deployment import CanLoseUnsynced
from nemesis._unsynced import Unsynced

ALIASES: Mapping[str, Mapping[str, object]] = {
    "lazyfs": {"target": "random"},  # Jepsen, as the next one
    "lose-unfsynced-writes": {"target": "random"},
    "clear-cache": {},  # LazyFS
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``. Nodes that are programs of others lose what the kernel has not written back; that
    takes root, and `--on process` or `--on netns`."""

    target: str = "one"


def create(options: Options) -> Unsynced:
    return Unsynced(
        target=options.target,
        needs=(CanLoseUnsynced,),
        crash=lambda deployment: cast(CanLoseUnsynced, deployment).lose_unsynced,
    )
