"""Ends the processes of a run whose harness was killed; needs nothing but the system's own list of processes.

Only such are ended as carry the run's mark in their environment and belong to who asks. No file of a run says whom to
end: it could have been altered, and a process id may be a stranger's by now.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from chaos.errors import DeploymentError
from chaos.machines import procfs
from chaos.machines.healing.left import Claim
from chaos.machines.healing.runs import belonging_to, each, made_in
from chaos.machines.procfs import Process

#: Supervisors, of whatever kind, run the module of this name in their folder.
SUPERVISOR = re.compile(r"chaos\.machines\.\w+\.supervisor")
END_S = 10.0
POLL_S = 0.005


def heal(run_directory: Path) -> list[str]:
    """End what a killed harness has left of its run; return what was done, in sentences.

    A run whose harness still lives is left alone: it will heal itself.
    """
    return _end_run(run_directory.absolute().name, procfs.of_run(made_in(run_directory)))


def heal_all(runs_root: Path) -> list[str]:
    """Heal every run in this folder and below it of which a process lives, as :func:`heal` does."""
    return each(lambda run: _end_run(Path(run[0]).name, run[1]), sorted(_of_runs(runs_root).items()))


def leftovers(runs_root: Path) -> list[str]:
    """Return what :func:`heal_all` would do, in sentences."""
    return [line for run, processes in sorted(_of_runs(runs_root).items()) for line in _lines(run, processes)]


def claimed(run_directory: Path, made: Path, inventory: object) -> Claim:
    """Return what healing this run would do if it was made in the directory that it says."""
    return Claim(lines=_lines(str(made), procfs.of_run(made)))


def _of_runs(root: Path) -> Mapping[str, list[Process]]:
    belongs = belonging_to(root)
    return {run: processes for run, processes in procfs.of_runs().items() if belongs(run)}


def _lines(run: str, processes: Sequence[Process]) -> list[str]:
    if driven := _driven(processes):
        return [f"the run in {run} is still driven by process {driven}: it is left alone"]
    return [f"end the {_what(process)} (process {process.pid}) of the run in {run}" for process in processes]


def _driven(processes: Sequence[Process]) -> int:
    """Return the id of the process that drives them, 0 if it has ended."""
    harnesses = {procfs.environment(process.pid).get(procfs.HARNESS_PROCESS) for process in processes}
    return max(map(procfs.living, harnesses), default=0)


def _what(process: Process) -> str:
    node = procfs.environment(process.pid).get(procfs.NODE)
    supervises = SUPERVISOR.fullmatch(procfs.module_of(process.pid))
    return f"node {node}" if node else "supervisor" if supervises else "process"


def _end_run(run_id: str, processes: list[Process]) -> list[str]:
    """End these processes, the supervisor first, so that it starts none again. A stopped one ends as it is."""
    if driven := _driven(processes):
        return [f"run {run_id} is still driven by process {driven}; stop that first"]
    supervisors = [process for process in processes if SUPERVISOR.fullmatch(procfs.module_of(process.pid))]
    done = []
    for process in processes:
        stopped = ", which was stopped" if process.state() == "T" else ""
        done.append(f"run {run_id}: ended the {_what(process)} (process {process.pid}){stopped}")
    for process in sorted(processes, key=lambda process: (process not in supervisors, process.pid)):
        process.signal(signal.SIGKILL)
    deadline_s = time.monotonic() + END_S
    while any(process.state() for process in processes):
        if time.monotonic() > deadline_s:
            left = ", ".join(str(process.pid) for process in processes if process.state())
            raise DeploymentError(f"run {run_id}: processes {left} do not end; end them by hand")
        time.sleep(POLL_S)
    return done
