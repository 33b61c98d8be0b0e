"""What a run could leave behind on the machine that it ran on, as far as one can look without being the run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

#: Containers of other tests come and go meanwhile, and with them bridges, their devices and their rules, of which those
#: of published ports name nothing but a container's address.
_OF_OTHERS = re.compile(r"docker|DOCKER|br-[0-9a-f]{12}|veth|-j MASQUERADE$")
_COUNTERS = re.compile(r"\[\d+:\d+\]")
#: So many seconds may the wall clock seem to have moved, by being read a moment later.
CLOCK_S = 0.5


def state(mark: str, folder: Path) -> dict[str, object]:
    """Processes and control groups that carry the mark, packet filter rules, queueing disciplines, and the files in a
    folder but for those of runs."""
    return {
        "processes": processes(mark),
        "control groups": control_groups(mark),
        "rules": _told("iptables-save", keep=lambda line: line[:1] in ":-"),
        "disciplines": _told("tc", "qdisc", "show"),
        "files": sorted(str(path) for path in folder.rglob("*") if "runs" not in path.relative_to(folder).parts),
    }


def of_containers(ids: Sequence[str]) -> dict[str, list[str]]:
    """What the kernel of this machine has for containers and networks of Docker's engine with these ids."""
    groups = {group for one in ids for group in control_groups(one)}
    bridges = [f"br-{one[:12]}" for one in ids]
    rules, disciplines = _lines("iptables-save"), _lines("tc", "qdisc", "show")
    return {
        "control groups": sorted(groups),
        "rules": [line for line in rules if any(bridge in line for bridge in bridges)],
        "disciplines": [line for line in disciplines if any(bridge in line for bridge in bridges)],
    }


def processes(mark: str) -> list[str]:
    """Those in whose command line, environment or working directory the mark stands, but for this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z":
                continue
            words = (entry / "cmdline").read_bytes() + b"\0" + (entry / "environ").read_bytes()
            words += os.readlink(entry / "cwd").encode()
        except OSError:
            continue
        if mark.encode() in words:
            found.append(f"{entry.name} {words[:200]!r}")
    return sorted(found)


def control_groups(mark: str) -> list[str]:
    """Those in whose name the mark stands. Others come and go while one looks, which ``Path.rglob`` does not bear."""
    folders = (Path(folder, name) for folder, names, _ in os.walk("/sys/fs/cgroup") for name in names)
    return sorted(str(folder) for folder in folders if mark in folder.name)


def wall_clock_s() -> float:
    """How far the wall clock is ahead of the one that nobody can set."""
    return time.time() - time.monotonic()


def _told(*command: str, keep: Callable[[str], bool] = bool) -> list[str]:
    """What a command says of this machine, containers and counters left out."""
    lines = (_COUNTERS.sub("", line) for line in _lines(*command) if keep(line))
    return sorted(line for line in lines if not _OF_OTHERS.search(line))


def _lines(*command: str) -> list[str]:
    """The lines of a command that may not be there, or not be allowed."""
    if shutil.which(command[0]) is None:
        return []
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
