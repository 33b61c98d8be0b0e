"""Hold back answers of nodes to clients, so that they come when no client may be waiting for them any more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chaos.effects.requests import DelayAnswers
from chaos.fault import Effect
from nemesis._links import LATE_MS, PER_MILLE
from nemesis._requests import OfClients

ALIASES: Mapping[str, Mapping[str, object]] = {"answer-late": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``, or the name of any node. Of its answers to these ``requests`` of clients (kinds, as
    its driver calls them; none: all), ``per_mille`` in 1000 come ``delay_ms`` later. Others overtake them, or wait
    behind them where answers come in the order of the requests."""

    target: str = "all"
    requests: tuple[str, ...] = ()
    per_mille: int = field(default=200, metadata={"within": PER_MILLE})
    delay_ms: int = field(default=1_000, metadata={"within": LATE_MS})


def create(options: Options) -> OfClients:
    return OfClients(
        target=options.target,
        action=DelayAnswers(options.requests, options.per_mille, delay_ns=options.delay_ms * 1_000_000),
        effect=Effect.SLOWS,
        detail={"delay_ms": options.delay_ms},
    )
