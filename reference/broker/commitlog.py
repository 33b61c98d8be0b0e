"""The commit log of one replica: segments of records, the epoch history, and the base that the log begins with.

A *position* is a byte of the log. Segments are files named by their first position; they follow one another without a
gap and no record crosses from one into the next. The *base* is the state after all records before the first
position (queue ends, topics, consumer offsets): retention moves it forward, a bootstrap receives one.

Base and epoch history live in one small file, so that they change together. Bytes count as durable only when the
epoch that they belong to is durable too: ``synced`` never passes the start of an epoch that is still being written.

That file also says, lazily, how much the disk is sure to hold (``held``). A log that ends below it has not been torn by
a crash: its disk has lost what it had promised to keep.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from chaos.node import Env
from reference.broker.files import Completions, SmallFile, Then
from reference.broker.records import MAX_BYTES, BadRecord, Record, decode, decode_all, is_sound, size_at
from reference.wire.fields import item, listed

_FOLDER = "log/"
_SCAN_BYTES = 128 * 1024

Epochs = list[tuple[int, int]]


class Damaged(OSError):
    """The disk gives back other bytes than were written: as with one that can't be read, the node must stop."""


@dataclass(slots=True)
class Base:
    """The state after all records before ``position``: next offset by queue index, topics as
    (name, queue count, first index), consumer offsets by group and queue index, locks of queues
    (:meth:`reference.broker.locks.QueueLocks.listed`), the version of its records
    (:mod:`reference.broker.versions`), and which of the topics are deleted: first index, and where
    the deletion stands in the log."""

    position: int = 0
    queues: dict[int, int] = field(default_factory=dict)
    topics: list[tuple[str, int, int]] = field(default_factory=list)
    offsets: dict[str, dict[int, int]] = field(default_factory=dict)
    locks: list[tuple[str, int, str, int]] = field(default_factory=list)
    version: int = 1
    deleted: list[tuple[int, int]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {
            "position": self.position,
            "queues": sorted(self.queues.items()),
            "topics": self.topics,
            "offsets": {group: sorted(table.items()) for group, table in sorted(self.offsets.items())},
            **({"locks": self.locks} if self.locks else {}),
            **({"version": self.version} if self.version > 1 else {}),
            **({"deleted": self.deleted} if self.deleted else {}),
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Base:
        """Read a base. Raises :class:`chaos.node.Malformed`."""
        listed(value, "queues", int, int)
        listed(value, "topics", str, int, int)
        for table in item(value, "offsets", dict).values():
            listed({"offsets": table}, "offsets", int, int)
        locks = listed({"locks": [], **value}, "locks", str, int, str, int)
        deleted = listed({"deleted": [], **value}, "deleted", int, int)
        return Base(
            position=item(value, "position", int),
            queues=dict(value["queues"]),
            topics=[(name, count, first) for name, count, first in value["topics"]],
            offsets={group: dict(table) for group, table in value["offsets"].items()},
            locks=[(group, queue, client, until_ms) for group, queue, client, until_ms in locks],
            version=item(value, "version", int, 1),
            deleted=[(first_index, position) for first_index, position in deleted],
        )


class _Segment:
    __slots__ = ("base", "path", "size")

    def __init__(self, base: int, size: int = 0) -> None:
        self.base = base
        self.size = size
        self.path = f"{_FOLDER}{base:020d}"

    @property
    def end(self) -> int:
        return self.base + self.size


def _segment_number(path: str) -> int:
    return int(path.removeprefix(_FOLDER))


class CommitLog:
    """``end`` is the next position to write; ``synced`` what a crash can't take any more."""

    def __init__(self, completions: Completions, *, segment_bytes: int, on_synced: Then) -> None:
        self._completions = completions
        self._segment_bytes = segment_bytes
        self._on_synced = on_synced
        self._state = SmallFile("state", completions)
        self._segments: list[_Segment] = []
        self._dirty: dict[str, None] = {}
        self._syncing = False
        self._sync_target = 0
        self._synced = 0
        self._unsaved_epoch = -1  # where the first epoch starts that is not durable yet
        self._scan_segment = 0
        self._scan_position = 0
        self.base = Base()
        self.epochs: Epochs = []
        self.bootstrapping = False
        self.confirm = 0  # everything before this position is confirmed; a lower bound after a crash
        self.saved_confirm = 0
        self._held = 0  # as it was last written down
        self._cutting = False  # bytes go that a crash may yet bring back
        self._stateless = False  # there was a log, but nothing says what it held

    # Policy

    def is_sound(self, data: bytes, at: int, end: int) -> bool:
        """Return whether these bytes of the disk are the record that was written there."""
        return is_sound(data, at, end)

    # Bounds

    @property
    def first(self) -> int:
        return self.base.position

    @property
    def end(self) -> int:
        if not self._segments:
            return self.base.position
        last = self._segments[-1]
        return last.base + last.size

    @property
    def synced(self) -> int:
        return self._synced if self._unsaved_epoch < 0 else min(self._synced, self._unsaved_epoch)

    def synced_file(self) -> dict[str, Any]:
        """Return which file ends what is durable, and how many bytes of it are, so that those who know the disk can
        check it."""
        last = next((segment for segment in reversed(self._segments) if segment.base < self.synced), None)
        return {} if last is None else {"file": last.path, "size": min(self.synced, last.end) - last.base}

    @property
    def waits_for_epoch(self) -> bool:
        """Whether bytes are on the disk that don't count as durable yet, since their epoch isn't."""
        return self.synced < self._synced

    @property
    def last_epoch(self) -> int:
        return self.epochs[-1][0] if self.epochs else 0

    def epoch_at(self, position: int) -> int:
        """Return the epoch of the record that begins there."""
        if self.epochs and position >= self.epochs[-1][1]:  # most ask for the newest
            return self.epochs[-1][0]
        at = bisect_right(self.epochs, position, key=lambda entry: entry[1])
        return self.epochs[at - 1][0] if at else 0

    def epoch_end(self, position: int) -> int:
        """Where the epoch that holds ``position`` ends, at most the end of the log."""
        if self.epochs and position >= self.epochs[-1][1]:
            return self.end
        at = bisect_right(self.epochs, position, key=lambda entry: entry[1])
        return self.epochs[at][1] if at < len(self.epochs) else self.end

    # Recovery

    def load(self, env: Env) -> None:
        """Read base, epochs and the list of segments; the records are checked by :meth:`recover`."""
        state = self._state.load(env.disk)
        if state is not None:
            self.base = Base.from_json(state["base"])
            self.epochs = [(epoch, start) for epoch, start in state["epochs"]]
            self.bootstrapping = state["bootstrapping"]
            self.confirm = self.saved_confirm = state["confirm"]
            self._held = state["held"]
        stale = []
        for path in env.disk.list(_FOLDER):
            segment = _Segment(_segment_number(path), env.disk.size(path))
            if segment.base < self.base.position or self.bootstrapping:
                stale.append(path)
            else:
                self._segments.append(segment)
        for path in stale:
            env.disk.remove(path)
            self._dirty[path] = None
        self._stateless = self._state.is_lost or (state is None and bool(self._segments))
        self._scan_position = self.base.position

    @property
    def is_damaged(self) -> bool:
        """Whether the log that was recovered lacks what its disk was sure to hold. A log that crashed in its first
        moments, or right after its end was cut off, may count as damaged too, although nothing promised is missing."""
        return self._stateless or self.end < max(self.confirm, self._held)

    def recover(self, env: Env, visit: Callable[[Record], None]) -> bool:
        """Check the next slice of records and show each to ``visit``; True when the end of the log was found.

        The log ends before the first record that is cut off or damaged, or that doesn't stand where it belongs; what
        follows is removed. :meth:`finish_recovery` makes that durable.
        """
        if self._scan_segment == len(self._segments):
            return True
        segment = self._segments[self._scan_segment]
        if not segment.base <= self._scan_position <= segment.end:  # a hole, or an older file's remains
            self._cut_recovered(env, self._scan_segment)
            return True
        data, at = self._scan_bytes(env, segment), 0
        try:
            while at < len(data):
                size = size_at(data, at)
                if size < 0 or at + size > len(data):
                    break
                record = self.decode(data, at)
                if record.position != self._scan_position:
                    raise BadRecord("the record belongs elsewhere")
                visit(record)
                at += size
                self._scan_position += size
        except BadRecord:
            self._cut_recovered(env, self._scan_segment + 1)
            return True
        if self._scan_position == segment.end:
            self._scan_segment += 1
        elif at == 0:
            self._cut_recovered(env, self._scan_segment + 1)
            return True
        return self._scan_segment == len(self._segments)

    def _scan_bytes(self, env: Env, segment: _Segment) -> bytes:
        """Return a slice that holds at least one whole record, if the segment does."""
        at = self._scan_position - segment.base
        data = env.disk.read(segment.path, at, _SCAN_BYTES)
        try:
            size = size_at(data, 0)
        except BadRecord:
            return data
        return data if size <= len(data) else env.disk.read(segment.path, at, min(size, MAX_BYTES))

    def _cut_recovered(self, env: Env, keep: int) -> None:
        """Keep the first ``keep`` segments, and of the last of them what was checked."""
        for segment in self._segments[keep:]:
            env.disk.remove(segment.path)
            self._dirty[segment.path] = None
        del self._segments[keep:]
        self.cut_files(env, self._scan_position)

    def finish_recovery(self, env: Env, then: Then) -> None:
        """Make what was found (and the cut) durable; ``synced`` is then the end of the log."""
        self._trim_epochs(self.end)

        def finished(env: Env) -> None:
            self._synced = self.end
            then(env)

        paths = list(self._dirty) + [segment.path for segment in self._segments]
        self._dirty.clear()
        self._completions.sync(env, paths, finished)

    # Writing

    def append(self, env: Env, data: bytes) -> int:
        """Write whole records of one epoch at the end; returns their position. Raises ``DiskFull``."""
        position = self.end
        last = self._segments[-1] if self._segments else None
        if last is None or (last.size and last.size + len(data) > self._segment_bytes):
            last = _Segment(position)
            env.disk.write(last.path, 0, data)
            self._segments.append(last)
        else:
            env.disk.write(last.path, last.size, data)
        last.size += len(data)
        self._dirty[last.path] = None
        return position

    def flush(self, env: Env) -> None:
        """Start a sync of all that was written, unless one is running: then another follows it (group commit)."""
        if self._syncing or not self._dirty:
            return
        self._syncing = True
        self._sync_target = self.end
        paths = list(self._dirty)
        self._dirty.clear()
        self._completions.sync(env, paths, self._flushed)

    def _flushed(self, env: Env) -> None:
        self._syncing = False
        self._synced = max(self._synced, self._sync_target)
        self.flush(env)
        self._on_synced(env)

    def begin_epoch(self, env: Env, epoch: int, then: Then) -> None:
        """Start an epoch at the end of the log. Epochs that hold no record leave the history."""
        self._trim_epochs(self.end)
        self.epochs.append((epoch, self.end))
        if self._unsaved_epoch < 0:
            self._unsaved_epoch = self.end
        self._save(env, then)

    def _trim_epochs(self, end: int) -> None:
        while self.epochs and self.epochs[-1][1] >= end:
            self.epochs.pop()

    def _save(self, env: Env, then: Then) -> None:
        last = self.epochs[-1] if self.epochs else None
        self.saved_confirm, self._held = self.confirm, self._sure
        value = {
            "base": self.base.to_json(),
            "epochs": self.epochs,
            "bootstrapping": self.bootstrapping,
            "confirm": self.confirm,
            "held": self._held,
        }

        def saved(env: Env) -> None:
            if last == (self.epochs[-1] if self.epochs else None):
                self._unsaved_epoch = -1
            then(env)

        self._state.save(env, value, saved)

    @property
    def _sure(self) -> int:
        """Up to where the next life must find the log."""
        return max(self.confirm, self.synced)

    def note_bounds(self, env: Env) -> None:
        """Persist the confirm offset and how much the disk is sure to hold, now and then: both may be behind, never
        ahead."""
        if self._cutting:
            return
        if (self.confirm, self._sure) != (self.saved_confirm, self._held):
            self._save(env, lambda env: None)
        else:
            self._state.copy(env)

    # Cutting

    def truncate(self, env: Env, position: int, then: Then) -> None:
        """Drop everything from ``position`` on; ``then`` runs when no crash can bring it back."""
        self._cutting = True
        self.confirm = min(self.confirm, position)
        self._synced = min(self._synced, position)
        self._sync_target = min(self._sync_target, position)
        if position < self.saved_confirm:  # only after an unclean election; a log below it would count as damaged
            self._save(env, lambda env: self.truncate(env, position, then))
            return
        self._trim_epochs(position)
        paths = self.cut_files(env, position)
        self._dirty.clear()

        def cut(env: Env) -> None:
            self._cutting = False
            self._synced = max(self._synced, min(position, self.end))
            self._save(env, then)

        self._completions.sync(env, paths, cut)

    def cut_files(self, env: Env, position: int) -> list[str]:
        """Shorten the files; returns the paths to sync. The log's end is ``position`` from now on."""
        touched = list(self._dirty)
        while self._segments and self._segments[-1].base >= position:
            segment = self._segments.pop()
            env.disk.remove(segment.path)
            touched.append(segment.path)
        if self._segments and self._segments[-1].end > position:
            segment = self._segments[-1]
            segment.size = position - segment.base
            env.disk.truncate(segment.path, segment.size)
            touched.append(segment.path)
        self._dirty.update(dict.fromkeys(touched))
        return list(dict.fromkeys(touched))

    def segment_ends(self) -> list[int]:
        """Return the ends of all segments but the last: where retention may cut."""
        return [segment.end for segment in self._segments[:-1]]

    def advance(self, env: Env, base: Base) -> None:
        """Let the log begin at ``base`` from now on; older files go once the base is durable."""
        self.base = base
        gone = [segment.path for segment in self._segments if segment.end <= base.position]
        self._segments = [segment for segment in self._segments if segment.end > base.position]

        def remove(env: Env) -> None:
            for path in gone:
                env.disk.remove(path)
                self._dirty[path] = None

        self._save(env, remove)

    def restart_at(self, env: Env, base: Base, epochs: Epochs, then: Then) -> None:
        """Throw the whole log away and begin again at ``base``; ``then`` runs when that is durable.

        A crash on the way leaves a log that knows itself to be unfinished (``bootstrapping``) and holds nothing.
        """
        self.bootstrapping = True

        def remove(env: Env) -> None:
            paths = self.cut_files(env, -1)
            self._dirty.clear()
            self._completions.sync(env, paths, begin)

        def begin(env: Env) -> None:
            self.base, self.epochs, self.bootstrapping, self._stateless = base, list(epochs), False, False
            self.confirm = base.position
            self._synced = base.position
            self._sync_target = 0
            self._unsaved_epoch = -1
            self._cutting = False
            self._save(env, then)

        self._synced = 0
        self._sync_target = 0
        self._save(env, remove)

    # Reading

    def read(self, env: Env, position: int, size: int) -> bytes:
        """Read within one segment: at most ``size`` bytes from ``position``, less where the segment ends."""
        segments = self._segments
        at = len(segments) - 1
        if at < 0 or position < segments[at].base:  # most read the newest segment
            at = bisect_right(segments, position, key=lambda segment: segment.base) - 1
        if at < 0:
            return b""
        segment = segments[at]
        return env.disk.read(segment.path, position - segment.base, min(size, segment.end - position))

    def read_record(self, env: Env, position: int, size: int) -> bytes:
        """Return the record of this size. Raises :class:`Damaged`."""
        data = self.read(env, position, size)
        if self._sound_end(data, position) != size:
            raise _damaged(position)
        return data

    def read_records(self, env: Env, position: int, size: int) -> bytes:
        """Whole records from ``position`` on, at most ``size`` bytes but at least one record (if there is one). Raises
        :class:`Damaged`."""
        data = self.read(env, position, size)
        end = self._sound_end(data, position)
        if end or not data:
            return data[:end]
        head = data if len(data) >= 4 else self.read(env, position, 4)
        return self.read_record(env, position, size_at(head, 0))

    def _sound_end(self, data: bytes, position: int) -> int:
        """Where the whole records end that were read from ``position`` on. Raises :class:`Damaged`."""
        at = 0
        try:
            while at < len(data):
                size = size_at(data, at)
                if size < 0 or at + size > len(data):
                    break
                if not self.is_sound(data, at, at + size):
                    raise _damaged(position + at)
                at += size
        except BadRecord as error:
            raise _damaged(position + at) from error
        return at

    def decode(self, data: bytes, at: int = 0) -> Record:
        """Decode the record at ``at`` of what was read. Raises :class:`BadRecord`."""
        return decode(data, at, self.is_sound)

    def decode_all(self, data: bytes) -> list[Record]:
        """Do the same for records that stand back to back."""
        return decode_all(data, self.is_sound)


def _damaged(position: int) -> Damaged:
    return Damaged(f"the disk gives back other bytes at position {position} of the log than were written there")
