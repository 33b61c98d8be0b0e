"""Pressure on the process of a node on this machine: a crowded processor, no memory or descriptor more, hung syncs.

What weighs on a node lasts over its lives. All that is changed on a living process is set back to what this process
itself has, for the nodes that it starts inherit that. ``python -m chaos.machines.local_resources PARENT PROCESSOR
COUNT`` is so many processes that do nothing but take a processor's time; they end with their parent, if it isn't 0.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from chaos.machines import procfs, rlimits
from chaos.machines.procfs import Process
from chaos.machines.rlimits import limit, unlimit
from chaos.shell.parent import die_with

PROC = Path("/proc")
#: How long it may take until what took a processor's time has ended.
END_S = 5.0
POLL_S = 0.005


class Kind(StrEnum):
    CPU = "cpu"
    MEMORY = rlimits.MEMORY
    DESCRIPTORS = rlimits.DESCRIPTORS
    IO = "io"


#: A node may end of these, and that is no crash of its own.
DEADLY = (Kind.MEMORY, Kind.DESCRIPTORS)


class Pressure:
    """All that weighs on one node. ``gate``: a file; while it is there, no sync of the node's disk begins.

    Where ``kept`` is a file, who serves the node after this process reads there what weighs on it; otherwise all ends
    with this process. ``environment``: what the processes that take a processor's time are started with."""

    def __init__(self, gate: Path, kept: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
        self._gate = gate
        self._kept = kept
        self._environment = environment
        self._held: dict[Kind, int] = {}
        self._spinner = Process(0, 0)
        self._children: list[subprocess.Popen[bytes]] = []
        self._processor = 0
        if kept is not None and kept.exists():
            saved = json.loads(kept.read_text("utf-8"))
            self._held = {Kind(kind): int(amount) for kind, amount in saved["held"].items()}
            self._spinner, self._processor = Process.parse(saved["spinner"]), int(saved["processor"])
            if not self._marks().items() <= procfs.environment(self._spinner.pid).items():
                self._spinner = Process(0, 0)  # never ours: a file may be wrong

    @property
    def deadly(self) -> bool:
        return any(kind in self._held for kind in DEADLY)

    def starves(self, process: Process) -> bool:
        """Return whether this process has no descriptor left, for they are limited."""
        if Kind.DESCRIPTORS in self._held:
            with suppress(OSError):
                return rlimits.starved(process.pid)
        return False

    def press(self, kind: Kind, amount: int, process: Process | None) -> dict[str, object]:
        """Begin; ``process`` is the node's, None while it isn't running. Returns what shows it, or why it is
        ``refused``."""
        if kind in self._held:
            return {"refused": f"there is pressure on its {kind} already"}
        if process is None and kind in DEADLY:
            return {"refused": "it is not running"}
        self._held[kind] = amount
        self._keep()
        shown: dict[str, object] = {}
        if kind is Kind.CPU:
            shown = self._crowd(amount)
            self._keep()
        elif kind is Kind.IO:
            self._gate.parent.mkdir(parents=True, exist_ok=True)
            self._gate.touch()
            shown = {"gate": self._gate.name}
        if process is not None:
            try:
                shown |= self._weigh(kind, process)
            except OSError as error:  # it has ended meanwhile, or the system doesn't let us
                if kind in DEADLY:
                    del self._held[kind]
                    self._keep()
                    return {"refused": f"it can't be limited: {error}"}
        return shown

    def born(self, process: Process) -> None:
        """Have the life that the node has begun feel what the one before felt."""
        for kind in self._held:
            with suppress(OSError):
                self._weigh(kind, process)

    def release(self, kind: Kind, process: Process | None) -> None:
        """End pressure of this kind; nothing happens when there is none."""
        if kind is Kind.IO:
            self._gate.unlink(missing_ok=True)
        if self._held.pop(kind, None) is None:
            return
        if kind is Kind.CPU:
            self._disperse()
        if process is not None:
            with suppress(OSError):  # it has ended: its next life starts free
                _free(kind, process.pid)
        self._keep()

    def end(self) -> None:
        """Release everything; the node has ended."""
        for kind in list(self._held):
            self.release(kind, None)

    def _weigh(self, kind: Kind, process: Process) -> dict[str, object]:
        """Put on a living process what it must feel itself. Raises ``OSError``."""
        pid = process.pid
        if kind is Kind.CPU:
            pin(pid, {self._processor})
        elif kind in DEADLY:
            return limit(pid, kind, self._held[kind])
        return {"pid": pid}

    def _crowd(self, share_percent: int) -> dict[str, object]:
        """Start as many processes on one processor as leave the node this share of it, once it is there too."""
        processors = sorted(os.sched_getaffinity(0))
        self._processor = processors[os.getpid() % len(processors)]
        count = max(1, round(100 / share_percent) - 1)
        parent, said = (os.getpid(), None) if self._kept is None else (0, subprocess.DEVNULL)
        first = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(parent), str(self._processor), str(count)],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            env=self._environment,
            start_new_session=True,
        )
        self._children.append(first)
        self._spinner = Process.begun(first.pid)
        return {"processor": self._processor, "spinner": str(self._spinner), "spinners": count}

    def _disperse(self) -> None:
        crowd = _crowd_of(self._spinner)
        self._spinner.signal(signal.SIGKILL)  # the others die with the first
        for child in self._children:
            child.wait()
        self._children.clear()
        deadline_s = time.monotonic() + END_S
        while any(process.state() for process in crowd) and time.monotonic() < deadline_s:
            time.sleep(POLL_S)

    def _marks(self) -> Mapping[str, str]:
        """Return what the environment of each process that this one has started holds, besides what all inherit."""
        marks = (procfs.RUN, procfs.HOST_RUN)
        return {name: value for name, value in (self._environment or {}).items() if name in marks}

    def _keep(self) -> None:
        if self._kept is None:
            return
        self._kept.parent.mkdir(parents=True, exist_ok=True)
        part = self._kept.with_suffix(".part")
        saved = {"held": self._held, "spinner": str(self._spinner), "processor": self._processor}
        part.write_text(json.dumps(saved), "utf-8")
        part.replace(self._kept)


def pin(pid: int, processors: set[int]) -> None:
    """Let all threads of a process run on these processors alone. Raises ``OSError``."""
    for entry in (PROC / str(pid) / "task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(entry.name), processors)


def _free(kind: Kind, pid: int) -> None:
    if kind is Kind.CPU:
        pin(pid, os.sched_getaffinity(0))
    elif kind in DEADLY:
        unlimit(pid, kind)


def spinning(first: Process) -> int:
    """Return how many processes of those that this one has started take the processor's time, itself included."""
    return len(_crowd_of(first))


def _crowd_of(first: Process) -> list[Process]:
    try:
        children = (PROC / f"{first.pid}/task/{first.pid}/children").read_text("utf-8").split()
    except OSError:
        return []
    return [first, *(Process.of(int(child)) for child in children)] if first.state() else []


def main() -> None:
    parent, processor, count = (int(argument) for argument in sys.argv[1:])
    if parent:
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
