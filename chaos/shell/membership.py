"""How running nodes learn of a node that joins them: from a file, which each reads when it meets an unknown name.

So a node that was paused or down learns it too. Imports only the standard library.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

#: How the file is called, wherever a deployment keeps it.
FILE = "membership.json"


def write(path: Path, addresses: Mapping[str, str]) -> None:
    """Name all nodes that have joined so far, in one step. An address is ``HOST:PORT``; "" for one behind the proxy."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(dict(addresses)), "utf-8")
    part.chmod(0o644)
    part.replace(path)


class MembershipFile:
    """The file as one node reads it; ``path`` "" for none."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._read = (0, 0)  # which file that was: its number, and when it was written

    def changed(self) -> Mapping[str, str]:
        """What the file says, if it has changed since it was last read; otherwise nothing."""
        if not self._path:
            return {}
        try:
            found = os.stat(self._path)
            if (found.st_ino, found.st_mtime_ns) == self._read:
                return {}
            addresses: dict[str, str] = json.loads(Path(self._path).read_text("utf-8"))
        except FileNotFoundError:
            return {}
        self._read = found.st_ino, found.st_mtime_ns
        return addresses
