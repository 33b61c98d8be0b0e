"""How much of a Raft log the disk is sure to hold, so that damage can be distinguished from what a crash tears.

A crash tears bytes that were not synced: nothing rests on them, and they are cut off. A disk that loses bytes which
were synced takes votes and entries that others count on; a member that went on without them could vote twice, or lead
without what was committed. So a bound is kept beside the log: the number of a file, and how many of its bytes were
synced. It is kept in the *name* of an empty file, since a name makes a sync of the log no longer.
"""

from __future__ import annotations

from chaos.node import Disk

_PREFIX = "raft/bound."


class DamagedLog(OSError):
    """The disk has lost what was synced; the member must not go on."""


class Bound:
    """The bound on the disk. ``number`` is that of a log's file, 0 while nothing is sure."""

    def __init__(self) -> None:
        self.number = 0
        self.size = 0
        self._path = ""

    def recover(self, disk: Disk) -> None:
        """Read it. A crash may bring older names back, whose bounds are lower."""
        for path in disk.list(_PREFIX):
            number, size = (int(part) for part in path.removeprefix(_PREFIX).split("."))
            if self.is_below(number, size):
                self.number, self.size, self._path = number, size, path

    def is_below(self, number: int, size: int) -> bool:
        return (self.number, self.size) < (number, size)

    def move(self, disk: Disk, number: int, size: int) -> str:
        """Write down a higher bound; return the path to sync. The bytes themselves must be synced already."""
        path = f"{_PREFIX}{number:08d}.{size:012d}"
        if self._path:
            disk.rename(self._path, path)
        else:
            disk.write(path, 0, b"")
        self.number, self.size, self._path = number, size, path
        return path

    def check(self, number: int, size: int) -> None:
        """Raise :class:`DamagedLog` unless a log may begin with the sound bytes of this file; 0 and 0 where there are
        none."""
        if (number, size) < (self.number, self.size):
            raise DamagedLog(
                f"the Raft log is damaged: at least {self.size} bytes of file {self.number} were synced, but the disk"
                f" gives back only {size} sound bytes of file {number}. Votes and committed entries may be lost, so"
                " this controller does not start. Remove it from the group (request 9008), give it an empty disk, and"
                " add it again"
            )
