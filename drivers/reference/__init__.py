"""The reference system that comes with this project: Raft controllers, replicated brokers, tiered storage."""

from __future__ import annotations

from typing import Any

from drivers.reference import driver
from drivers.reference.driver import Options, create
from drivers.reference.events import EVENTS
from drivers.reference.policies import DECIDED_BY
from reference.options import OPTIONS as NODE_OPTIONS

__all__ = ["DECIDED_BY", "EVENTS", "MUTANTS", "NODE_OPTIONS", "Options", "create"]


def __getattr__(name: str) -> Any:
    """Make ``MUTANTS`` when somebody asks: the planted bugs import every part of the system."""
    return getattr(driver, name)
