"""Delay everything that nodes or clients send and receive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chaos.effects.links import Delay
from nemesis._links import Between, Peers, Way

_OPENCHAOS = {"delay_ms": 50, "jitter_ms": 100}
ALIASES: Mapping[str, Mapping[str, object]] = {
    "minor-delay": {"target": "minority", **_OPENCHAOS},  # OpenChaos, as the next three
    "major-delay": {"target": "majority", **_OPENCHAOS},
    "random-delay": {"target": "random", **_OPENCHAOS},
    "fixed-delay": {"target": "one", **_OPENCHAOS},
    "packet": {"delay_ms": 40, "jitter_ms": 20},  # Jepsen, as the next one
    "start-packet": {"delay_ms": 40, "jitter_ms": 20},
    "delay": {},  # Chaos Mesh
    "latency": {},  # Toxiproxy
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``, or the name of any node, or client. All its bytes arrive ``delay_ms`` late, each way,
    and up to ``jitter_ms`` more. ``peers``: only on the links with these kinds of nodes (brokers, controllers,
    nameservers, store, clients), so that some messages of a node are slow and others are not. ``way``: both, out (only
    what the targets send) or in (only what they receive)."""

    target: str = "one"
    delay_ms: int = 150
    jitter_ms: int = 100
    peers: tuple[Peers, ...] = ()
    way: Way = Way.BOTH

    def __post_init__(self) -> None:
        if not self.delay_ms and not self.jitter_ms:
            raise ValueError("delay_ms or jitter_ms must be more than 0")


def create(options: Options) -> Between:
    return Between(
        target=options.target,
        peers=options.peers,
        way=options.way,
        action=Delay(options.delay_ms * 1_000_000, options.jitter_ms * 1_000_000),
        detail={"delay_ms": options.delay_ms, "jitter_ms": options.jitter_ms},
    )
