"""How running nodes learn of a node that joins them: from a file, which each reads when it meets an unknown name.

So a node that was paused or down learns it too. Imports only the standard library.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path


def content(addresses: Mapping[str, str]) -> bytes:
    """Return the file that names all nodes that have joined so far. An address is ``HOST:PORT``; "" for one behind the
    proxy."""
    return json.dumps(dict(addresses)).encode()


class MembershipFile:
    """The file as one node reads it; ``path`` "" for none."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._read = (0, 0)  # which file that was: its number, and when it was written

    def changed(self) -> Mapping[str, str]:
        """Return what the file says, if it has changed since it was last read; otherwise nothing."""
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
