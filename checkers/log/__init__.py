"""Logs hold what was committed, once and in order; readers are given all of it and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkers.log.asked import Requests
from checkers.log.offsets import Offsets
from checkers.log.promise import PROMISE
from checkers.log.queues import Queues

__all__ = ["PROMISE", "Options", "create"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


def create(options: Options) -> Sequence[Queues | Offsets | Requests]:
    return (Queues(), Offsets(), Requests())
