"""Pressure on the process of a node on this machine: a crowded processor, no memory or descriptor more, hung syncs.

What weighs on a node lasts over its lives. All that is changed on a living process is set back to what the supervisor
itself has, for its nodes inherit that. ``python -m chaos.deployments._pressure PARENT PROCESSOR COUNT`` is so many
processes that do nothing but take a processor's time; they end with their parent.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from chaos.deployments._procfs import Process
from chaos.deployments._shell import die_with

PROC = Path("/proc")


class Kind(StrEnum):
    CPU = "cpu"
    MEMORY = "memory"
    DESCRIPTORS = "descriptors"
    IO = "io"


#: A node may end of these, and that is no crash of its own.
DEADLY = (Kind.MEMORY, Kind.DESCRIPTORS)


class Pressure:
    """All that weighs on one node. ``gate``: a file; while it is there, no sync of the node's disk begins."""

    def __init__(self, gate: Path) -> None:
        self._gate = gate
        self._held: dict[Kind, int] = {}
        self._spinners: subprocess.Popen[bytes] | None = None
        self._processor = 0

    @property
    def deadly(self) -> bool:
        return any(kind in self._held for kind in DEADLY)

    def press(self, kind: Kind, amount: int, process: Process | None) -> dict[str, object]:
        """Begin; ``process`` is the node's, None while it isn't running. Returns what shows it, or why it is
        ``refused``."""
        if kind in self._held:
            return {"refused": f"there is pressure on its {kind} already"}
        if process is None and kind in DEADLY:
            return {"refused": "it is not running"}
        self._held[kind] = amount
        shown: dict[str, object] = {}
        if kind is Kind.CPU:
            shown = self._crowd(amount)
        elif kind is Kind.IO:
            self._gate.touch()
            shown = {"gate": self._gate.name}
        if process is not None:
            try:
                shown |= self._weigh(kind, process)
            except OSError as error:  # it has ended meanwhile, or the system doesn't let us
                if kind in DEADLY:
                    del self._held[kind]
                    return {"refused": f"it can't be limited: {error}"}
        return shown

    def born(self, process: Process) -> None:
        """The node has begun another life: it feels what the one before felt."""
        for kind in self._held:
            with suppress(OSError):
                self._weigh(kind, process)

    def release(self, kind: Kind, process: Process | None) -> None:
        """End pressure of this kind; nothing happens when there is none."""
        if self._held.pop(kind, None) is None:
            return
        if kind is Kind.CPU:
            self._disperse()
        elif kind is Kind.IO:
            self._gate.unlink(missing_ok=True)
        if process is not None:
            with suppress(OSError):  # it has ended: its next life starts free
                _FREE[kind](process.pid)

    def end(self) -> None:
        """Release everything; the node has ended."""
        for kind in list(self._held):
            self.release(kind, None)

    def _weigh(self, kind: Kind, process: Process) -> dict[str, object]:
        """Put on a living process what it must feel itself. Raises ``OSError``."""
        pid = process.pid
        if kind is Kind.CPU:
            pin(pid, {self._processor})
        elif kind is Kind.MEMORY:
            used = int((PROC / str(pid) / "statm").read_text().split()[0]) * resource.getpagesize()
            limit(pid, resource.RLIMIT_AS, used + self._held[kind] * 1024 * 1024)
            return {"pid": pid, "address_space": used, "limit": _soft(pid, resource.RLIMIT_AS)}
        elif kind is Kind.DESCRIPTORS:
            taken = {int(entry.name) for entry in (PROC / str(pid) / "fd").iterdir()}
            free = next(number for number in range(len(taken) + 1) if number not in taken)
            limit(pid, resource.RLIMIT_NOFILE, free)
            return {"pid": pid, "open": len(taken), "limit": _soft(pid, resource.RLIMIT_NOFILE)}
        return {"pid": pid}

    def _crowd(self, share_percent: int) -> dict[str, object]:
        """Start as many processes on one processor as leave the node this share of it, once it is there too."""
        processors = sorted(os.sched_getaffinity(0))
        self._processor = processors[os.getpid() % len(processors)]
        count = max(1, round(100 / share_percent) - 1)
        self._spinners = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(os.getpid()), str(self._processor), str(count)],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        return {"processor": self._processor, "spinner": str(Process.of(self._spinners.pid)), "spinners": count}

    def _disperse(self) -> None:
        spinners, self._spinners = self._spinners, None
        if spinners is not None:
            spinners.kill()  # the others die with the first
            spinners.wait()


def pin(pid: int, processors: set[int]) -> None:
    """Let all threads of a process run on these processors alone. Raises ``OSError``."""
    for entry in (PROC / str(pid) / "task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(entry.name), processors)


def limit(pid: int, what: int, soft: int) -> None:
    """Raises ``OSError``."""
    hard = resource.prlimit(pid, what)[1]
    resource.prlimit(pid, what, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def _soft(pid: int, what: int) -> int:
    return resource.prlimit(pid, what)[0]


def _unlimit(pid: int, what: int) -> None:
    resource.prlimit(pid, what, (resource.getrlimit(what)[0], resource.prlimit(pid, what)[1]))


_FREE: dict[Kind, Callable[[int], None]] = {
    Kind.CPU: lambda pid: pin(pid, os.sched_getaffinity(0)),
    Kind.MEMORY: lambda pid: _unlimit(pid, resource.RLIMIT_AS),
    Kind.DESCRIPTORS: lambda pid: _unlimit(pid, resource.RLIMIT_NOFILE),
    Kind.IO: lambda pid: None,
}


def spinning(first: Process) -> int:
    """How many processes of those that this one has started take the processor's time, itself included."""
    try:
        children = (PROC / f"{first.pid}/task/{first.pid}/children").read_text("utf-8").split()
    except OSError:
        return 0
    return 1 + len(children) if first.state() else 0


def main() -> None:
    parent, processor, count = (int(argument) for argument in sys.argv[1:])
    die_with(parent)
    os.sched_setaffinity(0, {processor})
    first = os.getpid()
    for _ in range(count - 1):
        if os.fork() == 0:
            os.setsid()  # a scheduler that shares time among sessions must count each
            die_with(first)
            break
    while True:
        pass


if __name__ == "__main__":
    main()
