"""Room that is kept on the disk for small records: terms, votes, fences, trims. What frees a full disk must be logged
first, so large records are refused while there is still room for these."""

from __future__ import annotations

from chaos.node import Disk, DiskFull

_PATH = "raft/reserve"


class Reserve:
    """A file of zeros, which is given up when nothing else is left, and made again when there is room."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._held = False
        self._is_due = True

    def recover(self, disk: Disk) -> None:
        """Make the file."""
        self._held = self._size > 0 and disk.size(_PATH) >= self._size
        self._make(disk)

    def give_up(self, disk: Disk) -> bool:
        """Make room for records that must be written; False if it was made before."""
        held, self._held = self._held, False
        if held:
            disk.truncate(_PATH, 0)
        return held

    def look_again(self) -> None:
        """Have the next question find out whether the disk has room again. To be called now and then."""
        self._is_due = True

    def is_enough(self, disk: Disk, size: int) -> bool:
        """Return whether a record of this size may be written now, without touching what is kept for small ones."""
        if not self._held and self._is_due:
            self._make(disk)
        return not self._size or (self._held and size <= self._size // 2)

    def _make(self, disk: Disk) -> None:
        self._is_due = False
        if self._size and not self._held:
            try:
                disk.write(_PATH, 0, bytes(self._size))
            except DiskFull:
                return
            self._held = True
