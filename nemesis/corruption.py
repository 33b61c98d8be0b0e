"""Flip bits in what nodes send and receive, above TCP, whose own checksum would have caught them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chaos.effects.links import Corrupt
from nemesis._links import PER_MILLE, Around

ALIASES: Mapping[str, Mapping[str, object]] = {"corrupt": {}}  # Jepsen and Chaos Mesh


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``, or client. One bit is flipped in each chunk of bytes with ``per_mille``/1000. A
    system whose frames carry no checksum can't but store and answer wrong bodies: that is no bug of its replication."""

    target: str = "one"
    per_mille: int = field(default=20, metadata={"within": PER_MILLE})


def create(options: Options) -> Around:
    odds = options.per_mille
    return Around(target=options.target, action=Corrupt(odds), detail={"per_mille": odds})
