"""The durable half of a Raft member: term, vote, snapshot and entries, as one numbered log in a file of logs
(:mod:`~reference.raft.storage.wal`).

An entry whose index stands there already replaces it and all behind it. A member that has the file to itself begins the
next one with each snapshot; in a file that many share, a snapshot is one more record.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

from chaos.node import Disk, Env, Malformed
from reference.raft.storage.aside import Aside
from reference.raft.storage.records import BORN, ENTRY, GONE, PIECE, SNAPSHOT, STATE
from reference.raft.storage.wal import Wal

_PLACE = struct.Struct(">QQ")  # index, term
_TERM = struct.Struct(">Q")
_WIRE = struct.Struct(">QI")  # term, size of the data
#: A snapshot above this is a large one.
LARGE_BYTES = 65_536
#: Records up to this are small: they may use what is reserved on a full disk.
SMALL_BYTES = 4096


class Entry(NamedTuple):
    """One entry of the log; empty ``data`` is the no-op with which a leader begins its term."""

    term: int
    data: bytes


class RaftLog:
    """Term, vote and log. Changes are visible at once and durable when the token of :meth:`sync` is done. ``members``:
    those of the beginning, where the log says so. In a file that many share, ``is_born`` once it has begun, and
    ``is_gone`` once only term and vote are kept, of a removed replica."""

    wal_class: type[Wal] = Wal

    def __init__(self, wal: Wal | None = None, number: int = 0) -> None:
        self.wal = self.wal_class() if wal is None else wal
        self.number = number
        self.members: tuple[str, ...] = ()
        self.is_born = self.is_gone = False
        self._entries: list[Entry] = []
        self._running: dict[int, int] = {}  # sync token → last index that it makes durable
        self._durable = 0
        self._aside: Aside | None = None
        self._aside_syncs: dict[int, Aside] = {}  # sync token → what it makes durable
        self.snapshot_index = self.snapshot_term = 0
        self.snapshot = b""
        self.clear()
        self.wal.logs[number] = self

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
        """Whether a large snapshot takes two thirds of what is kept and more."""
        return len(self.snapshot) > LARGE_BYTES and 2 * self._kept_bytes() < 3 * len(self.snapshot)

    def _kept_bytes(self) -> int:
        return self.live_bytes() if self.wal.is_shared else self.wal.size

    @property
    def durable(self) -> int:
        """Every entry up to this index is on the disk."""
        return self._durable

    @property
    def tip(self) -> tuple[str, int]:
        """The file that is written, and its size."""
        return self.wal.tip

    @property
    def syncing(self) -> bool:
        """Whether something of this log is not durable yet, though a sync for it has begun."""
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
        return self.wal.count_files(disk)

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

    def has_room(self, disk: Disk, size: int) -> bool:
        """Return whether the disk has room for so many bytes, besides what is kept for small records."""
        return size <= SMALL_BYTES or self.wal.has_room(disk, size)

    # Writing

    def begin(self, disk: Disk, members: Sequence[str]) -> None:
        """Begin, as a replica of a group that had these members at its birth; unknown ones for who joins later."""
        self.members, self.is_born, self.is_gone = tuple(members), True, False
        self.wal.append(disk, self, BORN, json.dumps(self.members).encode())

    def bury(self, disk: Disk) -> None:
        """Keep nothing but term and vote, as a replica that was removed from its group."""
        self._forget()
        self.is_gone = True
        self.wal.append(disk, self, GONE, b"")

    def set_term(self, disk: Disk, term: int, vote: str) -> None:
        self.term, self.vote = term, vote
        self.wal.append(disk, self, STATE, _state(term, vote))

    def put(self, disk: Disk, index: int, entry: Entry) -> None:
        """Store an entry at ``index``, at most one behind the end; all that stood from there on is gone."""
        assert self.first <= index <= self.last + 1, (index, self.first, self.last)
        del self._entries[index - self.first :]
        self._durable = min(self._durable, index - 1)
        for token, end in self._running.items():
            self._running[token] = min(end, index - 1)
        self._entries.append(entry)
        self.wal.append(disk, self, ENTRY, _PLACE.pack(index, entry.term) + entry.data)

    def compact(self, disk: Disk, index: int, snapshot: bytes) -> None:
        """Replace all entries up to ``index`` by the state machine's snapshot of that moment."""
        term = self.term_at(index)
        assert term >= 0
        self._begin_at(index, term, snapshot)
        self._write_snapshot(disk)

    def install(self, disk: Disk, index: int, term: int, snapshot: bytes) -> None:
        """Begin at a leader's snapshot; entries behind it stay if they continue it."""
        self._begin_at(index, term, snapshot)
        if self.wal.is_shared:
            self.wal.move(self)
        self._write_snapshot(disk)

    def _begin_at(self, index: int, term: int, snapshot: bytes) -> None:
        if self.term_at(index) == term:
            del self._entries[: index - self.snapshot_index]
        else:
            self._entries.clear()
        self.snapshot_index, self.snapshot_term, self.snapshot = index, term, snapshot

    def _write_snapshot(self, disk: Disk) -> None:
        if self.wal.is_shared:
            self.wal.append(disk, self, SNAPSHOT, self._snapshot_record())
        else:
            self._next_file(disk)

    def _next_file(self, disk: Disk) -> None:
        self.wal.next_file(disk, self._take_aside())

    # Syncs

    def sync(self, disk: Disk) -> int | None:
        """Make everything so far durable. Returns the token to wait for, None when it is durable already."""
        if self.wal.is_touched(self):
            self.wal.sync(disk)
        return max(self._running, default=None)

    def done(self, env: Env, token: int) -> bool:
        """Take note that a sync has ended; return False if it is none of ours. Where many logs share the file, its
        owner has given the word to the file before."""
        if self._aside_syncs.pop(token, None) is not None:
            return True
        return self.wal.is_shared or self.wal.done(env, token) is not None

    def sync_began(self, token: int) -> None:
        """Note that all that was written so far is durable once this sync ends."""
        self._running[token] = self.last

    def sync_ended(self, token: int) -> None:
        """Note that it has ended."""
        self._durable = max(self._durable, self._running.pop(token))

    def moved(self) -> None:
        """Count nothing as durable before a sync that begins from now on."""
        self._durable = 0
        for token in self._running:
            self._running[token] = 0

    def note_bound(self) -> None:
        """Have the next sync write down how much the disk is sure to hold."""
        self.wal.note_bound()

    # A large snapshot, written aside by a member that has the file to itself

    def begin_aside(self, disk: Disk, index: int, term: int) -> None:
        """Begin to write the snapshot of this entry into the next file; what was written aside before is given up."""
        self._end_aside()
        self.wal.newest += 1
        self._aside = Aside(index=index, term=term, file=self.wal.newest)

    def write_aside(self, disk: Disk, piece: bytes) -> None:
        """Write the next piece, and sync it by itself. :meth:`compact` or :meth:`install` with the whole snapshot then
        only writes what follows it."""
        aside = self._aside
        assert aside is not None
        record = (PIECE, piece) if aside.size else (SNAPSHOT, _PLACE.pack(aside.index, aside.term) + piece)
        token = aside.write(disk, (self.number, *record))
        aside.crc = crc32(piece, aside.crc)
        self._aside_syncs[token] = aside

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
            self.wal.obsolete.append(self._aside.path)
        self._aside = None

    def _take_aside(self) -> tuple[int, int, int] | None:
        """Return the file that was written aside, if it begins with the snapshot that we have now."""
        aside = self._aside
        have = (self.snapshot_index, self.snapshot_term, crc32(self.snapshot))
        if aside is None or aside.token is not None or (aside.index, aside.term, aside.crc) != have:
            self._end_aside()
            return None
        self._aside = None
        return aside.file, aside.size, aside.checksum

    # Recovery and rewriting

    def recover(self, disk: Disk) -> None:
        """Load what the disk holds, unless that was done for all logs of the file. Raises
        :class:`~reference.raft.bound.DamagedLog`."""
        if not self.wal.is_shared:
            self.wal.recover(disk)

    def clear(self) -> None:
        """Forget everything, before a file is loaded."""
        self.term, self.vote = 0, ""
        self._forget()

    def _forget(self) -> None:
        self.snapshot_index, self.snapshot_term, self.snapshot = 0, 0, b""
        self._entries.clear()
        self.members, self.is_born, self.is_gone = (), False, False
        self.moved()

    def take(self, kind: int, payload: bytes) -> bool:
        """Take over a record of the file; False if it does not fit to those before it."""
        if kind == SNAPSHOT:
            index, term = _PLACE.unpack_from(payload)
            self._begin_at(index, term, payload[_PLACE.size :])
        elif kind == PIECE:
            self.snapshot += payload
        elif kind == STATE:
            (self.term,) = _TERM.unpack_from(payload)
            self.vote = payload[_TERM.size :].decode()
        elif kind == ENTRY:
            index, term = _PLACE.unpack_from(payload)
            if not self.first <= index <= self.last + 1:
                return False
            del self._entries[index - self.first :]
            self._entries.append(Entry(term, payload[_PLACE.size :]))
        elif kind == BORN:
            self.members, self.is_born, self.is_gone = tuple(json.loads(payload)), True, False
        elif kind == GONE:
            self._forget()
            self.is_gone = True
        return kind in (SNAPSHOT, PIECE, STATE, ENTRY, BORN, GONE)

    def live(self) -> Iterator[tuple[int, bytes]]:
        """Return the records that make up the whole present state."""
        if self.is_gone:
            yield GONE, b""
        elif self.is_born:
            yield BORN, json.dumps(self.members).encode()
        if self.is_born or not self.wal.is_shared:
            yield SNAPSHOT, self._snapshot_record()
        yield STATE, _state(self.term, self.vote)
        for index, entry in enumerate(self._entries, self.first):
            yield ENTRY, _PLACE.pack(index, entry.term) + entry.data

    def live_bytes(self) -> int:
        """Return how many bytes the state takes, but for what frames it."""
        return len(self.snapshot) + sum(len(entry.data) for entry in self._entries)

    def _snapshot_record(self) -> bytes:
        return _PLACE.pack(self.snapshot_index, self.snapshot_term) + self.snapshot


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
