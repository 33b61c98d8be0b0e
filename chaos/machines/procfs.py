"""What the system knows about processes: who lives, since when, in which state, and to which run it belongs."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

#: Environment of every process of a run: :func:`mark` of its directory (its id sets it apart only from those below the
#: same folder), ``PID:START`` of the harness that drives it, the node's name.
RUN = "STORMPROOF_RUN"
HARNESS_PROCESS = "STORMPROOF_HARNESS"
NODE = "STORMPROOF_NODE"
#: The same for processes on hosts behind SSH, which healing what runs on this machine must not touch: the name of the
#: folder of their run there.
HOST_RUN = "STORMPROOF_HOST_RUN"

_PROC = Path("/proc")
_CGROUP = Path("/sys/fs/cgroup")
#: Letters of a process, or of its first thread, that has ended; and none, where there is no such process.
_ENDED = ("", "Z", "X")
#: How long the kernel may take to fill in the environment of a process that was just started.
_EXEC_S = 5.0
_EXEC_POLL_S = 0.001
#: A socket that listens, in the kernel's table.
_LISTEN = "0A"
#: How an IPv4 address in IPv6 begins.
_OF_IPV4 = bytes(10) + b"\xff\xff"


@dataclass(frozen=True, slots=True)
class Process:
    """A process for as long as it lives: its id together with its start time (in clock ticks since boot), so that
    another one that later gets the same id is never taken for it."""

    pid: int
    started: int

    def state(self) -> str:
        """Return the system's letter for its state (``R``, ``S``, ``T`` stopped, …); "" once it has ended. A zombie
        has, unless other threads of it still run: until they end, its sockets take connections and its files are
        open."""
        state, started, threads, *_ = _stat(self.pid)
        ended = state in _ENDED and threads <= 1
        return state if started == self.started and not ended else ""

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal to this very process; False if it has ended."""
        if not self.state():  # nor is anything sent to an id that no process can have, such as 0
            return False
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            if not self.state():
                return False
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(handle)
        return True

    def __str__(self) -> str:
        return f"{self.pid}:{self.started}"

    @staticmethod
    def of(pid: int) -> Process:
        return Process(pid, _stat(pid).started)

    @staticmethod
    def begun(pid: int) -> Process:
        """Return a process that was just started with some environment, once that can be read or the process has ended.

        Who starts a process goes on before the kernel has filled its environment in. Until then it would pass for
        a stranger's, and get no signal (see :func:`session_of`)."""
        process, deadline_s = Process.of(pid), time.monotonic() + _EXEC_S
        while _stat(pid).state not in _ENDED and not environment(pid) and time.monotonic() < deadline_s:
            time.sleep(_EXEC_POLL_S)
        return process

    @staticmethod
    def parse(text: str) -> Process:
        """Read what ``str`` wrote. Raises ``ValueError``."""
        pid, _, started = text.partition(":")
        return Process(int(pid), int(started))


def harness() -> str:
    """Return this process, which drives a run, as it is written down."""
    return str(Process.of(os.getpid()))


def living(text: object) -> int:
    """Return the id of the process that this text names, as ``str`` wrote it; 0 once it has ended, and for any other
    text."""
    try:
        process = Process.parse(str(text))
    except ValueError:
        return 0
    return process.pid if process.state() else 0


def session_of(leader: Process, marks: Mapping[str, str]) -> list[Process]:
    """Return the living processes of the session that this process began, itself included.

    Its id names the session for as long as anybody is in it. The first process must hold these marks in its
    environment, for a file that names it may be wrong; where it has ended, each of the others must: the id may have
    come to another session since."""
    state, started, *_ = _stat(leader.pid)
    if state and started != leader.started:
        return []  # the id is another process's by now, so nobody is left of the session
    first_lives = state not in _ENDED  # a zombie's environment can't be read
    if first_lives and not marks.items() <= environment(leader.pid).items():
        return []  # it was never ours
    members = [Process.of(int(name)) for name in os.listdir(_PROC) if name.isdigit() and _session(name) == leader.pid]
    return [
        process
        for process in members
        if process.state() and (first_lives or marks.items() <= environment(process.pid).items())
    ]


def _session(pid: str) -> int:
    """Return the id of a process's session; -1 when it has ended."""
    try:
        return os.getsid(int(pid))
    except OSError:
        return -1


def descendants(first: Process) -> list[Process]:
    """Return this process, and the living ones that come from it; none when it has ended."""
    children: dict[int, list[int]] = {}
    for name in os.listdir(_PROC):
        if name.isdigit():
            children.setdefault(_stat(int(name)).parent, []).append(int(name))
    found, waiting = [], [first]
    while waiting:
        process = waiting.pop()
        if process.state():
            found.append(process)
            waiting += [Process.of(pid) for pid in children.get(process.pid, ())]
    return found


def name_of(pid: int) -> str:
    """Return what the kernel calls a process; "" when there is none."""
    try:
        return (_PROC / str(pid) / "comm").read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def marked(marks: Mapping[str, str]) -> list[Process]:
    """Return the living processes of this user that hold these marks in their environment, whatever session they are
    in; none without marks."""
    found = []
    for pid in sorted(int(name) for name in os.listdir(_PROC) if name.isdigit()) if marks else ():
        process = Process.of(pid)
        if marks.items() <= environment(pid).items() and ours(pid) and process.state():
            found.append(process)
    return found


def listening(processes: Sequence[Process]) -> list[str]:
    """Return where these processes listen over TCP, as ``HOST:PORT``, sorted."""
    return _sockets(processes, listeners)


def connected(processes: Sequence[Process]) -> list[str]:
    """Return with whom these processes are connected over TCP, or try to be, as ``HOST:PORT``, sorted."""
    return _sockets(processes, peers)


def _sockets(processes: Sequence[Process], read: Callable[[str], list[tuple[str, str]]]) -> list[str]:
    """Return the addresses that ``read`` finds in the kernel's tables, of sockets of these processes."""
    inodes, found = set(), set()
    for process in processes:
        with suppress(OSError):
            for name in os.listdir(_PROC / str(process.pid) / "fd"):
                with suppress(OSError):
                    inodes.add(os.readlink(_PROC / str(process.pid) / "fd" / name))
    for process in processes:
        for table in ("tcp", "tcp6"):
            with suppress(OSError):
                text = (_PROC / str(process.pid) / "net" / table).read_text("ascii")
                found |= {where for where, inode in read(text) if f"socket:[{inode}]" in inodes}
    return sorted(found)


def listeners(table: str) -> list[tuple[str, str]]:
    """Return the sockets that listen, of the kernel's table of TCP sockets: address and inode of each."""
    return [(_address(words[1]), words[9]) for words in _rows(table) if words[3] == _LISTEN]


def peers(table: str) -> list[tuple[str, str]]:
    """Return the sockets that don't listen, of the kernel's table of TCP sockets: the other side's address, and the
    inode of each."""
    return [(_address(words[2]), words[9]) for words in _rows(table) if words[3] != _LISTEN]


def _rows(table: str) -> list[list[str]]:
    return [words for line in table.splitlines()[1:] if len(words := line.split()) > 9]


def _address(text: str) -> str:
    """Return what the kernel writes as an address, as ``HOST:PORT``; one of IPv4 also where IPv6 holds it."""
    host, port = text.split(":")
    raw = b"".join(bytes.fromhex(host[begin : begin + 8])[::-1] for begin in range(0, len(host), 8))
    if raw.startswith(_OF_IPV4):
        raw = raw[len(_OF_IPV4) :]
    shown = socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)
    return f"{shown}:{int(port, 16)}" if len(raw) == 4 else f"[{shown}]:{int(port, 16)}"


def signal_session(leader: Process, number: signal.Signals, marks: Mapping[str, str]) -> list[Process]:
    """Send a signal to each process of this session, also to those that are started meanwhile; who was there."""
    return signal_each(lambda: session_of(leader, marks), number)


def signal_each(members: Callable[[], Sequence[Process]], number: signal.Signals) -> list[Process]:
    """Send a signal to each of these, and again to those that there are then besides; who was there."""
    sent: dict[Process, None] = {}
    while fresh := [process for process in members() if process not in sent]:
        for process in fresh:
            process.signal(number)
            sent[process] = None
    return list(sent)


class _Stat(NamedTuple):
    state: str
    started: int
    threads: int
    parent: int = 0
    memory_bytes: int = 0


def _stat(pid: int) -> _Stat:
    """Return what the kernel says of a process: state "", started -1 and no threads when there is no such process."""
    try:
        text = (_PROC / str(pid) / "stat").read_text("utf-8", "replace")
    except OSError:
        return _Stat("", -1, 0)
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything
    return _Stat(fields[0], int(fields[19]), int(fields[17]), int(fields[1]), int(fields[20]))


def environment(pid: int) -> dict[str, str]:
    """Return the environment that a process was started with; empty if it may not be read, and for one that has no
    memory (:func:`has_memory`) or whose program is just being loaded."""
    try:
        data = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    pairs = (entry.partition("=") for entry in data.decode("utf-8", "replace").split("\0"))
    return {name: value for name, _, value in pairs if name}


def has_memory(pid: int) -> bool:
    """Return whether a process still has memory. One that ends loses it, and its environment with it, a moment before
    its state shows that it has ended; on a busy machine that moment may be long."""
    return _stat(pid).memory_bytes > 0


def oom_kills() -> Mapping[str, int]:
    """Return how many processes the kernel has killed so far for want of memory: on this machine (``/proc/vmstat``),
    and in the control group of this process, if it has one of its own. What can't be read is left out."""
    found = {}
    for path in (_PROC / "vmstat", _CGROUP / _own_cgroup() / "memory.events"):
        with suppress(OSError, ValueError):
            words = dict(line.split() for line in path.read_text("ascii").splitlines())
            found[str(path)] = int(words["oom_kill"]) if "oom_kill" in words else 0
    return found


def _own_cgroup() -> str:
    """Return where the control group of this process stands below their root, with one hierarchy of them; "" for the
    root."""
    try:
        lines = (_PROC / "self" / "cgroup").read_text("utf-8").splitlines()
    except OSError:
        return ""
    return next((line[3:].strip("/") for line in lines if line.startswith("0::")), "")


def module_of(pid: int) -> str:
    """Return the module that a Python runs as its program; "" for any other process."""
    try:
        words = (_PROC / str(pid) / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return ""
    return next((module for option, module in pairwise(words) if option == "-m"), "")


def ours(pid: int) -> bool:
    """Return whether a process belongs to the user that this one belongs to; root may read what others' processes
    say."""
    try:
        status = (_PROC / str(pid) / "status").read_text("utf-8", "replace")
    except OSError:
        return False
    found = re.search(r"^Uid:\s*(\d+)\s", status, re.MULTILINE)
    return found is not None and int(found[1]) == os.getuid()


def mark(directory: Path) -> str:
    """Return what sets the run in this directory apart from all others on this machine."""
    return str(directory.resolve())


def of_run(directory: Path) -> list[Process]:
    """Return the living processes that belong to the run in this directory, but this one."""
    return of_runs().get(mark(directory), [])


def of_runs() -> dict[str, list[Process]]:
    """Return all living processes of this user that belong to a run, but this one, by the mark of the run."""
    found: dict[str, list[Process]] = {}
    for pid in sorted(int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()):
        process = Process.of(pid)
        run = environment(pid).get(RUN, "")
        if run and pid != os.getpid() and ours(pid) and process.state():
            found.setdefault(run, []).append(process)
    return found
