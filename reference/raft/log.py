"""The durable half of a Raft node: term, vote, snapshot and entries, in one file that only grows.

A file begins with a snapshot (one record, or one and more pieces), the term and the vote, the entries behind the
snapshot and a seal; what happens later is appended. An entry whose index stands there already replaces it and all
behind it, so nothing is ever overwritten in place. Each record's checksum covers the one before it: a record of an
earlier life that happens to follow a repaired tail is never taken for a part of it. Compaction and an installed
snapshot write the next file; the old one is removed once the new one is durable. Recovery takes the newest file whose
seal is there and cuts what is torn behind it, unless less is left than was surely synced
(:mod:`~reference.raft.bound`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from zlib import crc32

from chaos.node import Disk, Env, Malformed
from reference.raft.bound import Bound

_HEAD = struct.Struct(">IIB")  # size of the payload, checksum, kind
_PLACE = struct.Struct(">QQ")  # index, term
_TERM = struct.Struct(">Q")
_WIRE = struct.Struct(">QI")  # term, size of the data
_PREFIX = "raft/log."
#: A snapshot above this is a large one.
LARGE_BYTES = 65_536
_SNAPSHOT, _STATE, _ENTRY, _SEAL, _PIECE = 1, 2, 3, 4, 5


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the log; empty ``data`` is the no-op with which a leader begins its term."""

    term: int
    data: bytes


@dataclass(slots=True, kw_only=True)
class _Aside:
    """The head of a next file, as far as it has been written: the snapshot at ``index``. ``crc`` is the snapshot's."""

    index: int
    term: int
    number: int
    size: int = 0
    checksum: int = 0
    crc: int = 0
    token: int | None = None


class RaftLog:
    """Term, vote and log. Changes are visible at once and durable when the token of :meth:`sync` is done."""

    def __init__(self) -> None:
        self.term = 0
        self.vote = ""
        self.snapshot_index = 0
        self.snapshot_term = 0
        self.snapshot = b""
        self._entries: list[Entry] = []
        self._number = 0
        self._size = 0
        self._checksum = 0
        self._dirty = False
        self._running: dict[int, int] = {}  # sync token → last index that it makes durable
        self._covered: dict[int, tuple[int, int]] = {}  # sync token → file and size that it makes durable
        self._sure = (0, 0)  # file and size that are durable
        self._bound = Bound()
        self._bound_is_due = True
        self._last_token: int | None = None
        self._durable = 0
        self._newest = 0  # the highest number that a file was ever seen to have
        self._obsolete: list[str] = []
        self._aside: _Aside | None = None
        self._aside_syncs: dict[int, _Aside] = {}  # sync token → what it makes durable
        self._removals: dict[int, list[str]] = {}  # sync token → files that it makes superfluous

    # Reading

    @property
    def first(self) -> int:
        """Index of the first entry behind the snapshot."""
        return self.snapshot_index + 1

    @property
    def last(self) -> int:
        return self.snapshot_index + len(self._entries)

    @property
    def last_term(self) -> int:
        return self._entries[-1].term if self._entries else self.snapshot_term

    @property
    def is_mostly_snapshot(self) -> bool:
        """Whether a large snapshot takes two thirds of the file and more."""
        return len(self.snapshot) > LARGE_BYTES and 2 * self._size < 3 * len(self.snapshot)

    @property
    def durable(self) -> int:
        """Every entry up to this index is on the disk."""
        return self._durable

    @property
    def tip(self) -> tuple[str, int]:
        """The file that is written, and its size."""
        return _path(self._number), self._size

    @property
    def syncing(self) -> bool:
        return bool(self._running)

    def entry(self, index: int) -> Entry:
        return self._entries[index - self.first]

    def term_at(self, index: int) -> int:
        """Term of the entry at ``index``; -1 when it is beyond the end or within the snapshot."""
        if index == self.snapshot_index:
            return self.snapshot_term
        if not self.first <= index <= self.last:
            return -1
        return self._entries[index - self.first].term

    def count_files(self, disk: Disk) -> int:
        """How many files of it there are: the present one, one that is written aside, and those not removed yet."""
        return len(disk.list(_PREFIX))

    def slice(self, start: int, *, max_bytes: int, max_count: int) -> Sequence[Entry]:
        """Entries from ``start`` on, at least one if there is any."""
        taken: list[Entry] = []
        size = 0
        for entry in self._entries[start - self.first : start - self.first + max_count]:
            size += len(entry.data)
            if taken and size > max_bytes:
                break
            taken.append(entry)
        return taken

    # Writing

    def set_term(self, disk: Disk, term: int, vote: str) -> None:
        self.term, self.vote = term, vote
        self._append(disk, _STATE, _state(term, vote))

    def put(self, disk: Disk, index: int, entry: Entry) -> None:
        """Store an entry at ``index``, at most one behind the end; all that stood from there on is gone."""
        assert self.first <= index <= self.last + 1, (index, self.first, self.last)
        del self._entries[index - self.first :]
        self._durable = min(self._durable, index - 1)
        for token, end in self._running.items():
            self._running[token] = min(end, index - 1)
        self._entries.append(entry)
        self._append(disk, _ENTRY, _PLACE.pack(index, entry.term) + entry.data)

    def compact(self, disk: Disk, index: int, snapshot: bytes) -> None:
        """Replace all entries up to ``index`` by the state machine's snapshot of that moment."""
        term = self.term_at(index)
        assert term >= 0
        del self._entries[: index - self.snapshot_index]
        self.snapshot_index, self.snapshot_term, self.snapshot = index, term, snapshot
        self._next_file(disk)

    def install(self, disk: Disk, index: int, term: int, snapshot: bytes) -> None:
        """Begin at a leader's snapshot; entries behind it stay if they continue it."""
        if self.term_at(index) == term:
            del self._entries[: index - self.snapshot_index]
        else:
            self._entries.clear()
        self.snapshot_index, self.snapshot_term, self.snapshot = index, term, snapshot
        self._next_file(disk)

    def sync(self, disk: Disk) -> int | None:
        """Make everything so far durable. Returns the token to wait for, None when it is durable already."""
        if self._dirty:
            self._dirty = False
            self._last_token = disk.sync([_path(self._number), *self._move_bound(disk)])
            self._running[self._last_token] = self.last
            self._covered[self._last_token] = (self._number, self._size)
            self._removals[self._last_token], self._obsolete = self._obsolete, []
        return self._last_token if self._running else None

    def done(self, env: Env, token: int) -> bool:
        """Take note that a sync has ended; return False if it is none of ours."""
        if self._aside_syncs.pop(token, None) is not None:
            return True
        if token not in self._running:
            return False
        self._durable = max(self._durable, self._running.pop(token))
        self._sure = self._covered.pop(token)
        for path in self._removals.pop(token):
            env.disk.remove(path)
        return True

    def note_bound(self) -> None:
        """Have the next sync write down how much the disk is sure to hold. To be called now and then: each such name
        costs a sync of the directory."""
        self._bound_is_due = True

    def _move_bound(self, disk: Disk) -> list[str]:
        """Return what to sync besides: a bound that has become higher."""
        number, size = self._sure
        if number <= self._bound.number and not (self._bound_is_due and self._bound.is_below(number, size)):
            return []
        self._bound_is_due = False
        return [self._bound.move(disk, number, size)]

    # A large snapshot, written aside

    def begin_aside(self, disk: Disk, index: int, term: int) -> None:
        """Begin to write the snapshot of this entry into the next file; what was written aside before is given up."""
        self._end_aside()
        self._newest += 1
        self._aside = _Aside(index=index, term=term, number=self._newest)

    def write_aside(self, disk: Disk, piece: bytes) -> None:
        """Write the next piece, and sync it by itself. :meth:`compact` or :meth:`install` with the whole snapshot then
        only writes what follows it."""
        aside = self._aside
        assert aside is not None
        kind, payload = (_PIECE, piece) if aside.size else (_SNAPSHOT, _PLACE.pack(aside.index, aside.term) + piece)
        aside.checksum = _chain(aside.checksum, kind, payload)
        frame = _HEAD.pack(len(payload), aside.checksum, kind) + payload
        disk.write(_path(aside.number), aside.size, frame)
        aside.size += len(frame)
        aside.crc = crc32(piece, aside.crc)
        aside.token = disk.sync([_path(aside.number)])
        self._aside_syncs[aside.token] = aside

    @property
    def aside_token(self) -> int | None:
        """What to wait for until all that was written aside is durable."""
        return self._aside.token if self._aside is not None else None

    def aside_done(self, token: int) -> bool:
        """Return whether a sync has made all durable that is written aside now. To be asked before :meth:`done`."""
        aside = self._aside_syncs.get(token)
        if aside is None or aside is not self._aside or aside.token != token:
            return False
        aside.token = None
        return True

    def _end_aside(self) -> None:
        if self._aside is not None and self._aside.size:
            self._obsolete.append(_path(self._aside.number))
        self._aside = None

    def _take_aside(self) -> bool:
        """Make what was written aside the file's beginning, if it is the snapshot that we have now."""
        aside = self._aside
        have = (self.snapshot_index, self.snapshot_term, crc32(self.snapshot))
        if aside is None or aside.token is not None or (aside.index, aside.term, aside.crc) != have:
            self._end_aside()
            return False
        self._number, self._size, self._checksum, self._aside = aside.number, aside.size, aside.checksum, None
        return True

    # Recovery

    def recover(self, disk: Disk) -> None:
        """Load what the disk holds and repair its end. What was recovered counts as durable after the next sync.
        Raises :class:`~reference.raft.bound.DamagedLog`."""
        self._bound.recover(disk)
        paths = disk.list(_PREFIX)
        self._newest = max((_number(path) for path in paths), default=0)
        for path in reversed(paths):
            self._size = self._load(disk.read(path))
            if self._size:
                self._number = _number(path)
                self._bound.check(self._number, self._size)
                disk.truncate(path, self._size)
                self._obsolete = [other for other in paths if other != path]
                self._dirty = True
                return
        self._bound.check(0, 0)
        self._load(b"")
        self._obsolete = paths
        self._next_file(disk)

    def _load(self, data: bytes) -> int:
        """Take over the records of one file; returns the size of its sound part, 0 if its head isn't whole."""
        self._entries.clear()
        self.term, self.vote = 0, ""
        self.snapshot_index, self.snapshot_term, self.snapshot = 0, 0, b""
        self._checksum = position = sealed = 0
        while len(data) - position >= _HEAD.size:
            size, checksum, kind = _HEAD.unpack_from(data, position)
            payload = data[position + _HEAD.size : position + _HEAD.size + size]
            if len(payload) != size or checksum != _chain(self._checksum, kind, payload):
                break
            if not self._take(kind, payload):
                break
            self._checksum = checksum
            position += _HEAD.size + size
            sealed |= kind == _SEAL
        return position if sealed else 0

    def _take(self, kind: int, payload: bytes) -> bool:
        if kind == _SNAPSHOT:
            self.snapshot_index, self.snapshot_term = _PLACE.unpack_from(payload)
            self.snapshot = payload[_PLACE.size :]
        elif kind == _PIECE:
            self.snapshot += payload
        elif kind == _STATE:
            (self.term,) = _TERM.unpack_from(payload)
            self.vote = payload[_TERM.size :].decode()
        elif kind == _ENTRY:
            index, term = _PLACE.unpack_from(payload)
            if not self.first <= index <= self.last + 1:
                return False
            del self._entries[index - self.first :]
            self._entries.append(Entry(term, payload[_PLACE.size :]))
        return kind in (_SNAPSHOT, _PIECE, _STATE, _ENTRY, _SEAL)

    # The file

    def _next_file(self, disk: Disk) -> None:
        if self._number:
            self._obsolete.append(_path(self._number))
        self._durable = 0
        for token in self._running:
            self._running[token] = 0
        records = []
        if not self._take_aside():
            self._newest += 1
            self._number = self._newest
            self._size = self._checksum = 0
            records.append((_SNAPSHOT, _PLACE.pack(self.snapshot_index, self.snapshot_term) + self.snapshot))
        records.append((_STATE, _state(self.term, self.vote)))
        for index, entry in enumerate(self._entries, self.first):
            records.append((_ENTRY, _PLACE.pack(index, entry.term) + entry.data))
        records.append((_SEAL, b""))
        frames = b"".join(self._frame(kind, payload) for kind, payload in records)
        self._write(disk, frames)

    def _append(self, disk: Disk, kind: int, payload: bytes) -> None:
        self._write(disk, self._frame(kind, payload))

    def _frame(self, kind: int, payload: bytes) -> bytes:
        self._checksum = _chain(self._checksum, kind, payload)
        return _HEAD.pack(len(payload), self._checksum, kind) + payload

    def _write(self, disk: Disk, data: bytes) -> None:
        disk.write(_path(self._number), self._size, data)
        self._size += len(data)
        self._dirty = True


def _path(number: int) -> str:
    return f"{_PREFIX}{number:08d}"


def _number(path: str) -> int:
    return int(path.rpartition(".")[2])


def _chain(before: int, kind: int, payload: bytes) -> int:
    return crc32(payload, crc32(_HEAD.pack(len(payload), before, kind)))


def _state(term: int, vote: str) -> bytes:
    return _TERM.pack(term) + vote.encode()


def pack_entries(entries: Iterable[Entry]) -> bytes:
    """Entries as they travel in an append."""
    return b"".join(_WIRE.pack(entry.term, len(entry.data)) + entry.data for entry in entries)


def unpack_entries(body: bytes) -> list[Entry]:
    """Return the entries in a body. Raises :class:`chaos.node.Malformed`."""
    entries = []
    position = 0
    while position < len(body):
        if position + _WIRE.size > len(body):
            raise Malformed("an entry is cut off")
        term, size = _WIRE.unpack_from(body, position)
        position += _WIRE.size
        if position + size > len(body):
            raise Malformed(f"an entry of {size} bytes is cut off")
        entries.append(Entry(term, body[position : position + size]))
        position += size
    return entries
