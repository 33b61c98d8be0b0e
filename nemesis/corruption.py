"""Flip bits in what nodes send and receive. They flip above TCP, so TCP's checksum does not catch them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chaos.effects.links import Corrupt
from nemesis._links import PER_MILLE, Around

ALIASES: Mapping[str, Mapping[str, object]] = {"corrupt": {}}  # Jepsen and Chaos Mesh


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``, or client. In each chunk of bytes, one bit is flipped with probability
    ``per_mille``/1000. A system whose frames carry no checksum will store and return wrong bodies; that is no bug of
    its replication."""

    target: str = "one"
    per_mille: int = field(default=20, metadata={"within": PER_MILLE})


def create(options: Options) -> Around:
    odds = options.per_mille
    return Around(target=options.target, action=Corrupt(odds), detail={"per_mille": odds})
