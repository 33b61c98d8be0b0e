"""What a host's agent does to programs that somebody else has started there.

Imports only the standard library and ours that do the same. The commands that find such a program and start it are its
owner's; they are run as root and without a shell. As a program of its own, which root runs, it sends signals::

    python -P -m chaos.machines.ssh.running SIGSTOP PID:START
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from chaos.machines.agent.commands import Refused
from chaos.machines.agent.tools import run
from chaos.machines.procfs import Process, descendants, name_of, signal_each

#: How long the command that starts a program may take.
START_S = 20.0
#: So much of what a command says is shown.
MOST_SAID = 500


class Programs:
    """Commands: the methods whose names begin with ``do_``. ``how`` and ``password``: how one becomes root here."""

    def __init__(self, code: Path) -> None:
        self._code = code

    def do_program(self, pid: Sequence[str], known: str, how: str, password: str) -> dict[str, object]:
        """Return what runs of a program: ``process`` as ``PID:START``, what the kernel calls it, and whether it was
        stopped with all that comes from it; or ``problem``, why it is not there. ``known``: the process that it was; as
        long as that lives, its command is not asked."""
        process = Process.parse(known) if known else Process(0, 0)
        if not process.state():
            code, said = run(as_root(how, pid), f"{password}\n" if how == "password" else "")
            problem = _no_process(code, said)
            if problem:
                return {"problem": f"`{shlex.join(pid)}` {problem}"}
            process = Process.of(int(said))
        members = descendants(process)
        if not members:
            return {"problem": f"process {process.pid}, which `{shlex.join(pid)}` names, does not run"}
        paused = all(member.state() == "T" for member in members)
        return {"process": str(process), "name": name_of(process.pid), "paused": paused}

    def do_signal_program(self, process: str, name: str, how: str, password: str) -> None:
        """Send a signal to a program and all that comes from it. Raises :class:`Refused` when it has ended."""
        sends = ["env", f"PYTHONPATH={self._code}", sys.executable, "-P", "-m", __name__, name, process]
        code, said = run(as_root(how, sends), f"{password}\n" if how == "password" else "")
        if code == _ENDED:
            raise Refused("it is not running")
        if code:
            raise OSError(f"it could not be sent {name}: {said[-MOST_SAID:]}")

    def do_start_program(self, start: Sequence[str], how: str, password: str) -> None:
        """Have a program started. What it leaves running keeps none of our descriptors, and is not waited for."""
        with tempfile.TemporaryFile() as output:
            try:
                done = subprocess.run(
                    as_root(how, start),
                    input=f"{password}\n".encode() if how == "password" else b"",
                    stdout=output,
                    stderr=output,
                    timeout=START_S,
                    cwd="/",
                    start_new_session=True,
                    check=False,
                )
            except FileNotFoundError:
                raise OSError(f"`{shlex.join(start)}` can't be run: there is no {start[0]}") from None
            except subprocess.TimeoutExpired:
                raise OSError(
                    f"`{shlex.join(start)}` did not return within {START_S:g} s: it must leave the program running, and"
                    " end"
                ) from None
            output.seek(0)
            said = output.read(MOST_SAID).decode("utf-8", "replace").strip()
        if done.returncode:
            raise OSError(f"`{shlex.join(start)}` ended with {done.returncode}: {said or 'it said nothing'}")


def as_root(how: str, command: Sequence[str]) -> list[str]:
    """Return the words that run a command as root: ``how`` is ``root``, ``sudo`` or ``password``."""
    match how:
        case "root":
            return list(command)
        case "sudo":
            return ["sudo", "-n", "--", *command]
        case _:  # without -k a password that sudo still remembers would be taken for input of the command
            return ["sudo", "-k", "-S", "-p", "", "--", *command]


def _no_process(code: int, said: str) -> str:
    """Return why what a command has said is no id of a process that may be hurt; "" if it is one."""
    if code:
        return f"ended with {code}: {said[-MOST_SAID:] or 'it said nothing'}"
    if not said.isascii() or not said.isdigit() or len(said) > 9:
        return f"printed no process id, but {said[:MOST_SAID]!r}"
    if int(said) <= 1:
        return f"printed {said}, which is the id of no program of its own"
    return "" if Process.of(int(said)).state() else f"printed {said}, and no such process runs"


#: The exit code of the program below when there is nobody to signal.
_ENDED = 3


def send(number: signal.Signals, first: Process) -> bool:
    """Signal a process and all that come from it; return whether it lived. Before any is ended all are stopped, so that
    none begins another one meanwhile."""
    members = partial(descendants, first)
    if number is not signal.SIGKILL:
        return bool(signal_each(members, number))
    stopped = signal_each(members, signal.SIGSTOP)
    for process in stopped:
        process.signal(signal.SIGKILL)
    return bool(stopped)


if __name__ == "__main__":
    os.chdir("/")
    sys.exit(0 if send(signal.Signals[sys.argv[1]], Process.parse(sys.argv[2])) else _ENDED)
