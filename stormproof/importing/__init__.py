"""Runs made of histories that other tools recorded: a file or a folder for each format, and nothing else knows its
name.

A module here has a docstring whose first line says what the format is, and ``read(file, how)``, which returns an
:class:`Imported`, or raises :class:`chaos.errors.BadInput` with the line that it does not understand.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, cast

from chaos import guarded
from chaos.driver import Evidence, Record
from chaos.errors import BadInput
from chaos.history import directory as store
from chaos.history.format import FIELD, FORMAT
from chaos.history.recorder import Recorder
from chaos.workload import Use
from stormproof.launch import versions

#: There is none: a history of OpenChaos has no seed.
SEED = 0
#: What a failure that another tool has recorded may mean.
UNKNOWN, REFUSED = "unknown", "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """How a history is to be understood, where it does not say so itself. ``failures``: :data:`UNKNOWN`, what failed
    may have happened; :data:`REFUSED`, it surely did not. ``drained``: all that was put in had been read in the end."""

    failures: str = UNKNOWN
    drained: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A history that was read to its end and understood. ``record`` writes its rows; ``workload`` is what its clients
    did, ``began_ns`` when (Unix time), ``results`` what the tool's own checkers say."""

    record: Callable[[Record], None]
    workload: str
    began_ns: int
    results: Mapping[str, Any]


def formats() -> list[str]:
    """Return the names of the formats, in alphabetical order."""
    return sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_"))


def about(name: str) -> str:
    """Say what a format is, in a line."""
    return (import_module(f"{__name__}.{name}").__doc__ or "").partition("\n")[0]


def import_runs(files: Sequence[Path], name: str, how: How, out: Path) -> list[Path]:
    """Make a run of each file in the format of this name. Nothing is written unless all of them can be read. Raises
    :class:`chaos.errors.BadInput` with the file and the line that is wrong, :class:`chaos.errors.MachineError` when
    the disk is full."""
    read = import_module(f"{__name__}.{name}").read
    histories = [(file, _sum(file), read(file, how)) for file in files]
    return [_written(file, digest, found, name, how, out) for file, digest, found in histories]


def _sum(file: Path) -> str:
    try:
        with guarded.opened(file, guarded.LARGEST_STREAM, links=True) as opened:
            return hashlib.file_digest(cast(Any, opened), "sha256").hexdigest()
    except OSError as error:
        raise BadInput(f"{file} can't be read: {error.strerror or error}") from error


def _written(file: Path, digest: str, found: Imported, name: str, how: How, out: Path) -> Path:
    stem = re.sub(r"[^A-Za-z0-9_-]+", "_", file.stem)[:60].strip("_")
    run = store.new_run(out, f"{name}-{stem}" if stem else name, SEED)
    source = {"format": name, "file": file.name, "sha256": digest, **asdict(how)}
    store.write_meta(run, _meta(run, name, found, source))
    with closing(Recorder(run, lambda: found.began_ns, batch_ns=None)) as recorder:
        found.record(cast(Record, recorder.record))  # its parameters are narrower than **columns
        recorder.flush()
        rows = len(recorder)
    if _sum(file) != digest:
        raise BadInput(f"{file} was changed while it was read; {run} is not complete: remove it, and import again")
    store.update_meta(run, state="finished", rows=rows)
    return run


def _meta(run: Path, name: str, found: Imported, source: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``run.json``. What the history does not say stays empty: no nodes, no profile, no experiment."""
    return {
        FIELD: FORMAT,
        "run": run.name,
        "directory": str(run.resolve()),
        "name": run.name.rpartition(f"-{SEED}-")[0],
        "seed": SEED,
        "deployment": "",
        "mutant": "",
        "system": name,
        "state": store.RUNNING,
        "pid": os.getpid(),
        "started": datetime.fromtimestamp(found.began_ns / 1e9, UTC).isoformat(timespec="seconds"),
        "replay": "",
        "profile": {},
        "queues": [{"index": 0, "topic": found.workload, "queue_id": 0}],
        "nodes": [],
        "workloads": [found.workload],
        "uses": [Use.EXCHANGES],
        "tells": [Evidence.EXCHANGES],
        "faults": [],
        "bounds": {},
        "imported": dict(source),
        "other_results": {name: dict(found.results)},
        "versions": versions(),
    }
