"""Let requests of clients vanish on their way: they never arrive, nothing comes back, and connections stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chaos.effects.requests import SwallowRequests
from nemesis._links import PER_MILLE
from nemesis._requests import OfClients

ALIASES: Mapping[str, Mapping[str, object]] = {"client-blackhole": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``, or the name of any node. Of these ``requests`` of clients to it (kinds, as its driver
    calls them; none: all), ``per_mille`` in 1000 vanish; where answers come in the order of the requests, all that
    follows on the same connection vanishes too."""

    target: str = "all"
    requests: tuple[str, ...] = ()
    per_mille: int = field(default=1000, metadata={"within": PER_MILLE})


def create(options: Options) -> OfClients:
    return OfClients(target=options.target, action=SwallowRequests(options.requests, options.per_mille))
