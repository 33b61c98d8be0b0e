"""Break the connections of nodes again and again: all the time, or in a pulse of each period."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chaos.effects.links import Reset
from nemesis._links import PER_MILLE, Around, Pulses, check_period

ALIASES: Mapping[str, Mapping[str, object]] = {"reset-peer": {}, "reset_peer": {}}  # Toxiproxy


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``, or client. During ``pulse_s`` of each ``period_s``, each chunk of bytes breaks its
    connection with probability ``per_mille``/1000. A period of 0 means all the time."""

    target: str = "one"
    per_mille: int = field(default=1000, metadata={"within": PER_MILLE})
    period_s: float = 1.0
    pulse_s: float = 0.1

    def __post_init__(self) -> None:
        if self.period_s:
            check_period(self.period_s, self.pulse_s, "pulse_s")


def create(options: Options) -> Around | Pulses:
    detail = {"per_mille": options.per_mille, "period_s": options.period_s}
    around = Around(target=options.target, action=Reset(options.per_mille), detail=detail)
    if not options.period_s:
        return around
    return Pulses(around=around, period_s=options.period_s, pulse_s=options.pulse_s)
