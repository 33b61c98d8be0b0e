"""The reference system with compute and storage apart (RIP-19): brokers without a disk over stores of many groups."""

from __future__ import annotations

from typing import Any

from drivers.split import driver
from drivers.split.driver import Options, create
from drivers.split.events import EVENTS
from drivers.split.policies import DECIDED_BY
from reference.split.options import OPTIONS as NODE_OPTIONS

__all__ = ["DECIDED_BY", "EVENTS", "MUTANTS", "NODE_OPTIONS", "Options", "create"]


def __getattr__(name: str) -> Any:
    """Make ``MUTANTS`` when somebody asks: the planted bugs import every part of the system."""
    return getattr(driver, name)
