"""The head of a next file, written beside the present one while that goes on to grow."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.node import Disk
from reference.raft.storage.records import Record, path_of, write_records


@dataclass(slots=True, kw_only=True)
class Aside:
    """The snapshot at ``index``, as far as it has been written to file ``file``. ``crc`` is the snapshot's; ``token``
    that of the last piece's sync, None once it has ended."""

    index: int
    term: int
    file: int
    size: int = 0
    checksum: int = 0
    crc: int = 0
    token: int | None = None

    @property
    def path(self) -> str:
        return path_of(self.file)

    def write(self, disk: Disk, record: Record) -> int:
        """Write the next record, and sync it by itself; return the token."""
        self.size, self.checksum = write_records(disk, self.file, self.size, self.checksum, [record])
        self.token = disk.sync([self.path])
        return self.token
