"""Lose answers of nodes to clients: what was asked is done, and who asked doesn't hear of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from chaos.effects.requests import LoseAnswers
from nemesis._links import PER_MILLE
from nemesis._requests import OfClients

ALIASES: Mapping[str, Mapping[str, object]] = {"answer-lost": {}}


class How(StrEnum):
    SILENCE = "silence"
    RESET = "reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``target``: as in ``kill``, or the name of any node. Of its answers to these ``requests`` of clients (kinds, as
    its driver calls them; none: all), ``per_mille`` in 1000 are lost. ``how``: silence (nothing comes; where answers
    come in the order of the requests, none follows on that connection) or reset (the connection breaks)."""

    target: str = "all"
    requests: tuple[str, ...] = ()
    per_mille: int = field(default=200, metadata={"within": PER_MILLE})
    how: How = How.SILENCE


def create(options: Options) -> OfClients:
    action = LoseAnswers(options.requests, options.per_mille, breaks=options.how == How.RESET)
    return OfClients(target=options.target, action=action, detail={"how": str(options.how)})
