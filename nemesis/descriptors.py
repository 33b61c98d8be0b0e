"""Let nodes run out of file descriptors: they can accept no connection, open none, and open no file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from chaos.deployment import CanLimitDescriptors
from nemesis._pressure import Silencing

ALIASES: Mapping[str, Mapping[str, object]] = {"out-of-descriptors": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``. The node's open connections stay. Its syncs hang, since they open files. A node that
    dies of it is started again when the fault is undone."""

    target: str = "one"


def create(options: Options) -> Silencing:
    return Silencing(
        target=options.target,
        kind="descriptors",
        press=lambda host, node: cast(CanLimitDescriptors, host).limit_descriptors(node),
        needs=(CanLimitDescriptors,),
        deadly=True,
    )
