"""Which nodes have ended although no fault ended them, and who is seen to have done it."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chaos.deployment import EndedBy
from chaos.errors import HostLost
from chaos.machines.machine import Life, Machine

#: How a process ends of SIGKILL; a shell, or a container, that waited for it says the second.
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
#: So much of the last line of a log is shown.
LINE_CHARACTERS = 200
#: A line of a stack trace of Java's.
_FRAME = re.compile(r"at \S+\(.*\)|\.\.\. \d+ (more|common frames omitted)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """A node that ended, and no fault ended it. ``exit_code``: a negative one is a signal, None where nobody saw it
    end. ``log``: the end of what it wrote. ``alive_ns``: when it was last seen alive, on the harness's clock; -1 if
    it never was."""

    node: str
    incarnation: int
    exit_code: int | None
    log: str
    by: EndedBy = EndedBy.ITSELF
    alive_ns: int = -1

    def __str__(self) -> str:
        """Return node, exit code and the last line of its log, in one line."""
        return f"{self.node}, life {self.incarnation}, {self._how}; {last_words(self.log)}"

    @property
    def _how(self) -> str:
        if self.exit_code is None:
            return "ended, and nobody saw its exit code"
        if self.exit_code >= 0:
            return f"ended with exit code {self.exit_code}"
        try:
            return f"ended by {signal.Signals(-self.exit_code).name}"
        except ValueError:
            return f"ended by signal {-self.exit_code}"


def last_words(log: str) -> str:
    """Return, in words, the last line of a log, but for the frames with which Java ends what it says of an error."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    telling = [line for line in lines if not _FRAME.match(line)] or lines
    if not telling:
        return "its log is empty"
    last = telling[-1]
    return f"the last line of its log: {last if len(last) <= LINE_CHARACTERS else f'{last[:LINE_CHARACTERS]} …'}"


class Crashes:
    """A life that ends is a crash unless it was expected to: killed, ended of a fault, or gone with its machine.
    ``disk_failed``: whether a fault made the disk of a node fail in this life; it blocks."""

    def __init__(self, disk_failed: Callable[[str, int], bool]) -> None:
        self._disk_failed = disk_failed
        self._expected: set[tuple[str, int]] = set()
        self._noted: dict[tuple[str, int], Crash] = {}
        self._alive_ns: dict[tuple[str, int], int] = {}

    @property
    def noted(self) -> tuple[Crash, ...]:
        """In the order in which they were found."""
        return tuple(self._noted.values())

    def expect(self, node: str, incarnation: int) -> None:
        """Expect this life to end: that is no crash."""
        self._expected.add((node, incarnation))

    def note(self, machine: Machine, nodes: Sequence[str]) -> None:
        """Look at these nodes of a machine; blocks. What a node may have ended of is known only as long as it lasts, so
        this comes before a fault is undone. Of a machine that is gone nothing is known."""
        began_ns = time.monotonic_ns()
        try:
            for name, life in machine.lives(nodes).items():
                key = name, life.incarnation
                if life.alive:
                    self._alive_ns[key] = began_ns
                    continue
                if not life.incarnation or machine.losses or key in self._expected or key in self._noted:
                    continue
                if life.of_a_fault or self._disk_failed(*key):
                    self._expected.add(key)
                    continue
                self._noted[key] = Crash(
                    node=name,
                    incarnation=life.incarnation,
                    exit_code=life.exit_code,
                    log=machine.log(name),
                    by=_ended_by(life),
                    alive_ns=self._alive_ns.get(key, -1),
                )
        except HostLost:
            pass


def _ended_by(life: Life) -> EndedBy:
    if life.exit_code not in KILLED:
        return EndedBy.ITSELF
    return EndedBy.MACHINE if life.oom_killed else EndedBy.UNKNOWN
