"""Limits that the kernel sets to one process: memory and descriptors that it can't get beyond what it has.

Only who a process belongs to, or root, may limit it. ``python -m chaos.machines.rlimits KIND AMOUNT`` limits the
first process of a container, or without an amount takes its limit away, and prints on a line of JSON what is so then.
Imports only the standard library, for it runs where nodes do.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

PROC = Path("/proc")
MEMORY, DESCRIPTORS = "memory", "descriptors"
KINDS = {MEMORY: resource.RLIMIT_AS, DESCRIPTORS: resource.RLIMIT_NOFILE}
MIB = 1024 * 1024


def limit(pid: int, kind: str, amount: int) -> dict[str, object]:
    """Let a process have only ``amount`` MiB of memory more than now, or no descriptor more; return what the kernel
    says of it then. Raises ``OSError``."""
    what = KINDS[kind]
    if kind == MEMORY:
        used = int((PROC / str(pid) / "statm").read_text().split()[0]) * resource.getpagesize()
        _set_soft(pid, what, used + amount * MIB)
        return {"pid": pid, "address_space": used, "limit": soft(pid, kind)}
    taken = _descriptors(pid)
    _set_soft(pid, what, next(number for number in range(len(taken) + 1) if number not in taken))
    return {"pid": pid, "open": len(taken), "limit": soft(pid, kind)}


def starved(pid: int) -> bool:
    """Return whether a process has no descriptor left below its limit. Raises ``OSError``."""
    return {*range(soft(pid, DESCRIPTORS))} <= _descriptors(pid)


def unlimit(pid: int, kind: str) -> None:
    """Set the limit back to what this very process has, which was started in the same way. Raises ``OSError``."""
    _set_soft(pid, KINDS[kind], resource.getrlimit(KINDS[kind])[0])


def soft(pid: int, kind: str) -> int:
    """Return the limit of a process that is in force. Raises ``OSError``."""
    return resource.prlimit(pid, KINDS[kind])[0]


def _descriptors(pid: int) -> set[int]:
    return {int(entry.name) for entry in (PROC / str(pid) / "fd").iterdir()}


def _set_soft(pid: int, what: int, wanted: int) -> None:
    hard = resource.prlimit(pid, what)[1]
    if hard != resource.RLIM_INFINITY:
        wanted = hard if wanted == resource.RLIM_INFINITY else min(wanted, hard)
    resource.prlimit(pid, what, (wanted, hard))


def main() -> None:
    kind, *amount = sys.argv[1:]
    if amount:
        shown = limit(1, kind, int(amount[0]))
    else:
        unlimit(1, kind)
        shown = {"limit": soft(1, kind)}
    print(json.dumps(shown))


if __name__ == "__main__":
    main()
