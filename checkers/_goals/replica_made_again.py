"""A group got a replica that it did not have at first: on another store, or on an empty disk of the same one."""

from __future__ import annotations

from chaos.driver import NoOptions
from chaos.events import RaftMembers
from chaos.goal import Goal
from chaos.law import Rows
from checkers._goals._slices import EVIDENCE, voters


def _reached(history: Rows) -> int:
    found = history.columns.memo(voters).values()
    return sum(len({name for those in later for name in those} - {*first}) for first, *later in found)


def create(options: NoOptions) -> Goal:
    return Goal(reads=(RaftMembers,), evidence=EVIDENCE, reached=_reached)
