"""A store that had held replicas of groups held none any more: it was drained, or replaced by others."""

from __future__ import annotations

from chaos.driver import NoOptions
from chaos.events import RaftMembers
from chaos.goal import Goal
from chaos.law import Rows
from checkers._goals._slices import EVIDENCE, voters


def _reached(history: Rows) -> int:
    """Count the stores of which each group that they belonged to had taken leave by its last change."""
    found = history.columns.memo(voters).values()
    before = {_store(name) for courses in found for those in courses[:-1] for name in those}
    return len(before - {_store(name) for courses in found for name in courses[-1]})


def _store(replica: str) -> str:
    return replica.rpartition("#")[0]


def create(options: NoOptions) -> Goal:
    return Goal(reads=(RaftMembers,), evidence=EVIDENCE, reached=_reached)
