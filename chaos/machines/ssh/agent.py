"""What acts for the harness on a host that it reaches through SSH: it starts, stops and reads nodes there.

Imports only the standard library and ours that do the same. It lives as long as its SSH channel, and is told what to do
in lines of JSON: ``{"do": NAME, …}``; each is answered by one line, ``{"ok": …}``, ``{"refused": TEXT}`` when a fault
can't be done at this moment, or ``{"error": TEXT}``. Nodes outlive it: a file for each holds the process id, with the
time of its start and the boot, so that another process that later gets the same id is never taken for it.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from errno import EADDRINUSE, EADDRNOTAVAIL, EINPROGRESS
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

from chaos.effects.corruption import AtDisk, at_disk
from chaos.effects.disks import from_json
from chaos.machines import local_resources
from chaos.machines.folder_disk import RealFiles
from chaos.machines.local_resources import Kind, Pressure, spinning
from chaos.machines.procfs import Process, environment
from chaos.shell import clocks, membership
from chaos.shell.disk_rules import WrittenRules

#: Environment of every node: the name of the folder of its run.
RUN = "STORMPROOF_HOST_RUN"
#: How long a signal may take to show, a command of root to end.
EFFECT_S = 5.0
ROOT_S = 20.0
#: How long a port may still be held by who has ended.
FREE_S = 1.0
POLL_S = 0.005
#: So much of a file goes into one answer.
READ_BYTES = 1 << 20
LOG_TAIL_BYTES = 4096
#: What is in the folder of a run; a node's disk is a folder itself, its gate a file while no sync may end.
FOLDERS = ("disks", "traces", "logs", "pids", "launch", "gates", "rules", "pressure", "clocks")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PATH = "/usr/local/sbin:/usr/sbin:/sbin"
_NOT_ALLOWED = ("not in the sudoers", "not allowed", "may not run sudo")


class Refused(Exception):
    """It can't be done at this moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """What the file of a node holds; ``incarnation`` 0: it never lived here."""

    process: Process
    incarnation: int = 0
    boot: str = ""
    #: How much the rules on its disk had hit before.
    hits_bytes: int = 0

    def state(self) -> str:
        """The system's letter for the state; "" when it doesn't live."""
        return self.process.state() if self.incarnation and self.boot == boot_id() else ""


_NEVER = Life(process=Process(0, 0))


class Agent:
    """All commands are its methods whose names begin with ``do_``; their keyword arguments come from the line."""

    def __init__(self, root: Path, code: Path) -> None:
        self._root = root
        self._code = code
        self._run = Path()
        self._children: dict[Process, subprocess.Popen[bytes]] = {}

    def do_begin(self, run: str) -> dict[str, object]:
        """Choose the folder of the run, and tell what the host is: its address as its SSH server sees it, and who we
        are there."""
        if not run or "/" in run or run.startswith("."):
            raise ValueError(f"{run!r} is no name of a run")
        self._run = self._root / "runs" / run
        connection = os.environ.get("SSH_CONNECTION", "").split()
        return {"address": connection[2] if len(connection) == 4 else "", "folder": str(self._run)}

    def do_start(
        self, node: str, package: str, incarnation: int, launch: Mapping[str, Any], port: int
    ) -> Mapping[str, object]:
        """Start the node's next life unless it lives; ``launch`` names its files relative to the folder of the run."""
        if self._life(node).state():
            return self._told(node)
        _check_free(port)
        for name in ("disk", "trace", "gate", "disk_rules", "membership"):
            launch = {**launch, name: str(self._run / str(launch[name]))}
        for folder in FOLDERS:
            (self._run / folder).mkdir(parents=True, exist_ok=True)
        environment = self._environment()
        if launch.get("clock"):
            clock = self._run / str(launch["clock"])
            launch = {**launch, "clock": str(clock)}
            environment |= clocks.environment(str(clock))
            if not clock.exists():
                clocks.Skew().write(clock)
        hits_bytes = self._rules(node).born()
        told = self._run / "launch" / f"{node}.json"
        told.write_text(json.dumps(launch), "utf-8")
        with (self._run / "logs" / f"{node}.log").open("ab") as output:
            popen = subprocess.Popen(
                [sys.executable, "-P", "-m", package, str(told)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._run,
                env=environment,
                start_new_session=True,
            )
        process = Process.of(popen.pid)
        self._children[process] = popen
        life = {"process": str(process), "incarnation": incarnation, "boot": boot_id(), "hits_bytes": hits_bytes}
        part = self._pid_file(node).with_suffix(".part")
        part.write_text(json.dumps(life), "utf-8")
        part.replace(self._pid_file(node))
        return self._told(node)

    def do_tell_of_newcomers(self, addresses: Mapping[str, str]) -> None:
        """Tell the nodes here of all that have joined so far."""
        membership.write(self._run / "launch" / membership.FILE, addresses)

    def do_status(self, nodes: Sequence[str]) -> dict[str, object]:
        return {node: self._told(node) for node in nodes}

    def do_kill(self, node: str) -> Mapping[str, object]:
        """Send SIGKILL, which ends a stopped one too, and wait for the end."""
        life = self._life(node)
        if not life.state() or not life.process.signal(signal.SIGKILL):
            raise Refused("it is not running")
        if not _until(lambda: not life.state()):
            raise Refused(f"it did not end within {EFFECT_S:g} s of its SIGKILL")
        return self._told(node)

    def do_terminate(self, node: str, within_s: float) -> Mapping[str, object]:
        """Send SIGTERM and wait for the end; ``state`` tells whether it came in time."""
        life = self._life(node)
        if life.state() == "T":
            raise Refused("it is paused")
        if not life.state() or not life.process.signal(signal.SIGTERM):
            raise Refused("it is not running")
        _until(lambda: not life.state(), within_s)
        return self._told(node)

    def do_press(self, node: str, kind: str, amount: int) -> Mapping[str, object]:
        """Begin pressure of this kind on the node's machine; what shows it."""
        shown = self._pressure(node).press(Kind(kind), amount, self._living(node))
        if "refused" in shown:
            raise Refused(str(shown["refused"]))
        if "spinner" in shown:
            first, count = Process.parse(str(shown["spinner"])), shown["spinners"]
            if not _until(lambda: spinning(first) == count):
                raise Refused(f"{spinning(first)} of {count} processes take its processor after {EFFECT_S:g} s")
        return shown

    def do_weigh(self, node: str) -> None:
        """The node has begun another life: it feels what the one before felt."""
        process = self._living(node)
        if process is not None:
            self._pressure(node).born(process)

    def do_release(self, node: str, kind: str) -> None:
        """End pressure of this kind; nothing happens when there is none."""
        self._pressure(node).release(Kind(kind), self._living(node))

    def do_can_skew_clocks(self) -> bool:
        return clocks.installed()

    def do_set_clock(self, node: str, jumped_ns: int, drift_ppm: int) -> None:
        """Have the wall clock of a node be that far off, and its monotonic one drift."""
        clocks.Skew(jumped_ns, drift_ppm).write(self._run / "clocks" / f"{node}.clock")

    def do_set_disk_rule(self, node: str, rule_id: str, action: Mapping[str, Any]) -> None:
        self._rules(node).put_up(rule_id, from_json(action))

    def do_clear_disk(self, node: str, rule_id: str) -> bool:
        """Take the rule away; whether the node lives and may be about to end of it."""
        rules = self._rules(node)
        rules.clear(rule_id)
        return bool(rules.count(rule_id) and rules.deadly and self._life(node).state())

    def do_disk_rule_hits(self, node: str, rule_id: str) -> int:
        return self._rules(node).count(rule_id)

    def do_pause(self, node: str) -> Mapping[str, object]:
        life = self._life(node)
        if life.state() == "T":
            raise Refused("it is paused already")
        if not life.state() or not life.process.signal(signal.SIGSTOP):
            raise Refused("it is not running")
        if not _until(lambda: life.state() == "T"):
            raise Refused(f"it did not stop within {EFFECT_S:g} s of its SIGSTOP")
        return self._told(node)

    def do_resume(self, node: str) -> None:
        life = self._life(node)
        if life.state():
            life.process.signal(signal.SIGCONT)

    def do_wipe(self, node: str) -> int:
        """Empty the disk of a node that is down; how many files that were."""
        if self._life(node).state():
            raise Refused("it is running")
        disk = self._run / "disks" / node
        files = sum(1 for path in disk.rglob("*") if path.is_file())
        shutil.rmtree(disk, ignore_errors=True)
        if disk.exists():
            raise OSError(f"{disk} can't be emptied")
        return files

    def do_at_disk(self, node: str, what: str, told: Mapping[str, Any]) -> Any:
        """See :func:`chaos.effects.corruption.at_disk`."""
        if what != AtDisk.MARK and self._life(node).state():
            raise Refused("it is running")
        return at_disk(RealFiles(self._run / "disks" / node), RealFiles(self._run / "copies" / node), what, told)

    def do_read(self, files: Mapping[str, int]) -> dict[str, str]:
        """What is in these files of the run from these offsets on; of traces only whole lines."""
        found = {}
        for name, offset in files.items():
            try:
                with (self._run / name).open("rb") as file:
                    file.seek(offset)
                    data = file.read(READ_BYTES)
            except FileNotFoundError:
                continue
            if name.endswith(".jsonl"):
                data = data[: data.rfind(b"\n") + 1]
            if data:
                found[name] = b64encode(data).decode()
        return found

    def do_log(self, node: str) -> str:
        """The end of what the node wrote, over all its lives."""
        path = self._run / "logs" / f"{node}.log"
        return path.read_bytes()[-LOG_TAIL_BYTES:].decode("utf-8", "replace").strip() if path.exists() else ""

    def do_reach(self, dials: Sequence[Mapping[str, Any]], within_s: float) -> list[bool]:
        """Which fresh connections come about in time, all begun at once: each from one of ``ports`` of ours to ``port``
        of ``host``."""
        works = [False] * len(dials)
        deadline_s = time.monotonic() + within_s
        with ExitStack() as stack, selectors.DefaultSelector() as waiting:
            for number, dial in enumerate(dials):
                probe = _dialled(**dial)
                if probe is not None:
                    waiting.register(stack.enter_context(probe), selectors.EVENT_WRITE, number)
            while waiting.get_map() and (left_s := deadline_s - time.monotonic()) > 0:
                for key, _ in waiting.select(left_s):
                    waiting.unregister(key.fileobj)
                    error = cast(socket.socket, key.fileobj).getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                    works[key.data] = error == 0
        return works

    def do_privilege(self, password: str) -> str:
        """How we become root: ``root``, ``sudo``, or ``password``, sudo with one. Raises ``PermissionError``."""
        if os.geteuid() == 0:
            return "root"
        if shutil.which("sudo", path=_path()) is None:
            raise PermissionError("sudo is not installed")
        if _run(["sudo", "-k", "-n", "true"], "")[0] == 0:
            return "sudo"
        if not password:
            raise PermissionError("sudo asks for a password and none is given")
        code, output = _run(_sudo("password", ["true"]), f"{password}\n")
        if code == 0:
            return "password"
        raise PermissionError(output if any(words in output for words in _NOT_ALLOWED) else "the password is wrong")

    def do_root(self, command: Sequence[str], given: str, how: str, password: str) -> tuple[int, str]:
        """Run a command as root, with this on its standard input: its exit code and output."""
        return _run(_sudo(how, command), f"{password}\n{given}" if how == "password" else given)

    def do_clear(self) -> list[str]:
        """End all processes of the run; what was done."""
        done = []
        for process, name in sorted(_of_run(self._run.name), key=lambda found: found[0].pid):
            stopped = ", which was stopped" if process.state() == "T" else ""
            process.signal(signal.SIGKILL)
            if not _until(partial(_ended, process)):
                raise OSError(f"process {process.pid} does not end; end it by hand")
            done.append(f"ended {name} (process {process.pid}){stopped}")
        return done

    def do_remove(self) -> bool:
        """Remove the folder of the run; False if there is none."""
        there = self._run.is_dir()
        shutil.rmtree(self._run, ignore_errors=True)
        return there

    def _life(self, node: str) -> Life:
        try:
            told = json.loads(self._pid_file(node).read_text("utf-8"))
            told["process"] = Process.parse(told["process"])
            return Life(**told)
        except (OSError, ValueError, KeyError, TypeError):
            return _NEVER

    def _told(self, node: str) -> Mapping[str, object]:
        life = self._life(node)
        child = self._children.get(life.process)
        return {
            "incarnation": life.incarnation,
            "pid": life.process.pid,
            "started": life.process.started,
            "state": life.state(),
            "exit_code": child.poll() if child is not None else None,
            "of_a_fault": self._rules(node).deadly or self._pressure(node).deadly,
        }

    def _living(self, node: str) -> Process | None:
        """The node's process, if it lives."""
        life = self._life(node)
        return life.process if life.state() else None

    def _pressure(self, node: str) -> Pressure:
        """What weighs on a node since this boot, as this agent or one before has left it."""
        kept = self._run / "pressure" / f"{node}-{boot_id()}.json"
        return Pressure(self._run / "gates" / node, kept, self._environment())

    def _environment(self) -> dict[str, str]:
        """Of all processes of the run: it tells whose they are."""
        return {**os.environ, RUN: self._run.name, "PYTHONPATH": str(self._code), "PYTHONUNBUFFERED": "1"}

    def _rules(self, node: str) -> WrittenRules:
        return WrittenRules.read(self._run / "rules" / f"{node}.rules", self._life(node).hits_bytes)

    def _pid_file(self, node: str) -> Path:
        return self._run / "pids" / f"{node}.json"


def boot_id() -> str:
    """What tells this boot of the machine from all others."""
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return ""


def _ended(process: Process) -> bool:
    return not process.state()


def _of_run(run: str) -> Iterator[tuple[Process, str]]:
    """The living processes of a run, each with its node's name."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            process = Process.of(int(entry.name))
            if environment(process.pid).get(RUN) == run and process.state():
                yield process, _node_of(process.pid)


def _node_of(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").strip("\0").split("\0")
    except OSError:
        return "a process"
    if local_resources.__name__ in words:
        return "what took a processor's time"
    return f"node {Path(words[-1]).stem}"


def _check_free(port: int) -> None:
    """Wait a moment for it: a process of several threads may have ended before the last of them lets its port go.
    Raises ``OSError``."""
    if not _until(lambda: not _taken(port), FREE_S):
        raise OSError(f"port {port} is taken ({_taken(port)}): give another `first_port` in the inventory")


def _taken(port: int) -> str:
    """Why nobody can listen there; "" if somebody can."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            return error.strerror or str(error)
    return ""


def _sudo(how: str, command: Sequence[str]) -> list[str]:
    match how:
        case "root":
            return list(command)
        case "sudo":
            return ["sudo", "-n", "--", *command]
        case _:  # without -k a password that sudo still remembers would be taken for input of the command
            return ["sudo", "-k", "-S", "-p", "", "--", *command]


def _run(command: Sequence[str], given: str) -> tuple[int, str]:
    environment = {**os.environ, "PATH": _path(), "LC_ALL": "C"}
    try:
        done = subprocess.run(
            list(command),
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=ROOT_S,
            env=environment,
            check=False,
        )
    except FileNotFoundError:
        return 127, f"{command[0]}: not found"
    return done.returncode, done.stdout.strip()


def _path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:{_PATH}"


def _dialled(ports: Sequence[int], host: str, port: int) -> socket.socket | None:
    """A connection that was begun from one of these ports; None if that failed. A port from which such a one has ended
    just now can't be taken at once."""
    for own in ports:
        probe = socket.socket()
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.setblocking(False)
        try:
            probe.bind(("", own))
            found = probe.connect_ex((host, port))
        except OSError:
            found = EADDRINUSE
        if found in (0, EINPROGRESS):
            return probe
        probe.close()
        if found not in (EADDRINUSE, EADDRNOTAVAIL):
            return None
    return None


def _until(there: Callable[[], bool], within_s: float = EFFECT_S) -> bool:
    deadline_s = time.monotonic() + within_s
    while not there():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(POLL_S)
    return True


def serve(agent: Agent, lines: BinaryIO, answers: BinaryIO) -> None:
    """Obey until there are no more lines."""
    for line in lines:
        try:
            command = json.loads(line)
            do: Callable[..., Any] = getattr(agent, f"do_{command.pop('do')}")
            answer: dict[str, object] = {"ok": do(**command)}
        except Refused as refused:
            answer = {"refused": str(refused)}
        except Exception as error:  # whatever it is, the harness must hear of it
            answer = {"error": str(error) or type(error).__name__}
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    serve(Agent(Path(sys.argv[1]), Path(sys.argv[2])), sys.stdin.buffer, sys.stdout.buffer)
