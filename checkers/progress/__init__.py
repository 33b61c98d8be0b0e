"""Readers advance: they are given what is there, are sent on to the next message, and are not kept waiting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkers.progress.advance import Progress
from checkers.progress.answered import Answered
from checkers.progress.held import Held
from checkers.progress.promise import PROMISE
from checkers.progress.stale_maximums import StaleMaximums
from checkers.progress.stale_minimums import StaleMinimums
from checkers.progress.waiting import Waiting

__all__ = ["PROMISE", "Options", "create"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


def create(options: Options) -> Sequence[Progress | Held | Answered | Waiting | StaleMinimums | StaleMaximums]:
    return (Progress(), Held(), Answered(), Waiting(), StaleMinimums(), StaleMaximums())
