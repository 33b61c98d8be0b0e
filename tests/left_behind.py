"""Ends what tests have started and did not end themselves: one failed, or the whole of them was ended in the middle."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from docker.errors import NotFound

from chaos.machines import procfs
from chaos.machines.agent.commands import boot_id
from chaos.machines.docker.engine import DIRECTORY
from chaos.machines.procfs import Process

LABEL, MADE_IN, MADE_BY = "stormproof.tests", "stormproof.tests.in", "stormproof.tests.by"
#: How long the kernel may take to end what it was told to kill.
END_S = 10.0


def end_processes(folder: Path) -> list[Process]:
    """Kill all processes of runs in this folder and below it: nodes, supervisors, and what takes processors' time."""
    left = [process for run, found in procfs.of_runs().items() if Path(run).is_relative_to(folder) for process in found]
    for process in left:
        process.signal(signal.SIGKILL)
    deadline_s = time.monotonic() + END_S
    while any(process.state() for process in left) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    return left


def remove_containers(engine: Any, folder: Path) -> list[str]:
    """Remove the containers and networks of runs in this folder and below it; their names."""
    return _removed(
        one
        for one, labels in _labelled(engine, [DIRECTORY])
        if Path(labels[DIRECTORY]).is_relative_to(folder.resolve())
    )


def whose(process: Process) -> dict[str, str]:
    """Labels that tell the process which made a container: its id means nothing in another boot or namespace."""
    return {LABEL: "", MADE_IN: f"{boot_id()} {os.readlink('/proc/self/ns/pid')}", MADE_BY: str(process)}


def remove_abandoned(engine: Any) -> list[str]:
    """Remove the containers and networks that a test run has left which was ended in the middle; their names."""
    here = whose(Process.of(os.getpid()))[MADE_IN]
    return _removed(
        one
        for one, labels in _labelled(engine, [LABEL, f"{MADE_IN}={here}"])
        if not Process.parse(labels[MADE_BY]).state()
    )


def _labelled(engine: Any, label: list[str]) -> list[tuple[Any, dict[str, str]]]:
    """All containers, then all networks, that have these labels."""
    filters = {"label": label}
    return [
        *((one, one.labels) for one in engine.containers.list(all=True, filters=filters, ignore_removed=True)),
        *((one, one.attrs["Labels"]) for one in engine.networks.list(filters=filters)),
    ]


def _removed(gone: Any) -> list[str]:
    names = []
    for one in gone:
        with suppress(NotFound):  # another test run may tidy too
            one.remove(**({"force": True, "v": True} if hasattr(one, "exec_run") else {}))
        names.append(one.name)
    return names
