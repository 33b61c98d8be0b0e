"""The agent: what starts, signals, presses and reads the nodes that are processes of its machine, as it is asked to.

There is one for all machines. The supervisor of a run on this machine serves its commands over a loopback connection
(:mod:`chaos.machines.local.supervisor`), a host's agent over its SSH channel (:mod:`chaos.machines.ssh.agent`), each
with some of its own besides; :class:`chaos.machines.agent.machine.AgentMachine` gives them. A command is a line of
JSON, ``{"do": NAME, …}``, each answered by one line: ``{"ok": …}``, ``{"refused": TEXT}`` when it can't be done at this
moment, or ``{"error": TEXT}``. None waits for an effect: ``status`` is asked again for that. Imports only the standard
library and ours that do the same.

A file for each node holds its process id, with the time of its start and the boot, so that another process that later
gets the same id is never taken for it, and another agent finds the nodes that one before has left.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from chaos.effects.corruption import AtDisk, at_disk
from chaos.machines.agent import logs
from chaos.machines.agent.powered_disk import PoweredDisk, room_of_each
from chaos.machines.folder_disk import RealFiles
from chaos.machines.local_resources import Kind, Pressure, spinning
from chaos.machines.procfs import (
    HOST_RUN,
    NODE,
    RUN,
    Process,
    environment,
    has_memory,
    listening,
    marked,
    oom_kills,
    session_of,
    signal_each,
)
from chaos.shell import clocks, files_below, node_files
from chaos.shell.exec_program import STARTING
from chaos.shell.node_files import NodeFile

#: How long a signal, or pressure, may take to show.
EFFECT_S = 5.0
#: How long a port may still be held by who has ended.
FREE_S = 1.0
POLL_S = 0.005
LOG_TAIL_BYTES = 4096
#: So much of a file goes into one answer.
MOST_READ = 1 << 20
#: In the folder of a run; a node's disk is a folder itself, beside it are the files by which it is sent things.
DISKS, COPIES, TRACES, LOGS = "nodes", "copies", "traces", "logs"
HOMES = "homes"
LAUNCH, LIVES, PRESSURE = "launch", "lives", "pressure"
#: What takes its time, but needs nobody else's: it may be done on another thread.
SLOW = frozenset({"wipe", "at_disk", "says", "files", "read_file", "power_disks", "sync_disks", "cut_power"})
SIGNALS = {"kill": signal.SIGKILL, "terminate": signal.SIGTERM, "stop": signal.SIGSTOP, "continue": signal.SIGCONT}
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Refused(Exception):
    """It can't be done at this moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the file of a node holds of its last life; ``incarnation`` 0: it never lived here. ``log_begin``: where its
    log began."""

    process: Process
    incarnation: int = 0
    boot: str = ""
    program: bool = False  # of others: it may leave its session
    log_begin: int = 0


_NEVER = Kept(process=Process(0, 0))


class Agent:
    """The commands on nodes: its methods whose names begin with ``do_``; their keyword arguments come from the line.

    ``run``: the folder of the run. ``environment``: of all its processes. With ``shelters`` the nodes die with this
    process; otherwise they outlive it, and so does what presses on them."""

    def __init__(self, run: Path, environment: Mapping[str, str], *, shelters: bool) -> None:
        self.run = run
        self.environment = dict(environment)
        self._shelters = shelters
        self._children: dict[Process, subprocess.Popen[bytes]] = {}
        self._oom_kills: dict[Process, Mapping[str, int]] = {}  # as they stood when each was last seen alive
        self._starved_to_death: set[Process] = set()
        self._over: set[Process] = set()
        self._pressures: dict[str, Pressure] = {}
        self._powered: dict[str, PoweredDisk] = {}

    # Lives

    def do_start(self, launch: Mapping[str, Any], port: int) -> None:
        """Start the next life of a node, unless it lives. ``launch``: all that its program is given, but for its
        files; ``clock`` in it is only whether it has one. ``port``: where it will listen; 0 if it chooses."""
        spec, incarnation = launch["spec"], int(launch["incarnation"])
        node = str(spec["name"])
        if self.state(node):
            return
        _check_free(port)
        for folder in (DISKS, TRACES, LOGS, LAUNCH, LIVES):
            (self.run / folder).mkdir(parents=True, exist_ok=True)
        clock = str(self._file(node, NodeFile.CLOCK)) if launch.get("clock") else ""
        marks = {NODE: node, **({STARTING: node} if launch.get("program") else {})}
        surroundings = {**self.environment, **marks, **(clocks.environment(clock) if clock else {})}
        launch_file = self.run / LAUNCH / f"{node}.json"
        launch_file.write_text(json.dumps({**launch, **self._given(node, clock)}), "utf-8")
        with (self.run / LOGS / f"{node}.log").open("ab") as output:
            log_begin = output.tell()
            popen = subprocess.Popen(
                [sys.executable, "-P", "-m", str(spec["package"]), str(launch_file)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.run,
                env=surroundings,
                start_new_session=True,
            )
        process = Process.begun(popen.pid)
        self._children[process] = popen
        life = {
            "process": str(process),
            "incarnation": incarnation,
            "boot": boot_id(),
            "program": bool(launch.get("program")),
            "log_begin": log_begin,
        }
        part = self._life_file(node).with_suffix(".part")
        part.write_text(json.dumps(life), "utf-8")
        part.replace(self._life_file(node))

    def _given(self, node: str, clock: str) -> dict[str, object]:
        """Return the files that a node's program is given, and the process with which it ends."""
        return {
            "disk": str(self.run / DISKS / node),
            "trace": str(self.run / TRACES / f"{node}.jsonl"),
            "disk_rules": str(self._file(node, NodeFile.DISK_RULES)),
            "gate": str(self._gate(node)),
            "membership": str(self._file(node, NodeFile.MEMBERSHIP)),
            "clock": clock,
            "parent": os.getpid() if self._shelters else 0,
            "home": self.do_places(node)["home"],
        }

    def do_status(self, nodes: Sequence[str]) -> dict[str, object]:
        """Return the life of each of these nodes, as :class:`chaos.machines.machine.Life` has it."""
        return {node: self._status(node) for node in nodes}

    def do_signal(self, node: str, name: str) -> None:
        """Send a signal to all processes of a node: to its session, with whatever it has started there."""
        if not self.state(node):
            if name == "continue":
                return
            raise Refused(f"{node} is not running")
        signal_each(lambda: self._members(node), SIGNALS[name])

    def do_log(self, node: str) -> str:
        """Return the end of what the node wrote, over all its lives."""
        return logs.end_of(self.run / LOGS / f"{node}.log", LOG_TAIL_BYTES)

    def do_rest_of_log(self, node: str, begin: int) -> str:
        """See :func:`logs.rest_of`, in base64."""
        return b64encode(logs.rest_of(self.run / LOGS / f"{node}.log", begin)).decode()

    def do_runs_program(self, node: str) -> bool:
        """Return whether the node's process has become its program, which is started without the mark of a start."""
        process = self._living(node)
        # One that ends without having become its program has no environment any more: its memory is looked at last.
        return process is not None and STARTING not in environment(process.pid) and has_memory(process.pid)

    def do_says(self, node: str, pattern: str) -> bool:
        """Return whether a line of the node's log, in this life, holds a match."""
        return logs.says(self.run / LOGS / f"{node}.log", self._life(node).log_begin, pattern)

    def do_listening(self, node: str) -> list[str]:
        """Return where the processes of a node listen, as ``HOST:PORT``."""
        return listening(self._members(node))

    # Files

    def do_places(self, node: str) -> dict[str, str]:
        """Return where a program of others is at home."""
        return {"disk": str(self.run / DISKS / node), "home": str(self.run / HOMES / node)}

    def do_files(self, node: str, globs: Sequence[str]) -> dict[str, int]:
        """Return the size of each file on the node's disk or in its home that one of these matches."""
        disk, home = (Path(place) for place in self.do_places(node).values())
        return {**files_below.matching(home, globs), **files_below.matching(disk, globs)}

    def do_read_file(self, node: str, path: str, begin: int, length: int) -> str:
        """Return some bytes of such a file, in base 64; none where there is no file."""
        for place in self.do_places(node).values():
            with suppress(OSError):
                return b64encode(files_below.read(Path(place), path, begin, min(length, MOST_READ))).decode()
        return ""

    def do_put(self, node: str, file: str, content: str) -> None:
        """Replace one of the files of a node; its content comes in base 64."""
        node_files.put(self._file(node, NodeFile(file)), b64decode(content))

    def do_get(self, node: str, file: str, begin: int) -> str:
        """Return what is in one of the files of a node from this byte on, in base 64."""
        return b64encode(node_files.get(self._file(node, NodeFile(file)), begin)).decode()

    # Pressure and disks

    def do_press(self, node: str, kind: str, amount: int) -> Mapping[str, object]:
        """Begin pressure of this kind; return what shows it."""
        shown = self._pressure(node).press(Kind(kind), amount, self._living(node))
        if "refused" in shown:
            raise Refused(f"{node}: {shown['refused']}")
        return shown

    def do_born(self, node: str) -> None:
        """Have the life that the node has begun feel what the one before felt."""
        process = self._living(node)
        if process is not None:
            self._pressure(node).born(process)

    def do_release(self, node: str, kind: str) -> None:
        """End pressure of this kind; nothing happens when there is none."""
        self._pressure(node).release(Kind(kind), self._living(node))

    def do_spinning(self, first: str) -> int:
        """Return how many processes take a processor's time, of those that this one has started."""
        return spinning(Process.parse(first))

    def do_wipe(self, node: str) -> int:
        """Empty the disk of a node that is down; return how many files that were."""
        if self.state(node):
            raise Refused(f"{node} is running")
        disk = self.run / DISKS / node
        files = sum(1 for path in disk.rglob("*") if path.is_file())
        if node in self._powered:
            self._powered[node].empty()
            return files
        shutil.rmtree(disk, ignore_errors=True)
        if disk.exists():
            raise OSError(f"{disk} can't be emptied")
        return files

    def do_power_disks(self, nodes: Sequence[str], of: int) -> None:
        """Give each of these nodes, which have none yet, a disk that can lose its power; ``of``: how many nodes have
        one in the end."""
        (self.run / DISKS).mkdir(parents=True, exist_ok=True)
        room = room_of_each(self.run, of)
        for node in nodes:
            disk = PoweredDisk(self.run / DISKS / node, room)
            disk.mount()
            self._powered[node] = disk

    def do_sync_disks(self) -> None:
        """Have all that is written to such disks be on them."""
        for disk in self._powered.values():
            disk.sync()

    def do_cut_power(self, node: str) -> Mapping[str, object]:
        """Cut the power of the disk of a node that is down, and give it power again; return what it has lost."""
        if self.state(node):
            raise Refused(f"{node} is running")
        return self._powered[node].cut_power()

    def do_at_disk(self, node: str, what: str, told: Mapping[str, Any]) -> Any:
        """See :func:`chaos.effects.corruption.at_disk`."""
        if what != AtDisk.MARK and self.state(node):
            raise Refused(f"{node} is running")
        return at_disk(RealFiles(self.run / DISKS / node), RealFiles(self.run / COPIES / node), what, told)

    # What is known of a node

    def state(self, node: str) -> str:
        """Return the system's letter for how a node runs: ``T`` when all of its processes are stopped, "" when none
        lives.

        A node whose first process has ended has ended: whatever that has left in its session is ended with it."""
        life = self._life(node)
        if not life.incarnation or life.boot != boot_id() or life.process in self._over:
            return ""
        state = life.process.state()
        if not state:
            left = signal_each(lambda: self._members(node), signal.SIGKILL)
            states = [found for process in left if (found := process.state())]
            if not states:
                self._over.add(life.process)
            return states[0] if states else ""
        if state != "T":
            return state
        others = [found for process in self._members(node) if (found := process.state())]
        return next((found for found in others if found != "T"), "T")

    def life(self, node: str) -> Process:
        """Return the first process of the node's present or last life."""
        return self._life(node).process

    def cap_logs(self) -> None:
        """Give back the room of what a node has written beyond all bounds."""
        for path in (self.run / LOGS).glob("*.log"):
            logs.cap(path)

    def end_all(self) -> None:
        """End all nodes that this agent has started, and what presses on them."""
        for process, child in self._children.items():
            if child.poll() is None:
                signal_each(partial(session_of, process, {}), signal.SIGKILL)
        for child in self._children.values():
            child.wait()
        for pressure in self._pressures.values():
            pressure.end()
        while self._powered:
            self._powered.popitem()[1].give_back()

    def _members(self, node: str) -> list[Process]:
        """Return the living processes of a node: its session, and what a program of others has started and let leave
        it. Their marks show which they are, but for a living child of ours, which may have written over its own."""
        life, marks = self._life(node), self._marks(node)
        child = self._children.get(life.process)
        ours = child is not None and child.poll() is None
        found = session_of(life.process, {} if ours else marks)
        return list(dict.fromkeys((*found, *marked(marks)))) if life.program else found

    def _status(self, node: str) -> Mapping[str, object]:
        life = self._life(node)
        child = self._children.get(life.process)
        state = self.state(node)
        return {
            "incarnation": life.incarnation,
            "pid": life.process.pid,
            "started": life.process.started,
            "state": state,
            "paused": state == "T",
            "exit_code": child.poll() if child is not None else None,
            "of_a_fault": self._pressure(node).deadly,
            "oom_killed": self._oom_killed(life.process, alive=bool(state)),
            "starved": bool(state) and self._pressure(node).starves(life.process),
        }

    def _oom_killed(self, process: Process, *, alive: bool) -> bool:
        """Return whether the kernel has killed a process for want of memory since this one was last seen alive."""
        if alive:
            self._oom_kills[process] = oom_kills()
            return False
        before = self._oom_kills.pop(process, {})
        if before and any(count > before.get(where, count) for where, count in oom_kills().items()):
            self._starved_to_death.add(process)
        return process in self._starved_to_death

    def _life(self, node: str) -> Kept:
        try:
            fields = json.loads(self._life_file(node).read_text("utf-8"))
            fields["process"] = Process.parse(fields["process"])
            return Kept(**fields)
        except (OSError, ValueError, KeyError, TypeError):
            return _NEVER

    def _living(self, node: str) -> Process | None:
        """Return the node's first process, if it lives."""
        return self._life(node).process if self.state(node) else None

    def _marks(self, node: str) -> Mapping[str, str]:
        """Return what the environment of each process of a node holds."""
        return {**{name: self.environment[name] for name in (RUN, HOST_RUN) if name in self.environment}, NODE: node}

    def _pressure(self, node: str) -> Pressure:
        """Return what weighs on a node; where nodes outlive this agent, since this boot, as one before has left it."""
        if not self._shelters:
            kept = self.run / PRESSURE / f"{node}-{boot_id()}.json"
            return Pressure(self._gate(node), kept, self.environment)
        return self._pressures.setdefault(node, Pressure(self._gate(node), environment=self.environment))

    def _gate(self, node: str) -> Path:
        """Return the file of the gate: while it is there, no sync of the node's disk begins."""
        return self.run / DISKS / f"{node}.gate"

    def _file(self, node: str, file: NodeFile) -> Path:
        return node_files.file_of(self.run / DISKS, node, file)

    def _life_file(self, node: str) -> Path:
        return self.run / LIVES / f"{node}.json"


def command_of(parts: Sequence[object], line: bytes) -> tuple[str, Callable[[], Any]]:
    """Return what a line asks of these, which together hold all commands: its name, and the call that does it. Raises
    ``ValueError`` for a command that none of them has."""
    arguments = json.loads(line)
    name = arguments.pop("do")
    for part in parts:
        do: Callable[..., Any] | None = getattr(part, f"do_{name}", None)
        if do is not None:
            return name, partial(do, **arguments)
    raise ValueError(f"there is no command {name!r}")


def failure(error: Exception) -> dict[str, object]:
    """Return the answer when a command could not be done."""
    if isinstance(error, Refused):
        return {"refused": str(error)}
    return {"error": str(error) or type(error).__name__}


def boot_id() -> str:
    """Return what sets this boot of the machine apart from all others."""
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return ""


def until(there: Callable[[], bool], within_s: float = EFFECT_S) -> bool:
    """Look again and again, and sleep meanwhile; return whether it came to hold in time."""
    deadline_s = time.monotonic() + within_s
    while not there():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(POLL_S)
    return True


def _check_free(port: int) -> None:
    """Wait a moment for it: a process of several threads may have ended before the last of them lets its port go.
    Raises ``OSError``."""
    if port and not until(lambda: not _taken(port), FREE_S):
        raise OSError(f"port {port} is taken ({_taken(port)}): give another `first_port` in the inventory")


def _taken(port: int) -> str:
    """Return why nobody can listen there; "" if somebody can."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            return error.strerror or str(error)
    return ""
