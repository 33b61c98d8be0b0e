"""An object that no manifest named, or no longer named, was deleted from the tier."""

from __future__ import annotations

from chaos.driver import Evidence, NoOptions
from chaos.events import StoreDelete
from chaos.goal import Goal
from chaos.law import Rows


def _reached(history: Rows) -> int:
    rows = history.columns
    return rows.words("outcome", rows.where(kind="trace", f="store_delete")).count("deleted")


def create(options: NoOptions) -> Goal:
    return Goal(
        reads=(StoreDelete,),
        evidence=(Evidence.OPERATIONS, Evidence.TIER),
        reached=_reached,
    )
