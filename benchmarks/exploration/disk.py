"""A disk as a value: what is written, and what of it a crash leaves."""

from __future__ import annotations

from collections.abc import Iterable


class ModelDisk:
    """A sync makes all durable that was written before it; a crash takes the rest, or a part of it. ``number``: which
    disk of its node it is; a node that loses its disk gets the next one."""

    def __init__(self) -> None:
        self.number = 1
        self.files: dict[str, bytes] = {}
        self.durable: dict[str, bytes] = {}
        self.syncs: dict[int, dict[str, bytes]] = {}
        self._token = 0

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        return self.files[path][offset : None if length is None else offset + length]

    def size(self, path: str) -> int:
        return len(self.files[path]) if path in self.files else -1

    def list(self, prefix: str = "") -> list[str]:
        return sorted(path for path in self.files if path.startswith(prefix))

    def write(self, path: str, offset: int, data: bytes) -> None:
        before = self.files.get(path, b"")
        self.files[path] = before[:offset].ljust(offset, b"\0") + data + before[offset + len(data) :]

    def truncate(self, path: str, size: int) -> None:
        self.files[path] = self.files[path][:size]

    def rename(self, old: str, new: str) -> None:
        self.files[new] = self.files.pop(old)

    def remove(self, path: str) -> None:
        self.files.pop(path, None)

    def sync(self, paths: Iterable[str]) -> int:
        self._token += 1
        self.syncs[self._token] = dict(self.files)
        return self._token

    def finish(self) -> int:
        """End the oldest sync; return its token."""
        token = next(iter(self.syncs))
        self.durable = self.syncs.pop(token)
        return token

    def crash(self, *, keeps: str | None) -> None:
        """Begin again with what was synced, and with the other files whose names begin so; None: with no others."""
        self.syncs.clear()
        if keeps is not None:
            others = {path: data for path, data in self.durable.items() if not path.startswith(keeps)}
            self.durable = others | {path: data for path, data in self.files.items() if path.startswith(keeps)}
        self.files = dict(self.durable)

    def wipe(self) -> None:
        """Begin again with an empty disk."""
        self.syncs.clear()
        self.files, self.durable = {}, {}
        self.number += 1
