"""A group's committed offset never goes back or beyond the queue's end; a queue has one owner; nothing is skipped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkers.consumers.committed import Committed
from checkers.consumers.known import Known
from checkers.consumers.locks import Locks
from checkers.consumers.messages import Messages
from checkers.consumers.owners import Owners
from checkers.consumers.passed import Passed
from checkers.consumers.promise import PROMISE
from checkers.consumers.reached import Reached

__all__ = ["PROMISE", "Options", "create"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


def create(options: Options) -> Sequence[Committed | Reached | Passed | Messages | Known | Owners | Locks]:
    return (Committed(), Reached(), Passed(), Messages(), Known(), Owners(), Locks())
