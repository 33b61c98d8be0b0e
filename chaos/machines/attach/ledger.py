"""What a run holds of a cluster that it did not start: on disk before a node is hurt, until it runs again."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from chaos.machines.healing.left import Left


@dataclass(frozen=True, slots=True, kw_only=True)
class Held(Left):
    """``held``: the nodes that the run has killed or paused. ``cuts``: links are cut."""

    held: tuple[str, ...] = ()
    cuts: bool = False


L = TypeVar("L", bound=Held)


class Ledger(Generic[L]):
    """What is left of a run that goes on. Threads may share it."""

    def __init__(self, directory: Path, left: L) -> None:
        self._directory = directory
        self._left = left
        self._lock = threading.Lock()
        left.write(directory)

    def hold(self, node: str) -> None:
        """Note that the run holds the node, before that is killed or paused."""
        with self._lock:
            self._become(tuple(dict.fromkeys((*self._left.held, node))))

    def let_go(self, node: str) -> None:
        """Note that the node runs again."""
        with self._lock:
            self._become(tuple(name for name in self._left.held if name != node))

    def close(self) -> None:
        """Close the ledger of a run that is over; what it still holds is for healing."""
        with self._lock:
            if not self._left.held:
                self._left = replace(self._left, cleared=True)
                self._left.write(self._directory)

    def _become(self, held: tuple[str, ...]) -> None:
        if held != self._left.held:
            self._left = replace(self._left, held=held)
            self._left.write(self._directory)
