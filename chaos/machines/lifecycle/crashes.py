"""Which nodes have ended by themselves."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.errors import HostLost
from chaos.machines.machine import Machine
from chaos.machines.real_time import Crash

#: A process that nobody saw the end of has no exit code that we know.
UNKNOWN_EXIT = 255


class Crashes:
    """A life that ends is a crash unless it was expected to: killed, ended of a fault, or gone with its machine."""

    def __init__(self) -> None:
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
                if life.of_a_fault and not life.alive:
                    self._expected.add(key)
                if life.alive or not life.incarnation or machine.losses or key in self._expected or key in self._noted:
                    continue
                code = UNKNOWN_EXIT if life.exit_code is None else life.exit_code
                self._noted[key] = Crash(node=name, incarnation=key[1], exit_code=code, log=machine.log(name))
        except HostLost:
            pass
