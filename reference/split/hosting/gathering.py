"""Proposals of all groups that wait a moment for others, to be logged, synced and sent together."""

from __future__ import annotations

from collections.abc import Callable

from chaos.node import Env
from reference.raft.state_machine import Proposed
from reference.split.hosting.group_env import Timers

#: The timer at whose end they are logged.
GATHERED = "gathered"
#: How long they wait in virtual time: that costs nothing there, and each message does.
LINGER_MS = 40

#: A group, its entry's data, and whom to call with the outcome.
Gathered = tuple[int, bytes, Proposed]


class Gathering:
    """What was proposed on this node and isn't logged yet. ``linger_ms``: so long the first one waits for others; 0:
    none waits. ``log`` logs one."""

    def __init__(self, linger_ms: int, log: Callable[[Gathered], None]) -> None:
        self._linger_ns = linger_ms * 1_000_000
        self._log = log
        self._waiting: list[Gathered] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, env: Env, timers: Timers, group: int, one: Gathered) -> None:
        """Log a proposal, or have it wait; ``group`` is whose timer ends that."""
        if not self._linger_ns:
            self._log(one)
            return
        if not self._waiting:
            timers.set(group, GATHERED, env.mono_ns() + self._linger_ns)
        self._waiting.append(one)

    def end(self) -> None:
        """Log all that waits, in the order in which it came."""
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            self._log(one)
