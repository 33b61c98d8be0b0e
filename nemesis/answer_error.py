"""Answer clients with an error of the system's own, in place of nodes, which never hear of the request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chaos.effects.requests import RefuseRequests
from nemesis._links import PER_MILLE
from nemesis._requests import OfClients

ALIASES: Mapping[str, Mapping[str, object]] = {"answer-error": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``, or the name of any node. Of these ``requests`` of clients to it (kinds, as its driver
    calls them; none: all), ``per_mille`` in 1000 are refused, as far as the driver knows an answer after which surely
    nothing has happened."""

    target: str = "all"
    requests: tuple[str, ...] = ()
    per_mille: int = field(default=200, metadata={"within": PER_MILLE})


def create(options: Options) -> OfClients:
    return OfClients(target=options.target, action=RefuseRequests(options.requests, options.per_mille))
