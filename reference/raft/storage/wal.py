"""The write-ahead file: numbered logs of Raft in one file that only grows, and one sync for all of them.

A file begins with the whole live state of each log and a seal; what happens later is appended, so nothing is ever
overwritten in place. Each record's checksum covers the one before it, whosever it is: a record of an earlier life that
happens to follow a repaired tail is never taken for a part of it. The next file repeats what lives; the old one is
removed once the new one is durable. Recovery takes the newest file whose seal is there and cuts what is torn behind it,
unless less is left than was surely synced (:mod:`~reference.raft.bound`).

A member that has the file to itself begins the next one with each snapshot (:meth:`Wal.next_file`). A file that many
share gets snapshots as records, and is rewritten (:mod:`~reference.raft.storage.rewriting`) once most of it is garbage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from chaos.node import Disk, DiskFull, Env
from reference.raft.bound import Bound, DamagedLog
from reference.raft.storage.records import (
    PREFIX,
    SEAL,
    SNAPSHOT,
    Log,
    Record,
    frames,
    number_of,
    path_of,
    sound_records,
)
from reference.raft.storage.rewriting import Rewriting
from reference.raft.storage.room import Room

#: A shared file below this is not rewritten, if nothing else is said.
REWRITE_BYTES = 4 << 20


@dataclass(slots=True)
class _Sync:
    """What a sync that is under way makes durable, and the files that it makes superfluous."""

    file: int = 0
    size: int = 0
    logs: dict[int, Log] = field(default_factory=dict)
    superfluous: list[str] = field(default_factory=list)


class Wal:
    """The file. ``open_log`` makes the logs that a recovery finds, where many share it: it is rewritten once it has
    ``rewrite_bytes`` and half of it is garbage, and ``kept_bytes`` are kept for small records on a full disk."""

    rewriting_class: type[Rewriting] = Rewriting

    def __init__(
        self, open_log: Callable[[int], Log] | None = None, rewrite_bytes: int = REWRITE_BYTES, kept_bytes: int = 0
    ) -> None:
        self.logs: dict[int, Log] = {}
        self.is_dirty = False
        self.room = Room(kept_bytes)
        self.bound = Bound()
        self.file = self.size = self.checksum = 0
        self.newest = 0  # the highest number that a file was ever seen to have
        self.obsolete: list[str] = []
        self._open_log = open_log
        self._removed: list[str] = []  # files that a crash would bring back, before the next sync
        self._touched: dict[int, Log] = {}
        self._syncs: dict[int, _Sync] = {}
        self._sure = (0, 0)  # file and size that are durable
        self._bound_is_due = True
        self._rewriting: Rewriting | None = None
        self._rewrite_bytes = rewrite_bytes
        self._look_at = rewrite_bytes  # the size at which to look whether the file is mostly garbage

    @property
    def is_shared(self) -> bool:
        return self._open_log is not None

    @property
    def syncing(self) -> bool:
        return bool(self._syncs)

    @property
    def tip(self) -> tuple[str, int]:
        """The file that is written, and its size."""
        return path_of(self.file), self.size

    def is_touched(self, log: Log) -> bool:
        """Return whether a log has records that no sync covers yet."""
        return log.number in self._touched

    def count_files(self, disk: Disk) -> int:
        """How many files there are: the present one, one that is written beside it, and those not removed yet."""
        return len(disk.list(PREFIX))

    # Writing

    def append(self, disk: Disk, log: Log, kind: int, payload: bytes) -> None:
        """Write a record, which is durable with the next sync."""
        self._touched[log.number] = log
        self.write(disk, [(log.number, kind, payload)])
        rewriting = self._rewriting
        if rewriting is not None:
            self._try_to_rewrite(rewriting, lambda: rewriting.repeat(disk, (log.number, kind, payload)))
        elif self.is_shared and self.size >= self._look_at:
            self._rewrite_if_due(disk)

    def write(self, disk: Disk, records: Iterable[Record]) -> None:
        """Write records at the end of the present file."""
        data, self.checksum = frames(records, self.checksum)
        self.room.write(disk, path_of(self.file), self.size, data)
        self.size += len(data)
        self.is_dirty = True

    def next_file(self, disk: Disk, head: tuple[int, int, int] | None = None) -> None:
        """Begin the next file with all that lives. ``head``: number, size and checksum of one whose beginning stands
        on the disk already."""
        if self.file:
            self.obsolete.append(path_of(self.file))
        if head is None:
            self.newest += 1
            head = self.newest, 0, 0
        self.file, self.size, self.checksum = head
        self.room.begin(self.size)
        records: list[Record] = []
        for log in self.logs.values():
            self.move(log)
            written = SNAPSHOT if self.size else 0
            records += [(log.number, kind, payload) for kind, payload in log.live() if kind != written]
        self.write(disk, [*records, (0, SEAL, b"")])

    def move(self, log: Log) -> None:
        """Have the next sync cover all of a log, and nothing before it."""
        log.moved()
        self._touched[log.number] = log

    def _rewrite_if_due(self, disk: Disk) -> None:
        """Begin to rewrite a file of which at least half is garbage."""
        self._look_at = max(self._rewrite_bytes, 2 * sum(log.live_bytes() for log in self.logs.values()))
        if self.size >= self._look_at:
            self.newest += 1
            rewriting = self._rewriting = self.rewriting_class(self.newest, self.logs)
            self._try_to_rewrite(rewriting, lambda: rewriting.go_on(disk))

    def _go_on_rewriting(self, disk: Disk, rewriting: Rewriting) -> None:
        """Write more of the next file; once all that lives stands in it, let it take the place of this one."""
        if not rewriting.is_complete:
            self._try_to_rewrite(rewriting, lambda: rewriting.go_on(disk))
            return
        self._try_to_rewrite(rewriting, lambda: rewriting.seal(disk))
        if self._rewriting is None:
            return
        self._rewriting = None
        self.obsolete.append(path_of(self.file))
        self.file, self.size, self.checksum = rewriting.file, rewriting.size, rewriting.checksum
        self.room.begin(self.size)
        self.is_dirty = True
        for log in self.logs.values():
            self.move(log)

    def _try_to_rewrite(self, rewriting: Rewriting, step: Callable[[], None]) -> None:
        """Take a step, or give it up where the disk has no room for two files."""
        try:
            step()
        except DiskFull:
            self._rewriting = None
            self._look_at = self.size + self._rewrite_bytes
            self.obsolete.append(path_of(rewriting.file))

    # Syncs

    def sync(self, disk: Disk) -> int | None:
        """Make everything so far durable. Return the token of the sync that this began; None if there was nothing."""
        if not self.is_dirty:
            return None
        self.is_dirty = False
        token = disk.sync([path_of(self.file), *self._move_bound(disk), *self._removed])
        self._removed = []
        sync = self._syncs.setdefault(token, _Sync())
        sync.file, sync.size = self.file, self.size
        sync.superfluous += self.obsolete
        self.obsolete = []
        for number, log in self._touched.items():
            sync.logs[number] = log
            log.sync_began(token)
        self._touched = {}
        return token

    def done(self, env: Env, token: int) -> Sequence[int] | None:
        """Take note that a sync has ended. Return the logs of which more is durable now; None for a sync that is none
        of ours."""
        sync = self._syncs.pop(token, None)
        if sync is None:
            return [] if self._rewriting is not None and self._rewriting.token == token else None
        self._sure = sync.file, sync.size
        self.remove(env, sync.superfluous)
        for log in sync.logs.values():
            log.sync_ended(token)
        return list(sync.logs)

    def go_on(self, disk: Disk, token: int) -> None:
        """Write more of the next file, if this sync was that of its last step. To be called once everybody knows what
        is durable: when the next file takes the place of this one, nothing of it is."""
        rewriting = self._rewriting
        if rewriting is not None and rewriting.token == token:
            self._go_on_rewriting(disk, rewriting)

    def remove(self, env: Env, paths: Iterable[str]) -> None:
        """Remove files that newer ones have replaced."""
        for path in paths:
            env.disk.remove(path)
            if self.is_shared:  # its next file comes after a long time, and with it the next look at old ones
                self._removed.append(path)

    def note_bound(self) -> None:
        """Have the next sync write down how much the disk is sure to hold. To be called now and then: each such name
        costs a sync of the directory."""
        self._bound_is_due = True

    def _move_bound(self, disk: Disk) -> list[str]:
        """Return what to sync besides: a bound that has become higher."""
        number, size = self._sure
        if number <= self.bound.number and not (self._bound_is_due and self.bound.is_below(number, size)):
            return []
        self._bound_is_due = False
        return [self.bound.move(disk, number, size)]

    def has_room(self, disk: Disk, size: int) -> bool:
        """Return whether the disk has room for a record of this size besides what is kept for small ones."""
        return self.room.is_enough(disk, path_of(self.file), self.size + size)

    # Recovery

    def recover(self, disk: Disk) -> None:
        """Load what the disk holds and repair its end. What was recovered counts as durable after the next sync.
        Raises :class:`~reference.raft.bound.DamagedLog`."""
        self.bound.recover(disk)
        paths = disk.list(PREFIX)
        self.newest = max((number_of(path) for path in paths), default=0)
        for path in reversed(paths):
            self.size = self.load(disk.read(path))
            if self.size:
                self.file = number_of(path)
                self.bound.check(self.file, self.size)
                disk.truncate(path, self.size)
                self.room.begin(self.size)
                self.obsolete = [other for other in paths if other != path]
                self.is_dirty = True
                self._touched = dict(self.logs)
                return
        self.bound.check(0, 0)
        self.load(b"")
        self.obsolete = paths
        self.next_file(disk)

    def load(self, data: bytes) -> int:
        """Take over the records of one file; returns the size of its sound part, 0 if its head isn't whole. A sound
        record that doesn't fit is damage, and never a reason to cut what others wrote behind it."""
        for log in self.logs.values():
            log.clear()
        self.checksum = position = sealed = 0
        for (number, kind, payload), end, checksum in sound_records(data):
            its = self._log(number) if kind != SEAL else None
            if kind != SEAL and (its is None or not its.take(kind, payload)):
                raise DamagedLog(f"the record of log {number} at byte {position} does not continue that log")
            self.checksum, position = checksum, end
            sealed |= kind == SEAL
        return position if sealed else 0

    def _log(self, number: int) -> Log | None:
        if number not in self.logs and self._open_log is not None:
            return self._open_log(number)
        return self.logs.get(number)
