"""What a run holds of a cluster that it did not start: on disk before a node is hurt, until it runs again."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar


class Holds(Protocol):
    """A :class:`chaos.machines.healing.left.Left`. ``held``: the nodes that are killed or paused by the run."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def held(self) -> tuple[str, ...]: ...

    def write(self, directory: Path) -> None: ...


L = TypeVar("L", bound=Holds)


class Ledger(Generic[L]):
    """What is left of a run that goes on. Threads may share it."""

    def __init__(self, directory: Path, left: L) -> None:
        self._directory = directory
        self._left = left
        self._lock = threading.Lock()
        left.write(directory)

    def hold(self, node: str) -> None:
        """To be said before the node is killed or paused."""
        with self._lock:
            self._become(tuple(dict.fromkeys((*self._left.held, node))))

    def let_go(self, node: str) -> None:
        """It runs again."""
        with self._lock:
            self._become(tuple(name for name in self._left.held if name != node))

    def close(self) -> None:
        """The run is over; what it still holds is for healing."""
        with self._lock:
            if not self._left.held:
                self._left = replace(self._left, cleared=True)
                self._left.write(self._directory)

    def _become(self, held: tuple[str, ...]) -> None:
        if held != self._left.held:
            self._left = replace(self._left, held=held)
            self._left.write(self._directory)
