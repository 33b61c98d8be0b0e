"""What acts for the harness on a host that it reaches through SSH: an agent, and the commands that only hosts have.

Imports only the standard library and ours that do the same. It lives as long as its SSH channel, by which it is asked
to act; nodes outlive it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from chaos.machines import local_resources
from chaos.machines.agent.commands import Agent, command_of, failure, until
from chaos.machines.agent.tools import run, where_is
from chaos.machines.dials import come_about, dialled
from chaos.machines.procfs import HOST_RUN, NODE, Process, environment, ours
from chaos.machines.ssh.running import Programs, as_root
from chaos.machines.ssh.systems import Systems
from chaos.shell import clocks

#: So much of a file goes into one answer.
READ_BYTES = 1 << 20
#: No row of a trace is longer.
LINE_BYTES = 32 << 20
_NOT_ALLOWED = ("not in the sudoers", "not allowed", "may not run sudo")


class HostAgent:
    """A host's own commands: its methods whose names begin with ``do_``. ``agent``: once the run is known."""

    def __init__(self, root: Path, code: Path) -> None:
        self._root = root
        self._code = code
        self._run = Path()
        self.agent: Agent | None = None
        self._own = (self, Programs(code), Systems(root))

    @property
    def parts(self) -> Sequence[object]:
        """Who obeys."""
        return self._own if self.agent is None else (*self._own, self.agent)

    def do_begin(self, run: str) -> dict[str, object]:
        """Choose the folder of the run, and return what the host is: its address as its SSH server sees it, and the
        folder."""
        if not run or "/" in run or run.startswith("."):
            raise ValueError(f"{run!r} is not a name of a run")
        self._run = self._root / "runs" / run
        ours = {HOST_RUN: run, "PYTHONPATH": str(self._code), "PYTHONUNBUFFERED": "1"}  # shows whose processes are
        self.agent = Agent(self._run, {**os.environ, **ours}, shelters=False)
        connection = os.environ.get("SSH_CONNECTION", "").split()
        return {"address": connection[2] if len(connection) == 4 else "", "folder": str(self._run)}

    def do_can_skew_clocks(self) -> bool:
        return clocks.installed()

    def do_read(self, files: Mapping[str, int]) -> dict[str, str]:
        """Return what is in these files of the run from these offsets on; of traces only whole lines."""
        if self.agent is not None:
            self.agent.cap_logs()
        found = {}
        for name, offset in files.items():
            try:
                with (self._run / name).open("rb") as file:
                    file.seek(offset)
                    data = file.read(READ_BYTES)
                    while len(data) < LINE_BYTES and b"\n" not in data and (more := file.read(READ_BYTES)):
                        data += more  # one row may be longer
            except FileNotFoundError:
                continue
            if name.endswith(".jsonl"):
                data = data[: data.rfind(b"\n") + 1]
            if data:
                found[name] = b64encode(data).decode()
        return found

    def do_reach(self, dials: Sequence[Mapping[str, Any]], within_s: float) -> list[bool]:
        """Return which fresh connections come about in time, all begun at once: each from one of ``ports`` of ours to
        ``port`` of ``host``."""
        return come_about([dialled(**dial) for dial in dials], within_s)

    def do_privilege(self, password: str) -> str:
        """Return how we become root: ``root``, ``sudo``, or ``password``, sudo with one. Raises ``PermissionError``."""
        if os.geteuid() == 0:
            return "root"
        if where_is("sudo") is None:
            raise PermissionError("sudo is not installed")
        if run(["sudo", "-k", "-n", "true"], "")[0] == 0:
            return "sudo"
        if not password:
            raise PermissionError("sudo asks for a password and none is given")
        code, output = run(as_root("password", ["true"]), f"{password}\n")
        if code == 0:
            return "password"
        raise PermissionError(output if any(words in output for words in _NOT_ALLOWED) else "the password is wrong")

    def do_root(self, command: Sequence[str], given: str, how: str, password: str) -> tuple[int, str]:
        """Run a command as root, with this on its standard input: its exit code and output."""
        return run(as_root(how, command), f"{password}\n{given}" if how == "password" else given)

    def do_clear(self) -> list[str]:
        """End all processes of the run; return what was done."""
        done = []
        for process, name in sorted(_of_run(self._run.name), key=lambda found: found[0].pid):
            stopped = ", which was stopped" if process.state() == "T" else ""
            process.signal(signal.SIGKILL)
            if not until(partial(_ended, process)):
                raise OSError(f"process {process.pid} does not end; end it by hand")
            done.append(f"ended {name} (process {process.pid}){stopped}")
        return done

    def do_remove(self) -> bool:
        """Remove the folder of the run; False if there is none."""
        there = self._run.is_dir()
        shutil.rmtree(self._run, ignore_errors=True)
        return there


def _ended(process: Process) -> bool:
    return not process.state()


def _of_run(run: str) -> Iterator[tuple[Process, str]]:
    """Yield the living processes of a run, each with what it is."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            process = Process.of(int(entry.name))
            marks = environment(process.pid)
            if marks.get(HOST_RUN) == run and ours(process.pid) and process.state():
                yield process, f"node {marks[NODE]}" if NODE in marks else _what(process.pid)


def _what(pid: int) -> str:
    """Return what a process is that is no node's."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        words = []
    return "what took a processor's time" if local_resources.__name__ in words else "a process"


def serve(host: HostAgent, lines: BinaryIO, answers: BinaryIO) -> None:
    """Obey until there are no more lines."""
    for line in lines:
        try:
            _, do = command_of(host.parts, line)
            answer: dict[str, Any] = {"ok": do()}
        except Exception as error:  # whatever it is, the harness must hear of it
            answer = failure(error)
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    serve(HostAgent(Path(sys.argv[1]), Path(sys.argv[2])), sys.stdin.buffer, sys.stdout.buffer)
