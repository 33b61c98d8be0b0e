"""The files of sealed segments on a store's disk: which of them are durable and whole.

A file counts as held once its bytes are synced: also one that a start has found, which may never have been, and whose
hash is checked first. Until then the bytes are found again in the group's log, or at another store, or in the object
store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from chaos import events
from chaos.node import Disk, DiskFull, Env
from reference.split.segments import FILES, OBJECTS, Segment, digest_of

#: Where the bytes of a file came from, and why one is deleted (:class:`chaos.events.SegmentHeld`).
MADE, TIER, REPLICA, RECOVERED = "made", "tier", "replica", "recovered"
TRIMMED, UPLOADED, REMOVED, DAMAGED, UNKNOWN = "trimmed", "uploaded", "removed", "damaged", "unknown"
#: So many bytes of files are checked in one step after a start.
CHECK_BYTES = 4 << 20


class SegmentFiles:
    """The files of all groups of a store. ``held``: sizes of those that are durable and whole."""

    def __init__(self) -> None:
        self.held: dict[Segment, int] = {}
        self._writing: dict[Segment, int] = {}  # not durable yet → size
        self._syncs: dict[tuple[int, int], list[tuple[Segment, str]]] = {}  # by group and token
        self._unwritten: dict[Segment, tuple[bytes, str]] = {}  # the disk had no room for them
        self._unchecked: list[str] = []  # paths that a start has found
        self._disk: Disk | None = None

    # After a start

    @property
    def is_checked(self) -> bool:
        """Whether all that a start has found was hashed."""
        return not self._unchecked

    def begin(self, env: Env) -> None:
        """Find the files of earlier incarnations; :meth:`go_on` checks them."""
        self._disk = env.disk
        self._unchecked = env.disk.list(FILES)

    def go_on(self, env: Env, env_of: Callable[[int], Env]) -> None:
        """Check some of the files that were found: a damaged one is deleted, a whole one is held once it is synced.
        ``env_of`` returns the environment of a group."""
        checked = 0
        whole: dict[int, list[Segment]] = {}
        while self._unchecked and checked < CHECK_BYTES:
            path = self._unchecked.pop()
            segment = Segment.of_key(OBJECTS + path.removeprefix(FILES))
            if segment is None or segment in self.held or segment in self._writing:
                continue
            data = env.disk.read(path)
            checked += len(data)
            if self.is_whole(segment, data):
                self._writing[segment] = len(data)
                whole.setdefault(segment.group, []).append(segment)
            else:
                self._remove(env, segment, DAMAGED)
        for group, segments in whole.items():
            self._sync(env_of(group), group, segments, RECOVERED)

    def is_whole(self, segment: Segment, data: bytes) -> bool:
        """Policy: only bytes with the segment's hash are the segment."""
        return digest_of(data) == segment.digest

    def close(self) -> None:
        """Give no more bytes: the disk is another one now."""
        self._disk = None

    # Files come

    def write(self, env: Env, group: int, files: Iterable[tuple[Segment, bytes]], source: str) -> int | None:
        """Write files of a group that are not there yet; ``env`` is the group's. Return the token of their sync; None
        if there is nothing to wait for. Those for which the disk has no room are written by a later :meth:`retry`."""
        written, due = [], None
        for segment, data in files:
            if segment in self._writing:
                due = max(token for of, token in self._syncs if of == group)
            elif segment not in self.held and self._write(env, segment, data, source):
                written.append(segment)
        return self._sync(env, group, written, source) if written else due

    def _sync(self, env: Env, group: int, segments: Sequence[Segment], source: str) -> int:
        token = env.disk.sync([segment.path for segment in segments])
        self._syncs.setdefault((group, token), []).extend((segment, source) for segment in segments)
        return token

    def _write(self, env: Env, segment: Segment, data: bytes, source: str) -> bool:
        try:
            env.disk.write(segment.path, 0, data)
        except DiskFull:
            env.disk.remove(segment.path)
            self._unwritten[segment] = data, source
            return False
        self._writing[segment] = len(data)
        return True

    def retry(self, env: Env, group: int) -> None:
        """Write what the disk had no room for."""
        for segment in [one for one in self._unwritten if one.group == group]:
            data, source = self._unwritten.pop(segment)
            self.write(env, group, [(segment, data)], source)

    def give_up_unwritten(self, segments: Iterable[Segment]) -> bool:
        """Forget those of these for which the disk had no room; return whether there were any."""
        given_up = [one for one in segments if self._unwritten.pop(one, None) is not None]
        return bool(given_up)

    def done(self, env: Env, group: int, token: int) -> None:
        """Take the end of a sync of a group's."""
        for segment, source in self._syncs.pop((group, token), ()):
            self._hold(env, segment, self._writing.pop(segment), source)

    def _hold(self, env: Env, segment: Segment, size: int, source: str) -> None:
        self.held[segment] = size
        env.trace(events.SegmentHeld(**segment.traced(), source=source))

    def is_pending(self, segment: Segment) -> bool:
        """Return whether a file is written or waits for room, but isn't durable."""
        return segment in self._writing or segment in self._unwritten

    # Files are read

    def read(self, segment: Segment) -> bytes | None:
        """Return the bytes of a segment; None where they are not here."""
        if segment in self._unwritten:
            return self._unwritten[segment][0]
        if self._disk is None or (segment not in self.held and segment not in self._writing):
            return None
        return self._disk.read(segment.path)

    def read_whole(self, env: Env, segment: Segment) -> bytes | None:
        """Return the bytes of a segment after their hash has been checked; a damaged file is deleted."""
        data = self.read(segment)
        if data is not None and not self.is_whole(segment, data):
            self.drop(env, segment, DAMAGED)
            return None
        return data

    # Files go

    def drop(self, env: Env, segment: Segment, why: str) -> None:
        """Delete a file, if it is here."""
        self._unwritten.pop(segment, None)
        if self._writing.pop(segment, None) is not None:  # if it comes again, this sync is none of its
            for written in self._syncs.values():
                written[:] = [one for one in written if one[0] != segment]
        elif self.held.pop(segment, None) is None:
            return
        self._remove(env, segment, why)

    def _remove(self, env: Env, segment: Segment, why: str) -> None:
        env.trace(events.SegmentDropped(**segment.traced(), why=why))
        env.disk.remove(segment.path)
        env.disk.sync([segment.path])

    def drop_strays(self, env: Env, is_stray: Callable[[Segment], bool], why: str = UNKNOWN) -> None:
        """Delete files that no group refers to any more, also those that are not durable yet."""
        for segment in [one for one in (*self.held, *self._writing, *self._unwritten) if is_stray(one)]:
            self.drop(env, segment, why)
