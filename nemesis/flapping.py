"""Cut nodes off from all others, reconnect them, and cut them off again, as a loose cable does."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.effects.links import Drop
from nemesis._links import Around, Pulses, check_period


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``, or client. It is cut off for ``cut_s`` of each ``period_s``."""

    target: str = "one"
    period_s: float = 2.0
    cut_s: float = 1.0

    def __post_init__(self) -> None:
        check_period(self.period_s, self.cut_s, "cut_s")


def create(options: Options) -> Pulses:
    detail = {"period_s": options.period_s, "cut_s": options.cut_s}
    around = Around(target=options.target, action=Drop(), detail=detail)
    return Pulses(around=around, period_s=options.period_s, pulse_s=options.cut_s)
