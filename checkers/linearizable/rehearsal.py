"""The class-data archive that shortens the start of the checker's JVM: made by having one do a little of everything."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from chaos.errors import MachineError
from chaos.judging import class_archive
from checkers.linearizable.batches import JvmDied
from checkers.linearizable.formats import files
from checkers.linearizable.gateway import Gateway, archive_path
from checkers.linearizable.history import History
from checkers.linearizable.limits import Limits
from checkers.linearizable.packing import pack

#: Memory of the JVM that makes the archive.
MEMORY_MIB = 256


def build_archive() -> Path:
    """Make the class-data archive that shortens the start, unless it exists: start a JVM, have it do a little of
    everything, and let it dump what it had loaded. Raises :class:`chaos.errors.MachineError`."""
    archive = archive_path(class_archive.find_java())
    if archive.is_file():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    fresh = archive.with_suffix(f".{os.getpid()}.new")
    try:
        gateway = Gateway(MEMORY_MIB, dump=fresh)
        try:
            gateway.check(pack(list(_rehearsal())), Limits(time_limit_s=5.0, every_key=True, orders=True))
        finally:
            gateway.close()
        fresh.replace(archive)
    except (OSError, JvmDied) as error:
        raise MachineError(f"the checker's class-data archive could not be made: {error}") from error
    finally:
        fresh.unlink(missing_ok=True)
    for old in archive.parent.glob("checker-*.jsa"):
        if old != archive:
            old.unlink(missing_ok=True)
    return archive


def _rehearsal() -> Iterator[History]:
    """Of each model, something that is right and something that is not."""
    for model, (change, value, observe, seen, unseen) in _REHEARSED.items():
        for result in (seen, unseen):
            calls = [
                (0, change, value, value),
                (1, change, value, None),
                (2, observe, None, result),
                (3, observe, None, result),
            ]
            events = [{"process": process, "type": "invoke", "f": f, "value": given} for process, f, given, _ in calls]
            events += [
                {"process": process, "type": "info" if process == 1 else "ok", "f": f, "value": found}
                for process, f, _, found in calls
            ]
            yield files.of_events(events, model)


#: Model → a function that changes, its value, one that observes, what it may and what it can't see.
_REHEARSED: Mapping[str, tuple[str, Any, str, Any, Any]] = {
    "register": ("write", 1, "read", 1, 2),
    "cas-register": ("write", 1, "read", 1, 2),
    "multi-register": ("txn", [["write", 1, 1]], "txn", [["read", 1, 1]], [["read", 1, 2]]),
    "mutex": ("acquire", None, "release", None, None),
    "fenced-lock": ("acquire", None, "release", None, None),
    "kv": ("append", "a", "get", "a", "b"),
    "set": ("add", 1, "read", [1], [2]),
    "fifo-queue": ("enqueue", 1, "dequeue", 1, 2),
    "unordered-queue": ("enqueue", 1, "dequeue", 1, 2),
    "counter": ("add", 1, "read", 1, 7),
    "replica-info": ("write", [1, ["a"]], "read", [1, ["a"]], [2, []]),
}
