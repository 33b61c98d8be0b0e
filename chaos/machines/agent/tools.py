"""The system's tools that rule networks (``ip``, ``tc``, ``iptables``), which are not on everybody's path."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence

#: How long one may take.
TOOL_S = 20.0
_PATH = "/usr/local/sbin:/usr/sbin:/sbin"


def where_is(tool: str) -> str | None:
    return shutil.which(tool, path=_path())


def run(
    command: Sequence[str],
    given: str,
    environment: Mapping[str, str] | None = None,
    descriptors: Sequence[int] = (),
) -> tuple[int, str]:
    """Run one with this on its standard input, and these variables and descriptors besides ours: its exit code and
    output, both streams in one."""
    try:
        done = subprocess.run(
            list(command),
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TOOL_S,
            env={**os.environ, **(environment or {}), "PATH": _path(), "LC_ALL": "C"},
            pass_fds=tuple(descriptors),
            check=False,
        )
    except FileNotFoundError:
        return 127, f"{command[0]}: not found"
    return done.returncode, done.stdout.strip()


def _path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:{_PATH}"
