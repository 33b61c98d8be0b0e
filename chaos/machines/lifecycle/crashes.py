"""Which nodes have ended by themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chaos.errors import HostLost
from chaos.machines.machine import Machine
from chaos.machines.real_time import Crash

#: A process that nobody saw the end of has no exit code that we know.
UNKNOWN_EXIT = 255


class Crashes:
    """A life that ends is a crash unless it was expected to: killed, ended of a fault, or gone with its machine.
    ``disk_failed``: whether a fault made the disk of a node fail in this life; it blocks."""

    def __init__(self, disk_failed: Callable[[str, int], bool]) -> None:
        self._disk_failed = disk_failed
        self._expected: set[tuple[str, int]] = set()
        self._noted: dict[tuple[str, int], Crash] = {}

    @property
    def noted(self) -> tuple[Crash, ...]:
        """In the order in which they were found."""
        return tuple(self._noted.values())

    def expect(self, node: str, incarnation: int) -> None:
        """That this life ends is no crash."""
        self._expected.add((node, incarnation))

    def note(self, machine: Machine, nodes: Sequence[str]) -> None:
        """Look at these nodes of a machine; blocks. What a node may have ended of is known only as long as it lasts, so
        this comes before a fault is undone. Of a machine that is gone nobody knows."""
        try:
            for name, life in machine.lives(nodes).items():
                key = name, life.incarnation
                if life.alive or not life.incarnation or machine.losses or key in self._expected or key in self._noted:
                    continue
                if life.of_a_fault or self._disk_failed(*key):
                    self._expected.add(key)
                    continue
                code = UNKNOWN_EXIT if life.exit_code is None else life.exit_code
                self._noted[key] = Crash(node=name, incarnation=life.incarnation, exit_code=code, log=machine.log(name))
        except HostLost:
            pass
