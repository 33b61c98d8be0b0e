"""Marks: what this user's runs on this machine may have left behind, each in a file of the state folder.

A mark is written before anything is started or hurt, and goes when nothing is left. It holds the undo itself and not
only its digest: then there is one truth, no order of two writes in which a kill could harm, and a run whose directory
was altered, torn or deleted is healed all the same. What the run's own directory says of the same is for people, and
for ``stormproof heal RUN --trust``.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import time
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from chaos import guarded
from chaos.errors import BadInput, ChaosError, DamagedHistory, MachineError
from chaos.machines import procfs
from chaos.machines.healing import state

FOLDER = "runs"
_MACHINE_ID = Path("/etc/machine-id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """``directory``: the run's own, without links. ``made``: where the run was made, by which its processes and
    containers are known; another than ``directory`` only where the user has said so. ``harness``: the process that
    drives it, ``PID:START``. ``left``: what may have to be undone, by the name of its file in the run's directory."""

    directory: Path
    made: Path
    deployment: str
    harness: str
    begun_ns: int
    left: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @staticmethod
    def fresh(directory: Path, deployment: str) -> Mark:
        here = directory.resolve()
        harness, now_ns = procfs.harness(), time.time_ns()
        return Mark(directory=here, made=here, deployment=deployment, harness=harness, begun_ns=now_ns)

    def write(self) -> None:
        """Write it: it is on disk, and the way to it too, when this returns. Raises :class:`MachineError`."""
        fields = {**asdict(self), "directory": str(self.directory), "made": str(self.made), **_whose()}
        path = _path(self.directory)
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            guarded.replace(path, json.dumps(fields, indent=2).encode())
            _sync(path.parent)
        except OSError as error:
            raise MachineError(f"cannot write {path}: {error.strerror or error}") from error


def read(directory: Path) -> Mark | None:
    """Return the mark of the run in this directory; None where there is none, or no state folder. Raises
    :class:`DamagedHistory` for one that isn't what was written."""
    if state.problem():
        return None
    return _read(_path(directory.resolve()))


def below(root: Path) -> list[Mark]:
    """Return the marks of all runs of this user on this machine in this folder and below it, the oldest first. Raises
    as :func:`read` does, and :class:`MachineError` where there is no state folder."""
    files = sorted((state.folder() / FOLDER).glob("*.json"))
    within = root.resolve()
    found = [mark for file in files if (mark := _read(file)) and mark.directory.is_relative_to(within)]
    return sorted(found, key=lambda mark: (mark.begun_ns, mark.directory))


def keep(directory: Path, deployment: str, name: str, left: Mapping[str, Any]) -> None:
    """Have the run's mark say what may have to be undone. Raises :class:`MachineError`: then nothing may be done."""
    mark = read(directory) or Mark.fresh(directory, deployment)
    replace(mark, left={**mark.left, name: left}).write()


def remove(directory: Path) -> None:
    """Remove the mark of a run of which nothing is left."""
    if not state.problem():
        with suppress(FileNotFoundError):
            _path(directory.resolve()).unlink()


def end(directory: Path) -> None:
    """End the mark of a run that has come to its end; what it could not undo then stays marked."""
    mark = read(directory)
    if mark is not None and not mark.left:
        remove(directory)


def prune(root: Path, deployments: Container[str]) -> None:
    """Remove the marks of runs in this folder and below it that were healed, on these deployments: nothing is left, and
    nobody drives them."""
    for mark in [] if state.problem() else below(root):
        if not mark.left and mark.deployment in deployments and not procfs.living(mark.harness):
            remove(mark.directory)


def _path(here: Path) -> Path:
    # Homes may be shared by machines, on which another run may be in a directory of the same name.
    name = hashlib.sha256(f"{machine()}\0{here}".encode(errors="surrogateescape")).hexdigest()
    return state.folder() / FOLDER / f"{name[:32]}.json"


def _read(path: Path) -> Mark | None:
    try:
        fields = guarded.read_json(path)
        if {name: fields.pop(name) for name in _whose()} != _whose():
            return None  # of another machine that shares this home
        return Mark(**{**fields, "directory": Path(fields["directory"]), "made": Path(fields["made"])})
    except FileNotFoundError:
        return None
    except (ChaosError, OSError, KeyError, TypeError, AttributeError) as error:
        raise DamagedHistory(f"{path} is not a mark of a run, so what it left is unknown: {error}") from error


def _whose() -> dict[str, Any]:
    return {"user": os.getuid(), "machine": machine()}


def machine() -> str:
    """Return what sets this machine apart from others that share a home with it."""
    with suppress(OSError, BadInput):
        if known := guarded.read(_MACHINE_ID, 1 << 10, links=True).decode("ascii", "replace").strip():
            return known
    return socket.gethostname()


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
