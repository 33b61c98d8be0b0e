"""On what a run took place: the machine, its Java and the commit of Stormproof, as ``run.json`` says it."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
from functools import cache
from pathlib import Path
from shutil import which

from chaos.errors import MachineError

#: So many files a program of a cluster, or what hosts it, must be able to open: with less its nodes refuse connections,
#: which would look as if the system under test did.
FEWEST_FILES = 256
#: Seconds that git may take to name the commit.
PATIENCE_S = 5.0


def refuse_few_files(deployment: str) -> None:
    """Raise :class:`MachineError` where programs are to be started that could open too few files."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if deployment != "sim" and limit != resource.RLIM_INFINITY and limit < FEWEST_FILES:
        raise MachineError(
            f"--on {deployment}: programs must be able to open {FEWEST_FILES} files each,"
            f" and here they can open {limit}; raise the limit, for example with `ulimit -n 4096`"
        )


@cache
def machine() -> dict[str, object]:
    """Return ``os``, ``cpu`` (its architecture) and ``cores``; ``java`` where the one that would judge names its
    version, and ``commit`` where Stormproof runs from a checkout (with a + where files differ from it)."""
    known = {"os": platform.platform(), "cpu": platform.machine(), "cores": len(os.sched_getaffinity(0))}
    return {**known, **{name: found for name, found in (("java", _java()), ("commit", _commit())) if found}}


def _java() -> str:
    """Return the version from the ``release`` file beside the program: nothing is started."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(which("java") or "/nonexistent")
    try:
        lines = (java.resolve().parent.parent / "release").read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return ""
    properties = dict(line.split("=", 1) for line in lines if "=" in line)
    return properties.get("JAVA_VERSION", "").strip('"')


def _commit() -> str:
    root = Path(__file__).parent.parent
    if not (root / ".git").exists():
        return ""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty=+", "--exclude=*", "--abbrev=10"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
