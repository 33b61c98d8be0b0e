"""The next file of logs that share one, written beside the present one while that goes on to grow.

Each step copies the whole live state of one log or of several. From then on whatever these logs write goes into both
files, so that the next one is complete once the last log is copied. Only its seal makes it count: a crash before that
leaves the present file, which has everything. So an idle log never holds up the removal of a file, and no step writes
more than one log's state beyond a fixed size.
"""

from __future__ import annotations

from collections.abc import Mapping

from chaos.node import Disk
from reference.raft.storage.records import SEAL, Log, Record, path_of, write_records

STEP_BYTES = 256 * 1024


class Rewriting:
    """The next file, ``file`` by its number, as far as it is written. ``token``: the sync of the last step."""

    def __init__(self, file: int, logs: Mapping[int, Log]) -> None:
        self.file = file
        self.size = self.checksum = 0
        self.token: int | None = None
        self._left = dict(logs)

    @property
    def is_complete(self) -> bool:
        return not self._left

    def go_on(self, disk: Disk) -> None:
        """Copy some more logs, and sync them by themselves."""
        end = self.size + STEP_BYTES
        while self._left and self.size < end:
            number = next(iter(self._left))
            self.copy(disk, self._left.pop(number))
        self.token = disk.sync([path_of(self.file)])

    def copy(self, disk: Disk, log: Log) -> None:
        """Write the whole live state of a log, behind nothing that it has written later."""
        self.write(disk, [(log.number, kind, payload) for kind, payload in log.live()])

    def repeat(self, disk: Disk, record: Record) -> None:
        """Write a record of a log that is copied already, or that is newer than this file."""
        if record[0] not in self._left:
            self.write(disk, [record])

    def seal(self, disk: Disk) -> None:
        """Have this file count from now on."""
        self.write(disk, [(0, SEAL, b"")])

    def write(self, disk: Disk, records: list[Record]) -> None:
        """Write records at the end of this file."""
        self.size, self.checksum = write_records(disk, self.file, self.size, self.checksum, records)
