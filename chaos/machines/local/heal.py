"""Ends the processes of a run whose harness was killed; needs nothing but the system's own list of processes.

Only such are ended as carry the run's mark in their environment and belong to who asks. No file of a run says whom to
end: it could have been altered, and a process id may be a stranger's by now.
"""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

from chaos.errors import DeploymentError
from chaos.machines import procfs
from chaos.machines.healing import each, made_in
from chaos.machines.procfs import Process

#: Supervisors, of whatever kind, run the module of this name in their folder.
SUPERVISOR = re.compile(r"chaos\.machines\.\w+\.supervisor")
END_S = 10.0
POLL_S = 0.005


def heal(run_directory: Path) -> list[str]:
    """End what a killed harness has left of its run; tell what was done, in sentences.

    A run whose harness still lives is left alone: it will heal itself.
    """
    return _end_run(run_directory.absolute().name, procfs.of_run(made_in(run_directory)))


def heal_all(runs_root: Path) -> list[str]:
    """The same for every run of which a process lives, below ``runs_root`` or elsewhere."""
    return each(lambda run: heal(Path(run)), sorted(procfs.of_runs()))


def _end_run(run_id: str, processes: list[Process]) -> list[str]:
    """End these processes, the supervisor first, so that it starts none anew. A stopped one ends as it is."""
    for process in processes:
        harness = _parse(procfs.environment(process.pid).get(procfs.HARNESS_PROCESS))
        if harness is not None and harness.state():
            return [f"run {run_id} is still driven by process {harness.pid}; stop that first"]
    supervisors = [process for process in processes if SUPERVISOR.fullmatch(procfs.module_of(process.pid))]
    done = []
    for process in processes:
        node = procfs.environment(process.pid).get(procfs.NODE)
        what = f"node {node}" if node else "supervisor" if process in supervisors else "process"
        stopped = ", which was stopped" if process.state() == "T" else ""
        done.append(f"run {run_id}: ended the {what} (process {process.pid}){stopped}")
    for process in sorted(processes, key=lambda process: (process not in supervisors, process.pid)):
        process.signal(signal.SIGKILL)
    deadline_s = time.monotonic() + END_S
    while any(process.state() for process in processes):
        if time.monotonic() > deadline_s:
            left = ", ".join(str(process.pid) for process in processes if process.state())
            raise DeploymentError(f"run {run_id}: processes {left} do not end; end them by hand")
        time.sleep(POLL_S)
    return done


def _parse(text: object) -> Process | None:
    try:
        return Process.parse(str(text))
    except ValueError:
        return None
