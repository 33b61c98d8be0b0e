"""Report the end of connections late: to its peers a dead node looks like a silent one."""

from __future__ import annotations

from dataclasses import dataclass, field

from chaos.effects.links import SlowClose
from nemesis._links import LATE_MS, Around


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``, or client. The end of each of its connections is passed on ``delay_ms`` late, and so
    is a refusal. It has an effect only if connections end meanwhile, for example by a kill."""

    target: str = "one"
    delay_ms: int = field(default=2000, metadata={"within": LATE_MS})


def create(options: Options) -> Around:
    delay = SlowClose(options.delay_ms * 1_000_000)
    return Around(target=options.target, action=delay, detail={"delay_ms": options.delay_ms})
