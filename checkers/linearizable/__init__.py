"""Histories of registers, locks, maps, queues and metadata are judged by a search, in Java where there is Java."""

from __future__ import annotations

from checkers.linearizable.checker import Options, create

__all__ = ["Options", "create"]
