"""What was once read or confirmed never changes and is never taken back, whichever replica is master."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkers.no_rollback.content import Content
from checkers.no_rollback.others import Others
from checkers.no_rollback.own_log import OwnLog, UnderCuts
from checkers.no_rollback.read import Read


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


def create(options: Options) -> Sequence[Read | OwnLog | Content | Others | UnderCuts]:
    return (Read(), OwnLog(), Content(), Others(), UnderCuts())
