"""A node's disk that is a folder, for those who harm it (:mod:`chaos.effects.corruption`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path


class RealFiles:
    """Implements :class:`chaos.effects.corruption.Files`. New files belong to whom the folder belongs to."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self) -> Sequence[str]:
        if not self._root.is_dir():
            return []
        return sorted(path.relative_to(self._root).as_posix() for path in self._root.rglob("*") if path.is_file())

    def read(self, name: str) -> bytes:
        """Empty for a file that has gone meanwhile."""
        try:
            return (self._root / name).read_bytes()
        except FileNotFoundError:
            return b""

    def put(self, name: str, content: bytes) -> None:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        owner = self._root.stat()
        while path != self._root:
            os.chown(path, owner.st_uid, owner.st_gid)
            path = path.parent

    def remove(self, name: str) -> None:
        (self._root / name).unlink()
