"""Limit how many bytes a second a connection carries; the rest waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chaos.effects.links import Throttle
from nemesis._links import Around

ALIASES: Mapping[str, Mapping[str, object]] = {
    "rate": {"bytes_per_s": 125_000},  # Jepsen: 1 Mbit/s
    "bandwidth": {},  # Chaos Mesh and Toxiproxy
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``, or client. Each of its connections carries ``bytes_per_s`` at most, each way."""

    target: str = "one"
    bytes_per_s: int = 20_000


def create(options: Options) -> Around:
    rate = options.bytes_per_s
    return Around(target=options.target, action=Throttle(rate), detail={"bytes_per_s": rate})
