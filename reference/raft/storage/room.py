"""Room that is kept at the end of the file for small records: terms, votes, fences, trims. What frees a full disk must
be logged first, so large records are refused while there is still room for these.

The file is filled with zeros ahead of what is written. Zeros make no sound record, so that a recovery cuts them off.
"""

from __future__ import annotations

from chaos.node import Disk, DiskFull

#: The file grows by so much at a time, besides what is written and kept.
STEP_BYTES = 256 * 1024


class Room:
    """How far the present file reaches. ``kept_bytes``: so much is kept behind its last record, 0 for none."""

    def __init__(self, kept_bytes: int) -> None:
        self._kept = kept_bytes
        self._end = 0

    def begin(self, end: int) -> None:
        """Go on with a file of this size."""
        self._end = end

    def write(self, disk: Disk, path: str, at: int, data: bytes) -> None:
        """Write at the end of what was written, and fill the file further. On a full disk what was kept is used up."""
        end = at + len(data)
        if self._kept and end + self._kept > self._end:
            try:
                disk.write(path, at, data + bytes(self._kept + STEP_BYTES))
            except DiskFull:
                pass
            else:
                self._end = end + self._kept + STEP_BYTES
                return
        disk.write(path, at, data)
        self._end = max(self._end, end)

    def is_enough(self, disk: Disk, path: str, end: int) -> bool:
        """Return whether records may be written up to ``end`` without touching what is kept for small ones."""
        lacking = end + self._kept - self._end
        if self._kept and lacking > 0:
            try:
                disk.write(path, self._end, bytes(lacking))
            except DiskFull:
                return False
            self._end += lacking
        return True
