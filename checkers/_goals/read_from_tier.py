"""A client was given messages that came from the tier."""

from __future__ import annotations

from chaos.driver import Evidence, NoOptions
from chaos.goal import Goal
from chaos.law import Rows
from chaos.operations import Pull


def _reached(history: Rows) -> int:
    rows = history.columns
    return rows.words("source", rows.where(kind="op", f="pull", type="ok")).count("tier")


def create(options: NoOptions) -> Goal:
    return Goal(
        reads=(Pull,),
        evidence=(Evidence.OPERATIONS, Evidence.TIER),
        reached=_reached,
    )
