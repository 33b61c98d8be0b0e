"""Files in memory, for tests that need a node's disk without a simulator around it."""

from __future__ import annotations


class MemoryFiles:
    """All of a disk but its syncs: what a node reads is what it wrote last."""

    def __init__(self) -> None:
        self.files: dict[str, bytearray] = {}

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(path)
        return bytes(self.files[path][offset : None if length is None else offset + length])

    def size(self, path: str) -> int:
        return len(self.files[path]) if path in self.files else -1

    def list(self, prefix: str = "") -> list[str]:
        return sorted(path for path in self.files if path.startswith(prefix))

    def write(self, path: str, offset: int, data: bytes) -> None:
        file = self.files.setdefault(path, bytearray())
        file.extend(bytes(max(0, offset - len(file))))
        file[offset : offset + len(data)] = data

    def truncate(self, path: str, size: int) -> None:
        del self.files[path][size:]

    def rename(self, old: str, new: str) -> None:
        self.files[new] = self.files.pop(old)

    def remove(self, path: str) -> None:
        self.files.pop(path, None)
