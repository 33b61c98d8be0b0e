"""The disk of a simulated node: what was not synced may or may not survive a crash, piece by piece.

A file is an inode; names point to inodes. The node reads its latest writes from ``content``. Beside it stand what is
durable and, in order, the changes in between. A crash keeps any subset of those changes: sectors of 512 bytes, sizes
(so that a truncation can come back), and directory entries, whatever happened to the others.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from chaos.effects.disks import DiskRules
from chaos.node import DiskFull
from chaos.shell.sectors import torn_writes

DEFAULT_CAPACITY_BYTES = 1 << 34


class Fate(StrEnum):
    """What a crash does with what was not synced."""

    ANY = "any"  # any part of it is kept: all, none, or torn
    LOST = "lost"  # none of it
    TORN = "torn"  # of each file, some sectors and one of its sizes


@dataclass(slots=True)
class _Bytes:
    """A write whose content is fixed, because a sync or a truncation came after it. Not frozen, as it is made for
    each write: a frozen dataclass takes thrice the time to make."""

    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class _Size:
    size: int


class _Inode:
    """``changes`` are frozen and in order; ``fresh`` are byte ranges written since, still to be read from ``content``
    (an append only stretches the last range, so that it costs nothing). ``settled`` counts the changes that are durable
    and no longer listed; ``pending_bytes`` are those of ``changes``."""

    __slots__ = ("changes", "content", "durable", "fresh", "pending_bytes", "settled")

    def __init__(self) -> None:
        self.content = bytearray()
        self.durable = bytearray()
        self.changes: list[_Bytes | _Size] = []
        self.settled = 0
        self.pending_bytes = 0
        self.fresh: list[tuple[int, int]] = []

    def write(self, offset: int, data: bytes) -> None:
        size = len(self.content)
        begin = offset
        if offset > size:
            self.content.extend(bytes(offset - size))
            begin = size
        end = offset + len(data)
        self.content[offset:end] = data
        if self.fresh and self.fresh[-1][1] == begin:
            self.fresh[-1] = (self.fresh[-1][0], end)
        else:
            self.fresh.append((begin, end))

    def truncate(self, size: int) -> None:
        self.freeze()
        del self.content[size:]
        self.changes.append(_Size(size))

    def freeze(self) -> int:
        """Fix the content of fresh writes; return the number of bytes that are pending now."""
        if self.fresh:
            for begin, end in self.fresh:
                self.changes.append(_Bytes(begin, bytes(self.content[begin:end])))
                self.pending_bytes += end - begin
            self.fresh.clear()
        return self.pending_bytes

    def settle(self, last_change: int) -> None:
        """Make all changes up to this one (counted from the file's birth) durable."""
        number = last_change - self.settled
        if number > 0:
            self.apply(self.changes[:number])
            del self.changes[:number]
            self.settled = last_change

    def apply(self, changes: Iterable[_Bytes | _Size]) -> None:
        """Make these changes durable, in order."""
        for change in changes:
            if isinstance(change, _Bytes):
                self.pending_bytes -= len(change.data)
                _put(self.durable, change.offset, change.data)
            else:
                _resize(self.durable, change.size)

    def crash(self, rng: Random, fate: Fate = Fate.ANY) -> None:
        """Keep any subset of the pending sectors and any of the sizes that the file had meanwhile, as far as this
        fate allows."""
        self.freeze()
        changes, self.changes = self.changes, []
        if changes and fate != Fate.LOST:
            luck = rng.random() if fate == Fate.ANY else 1.0
            if luck < 0.3:
                self.apply(changes)
            elif luck > 0.6:
                self._tear(changes, rng)
        self.pending_bytes = 0
        self.content = bytearray(self.durable)

    def _tear(self, changes: list[_Bytes | _Size], rng: Random) -> None:
        plain = [(it.size, None) if isinstance(it, _Size) else (it.offset, it.data) for it in changes]
        for offset, data in torn_writes(plain, len(self.durable), rng):
            if data is None:
                _resize(self.durable, offset)
            else:
                _put(self.durable, offset, data)


def _put(target: bytearray, offset: int, data: bytes) -> None:
    if offset > len(target):
        target.extend(bytes(offset - len(target)))
    target[offset : offset + len(data)] = data


def _resize(target: bytearray, size: int) -> None:
    if size < len(target):
        del target[size:]
    else:
        target.extend(bytes(size - len(target)))


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    """One change of the directory: after it, these names point to these inodes (None: the name is gone)."""

    names: tuple[tuple[str, _Inode | None], ...]


_Entries = list[_Entry]


@dataclass(slots=True)
class _Sync:
    """What one sync will make durable when it ends: inodes with the count of changes, and directory entries."""

    inodes: list[tuple[_Inode, int]]
    entries: _Entries


class SimDisk:
    """Implements :class:`chaos.node.Disk`. ``on_sync(token, pending_bytes)`` is called for each sync that starts; its
    owner then calls :meth:`finish` with the tokens in order. ``moved_bytes`` counts reads and writes, for their cost.
    ``rules`` make writes and reads fail; ``rng`` draws which."""

    def __init__(
        self,
        on_sync: Callable[[int, int], None],
        *,
        capacity_bytes: int = DEFAULT_CAPACITY_BYTES,
        rules: DiskRules | None = None,
        rng: Random | None = None,
    ) -> None:
        self.capacity_bytes = capacity_bytes
        self.moved_bytes = 0
        self._rules = rules or DiskRules()
        self._ruled = self._rules.by_id
        self._rng = rng or Random(0)
        self._on_sync = on_sync
        self._used_bytes = 0
        self._names: dict[str, _Inode] = {}
        self._durable_names: dict[str, _Inode] = {}
        self._entries: _Entries = []
        self._syncs: dict[int, _Sync] = {}
        self._last_token = 0

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        content = self._find(path).content
        if self._ruled and self._rules.fails_read(self._rng):
            raise OSError(errno.EIO, "the disk can't read it", path)
        end = len(content) if length is None else min(len(content), offset + length)
        data = bytes(memoryview(content)[offset:end]) if offset < end else b""
        self.moved_bytes += len(data)
        return data

    def size(self, path: str) -> int:
        inode = self._names.get(path)
        return -1 if inode is None else len(inode.content)

    def list(self, prefix: str = "") -> list[str]:
        return sorted(path for path in self._names if path.startswith(prefix))

    def write(self, path: str, offset: int, data: bytes) -> None:
        if offset < 0:
            raise ValueError(f"{path}: offset {offset} is negative")
        inode = self._names.get(path)
        growth = max(0, offset + len(data) - (len(inode.content) if inode else 0))
        if growth and self._ruled and self._rules.refuses_growth():
            raise DiskFull(f"{path}: no room for {growth} bytes more")
        if self._used_bytes + growth > self.capacity_bytes:
            raise DiskFull(
                f"{path}: no room for {growth} bytes more ({self._used_bytes} of {self.capacity_bytes} used)"
            )
        if inode is None:
            inode = self._names[path] = _Inode()
            self._entries.append(_Entry(((path, inode),)))
        inode.write(offset, data)
        self._used_bytes += growth
        self.moved_bytes += len(data)

    def truncate(self, path: str, size: int) -> None:
        inode = self._find(path)
        if size < len(inode.content):
            self._used_bytes -= len(inode.content) - size
            inode.truncate(size)

    def rename(self, old: str, new: str) -> None:
        inode = self._find(old)
        if old == new:
            return
        replaced = self._names.get(new)
        if replaced is not None:
            self._used_bytes -= len(replaced.content)
        del self._names[old]
        self._names[new] = inode
        self._entries.append(_Entry(((old, None), (new, inode))))

    def remove(self, path: str) -> None:
        inode = self._names.pop(path, None)
        if inode is not None:
            self._used_bytes -= len(inode.content)
            self._entries.append(_Entry(((path, None),)))

    def sync(self, paths: Iterable[str]) -> int:
        wanted = dict.fromkeys(paths)
        inodes = []
        pending_bytes = 0
        for path in wanted:
            inode = self._names.get(path)
            if inode is not None:
                pending_bytes += inode.freeze()
                inodes.append((inode, inode.settled + len(inode.changes)))
        token = self._last_token = self._last_token + 1
        self._syncs[token] = _Sync(inodes, self._entries_behind(wanted) if self._entries else [])
        self._on_sync(token, pending_bytes)
        return token

    def finish(self, token: int) -> None:
        """End a sync: all that it covers is durable."""
        ended = self._syncs.pop(token)
        for inode, last_change in ended.inodes:
            inode.settle(last_change)
        for entry in ended.entries:
            if entry in self._entries:
                self._entries.remove(entry)
                self._apply_entry(entry)

    def settle(self) -> None:
        """Make all that was ever written durable; syncs that are under way end with it, without ``done``."""
        for entry in self._entries:
            self._apply_entry(entry)
        self._entries.clear()
        for inode in self._names.values():
            inode.freeze()
            inode.settle(inode.settled + len(inode.changes))
        self._syncs.clear()

    @property
    def unsynced(self) -> int:
        """How many changes a crash might lose now."""
        changes = sum(len(inode.changes) + len(inode.fresh) for inode in self._names.values())
        return changes + len(self._entries)

    def crash(self, rng: Random, fate: Fate = Fate.ANY) -> int:
        """Lose what was not synced, as a power cut would; return how many changes were at stake. Syncs never end."""
        at_stake = len(self._entries)
        entries, self._entries = self._entries, []
        share = 0.0 if fate == Fate.LOST else rng.choice((0.0, 1.0, rng.random()))
        for entry in entries:
            if rng.random() < share:
                self._apply_entry(entry)
        self._names = dict(self._durable_names)
        for path in sorted(self._names):
            inode = self._names[path]
            at_stake += len(inode.changes) + len(inode.fresh)
            inode.crash(rng, fate)
        self._syncs.clear()
        self._used_bytes = sum(len(inode.content) for inode in self._names.values())
        return at_stake

    def durable_names(self) -> Sequence[str]:
        """Return the files that no crash could take away now, sorted."""
        return sorted(self._durable_names)

    def durable_size(self, path: str) -> int:
        """Return how many bytes of a file no crash could take away now; 0 if it could take the file."""
        inode = self._durable_names.get(path)
        return 0 if inode is None else len(inode.durable)

    def durable(self, path: str) -> bytes:
        """Return what of one of them no crash could take away."""
        return bytes(self._durable_names[path].durable)

    def replace(self, path: str, content: bytes | None) -> None:
        """Change what is durable, behind the back of a node that doesn't run (None: the file is gone)."""
        before = self._durable_names.pop(path, None)
        self._names.pop(path, None)
        self._used_bytes -= 0 if before is None else len(before.content)
        if content is not None:
            inode = self._names[path] = self._durable_names[path] = _Inode()
            inode.content, inode.durable = bytearray(content), bytearray(content)
            self._used_bytes += len(content)

    def _find(self, path: str) -> _Inode:
        inode = self._names.get(path)
        if inode is None:
            raise FileNotFoundError(path)
        return inode

    def _entries_behind(self, wanted: dict[str, None]) -> _Entries:
        """Return all pending directory changes that touch these names, and what those changes build on."""
        names = dict.fromkeys(wanted)
        chosen = []
        for entry in reversed(self._entries):
            if any(name in names for name, _ in entry.names):
                names.update(dict.fromkeys(name for name, _ in entry.names))
                chosen.append(entry)
        return chosen[::-1]

    def _apply_entry(self, entry: _Entry) -> None:
        for name, inode in entry.names:
            if inode is None:
                self._durable_names.pop(name, None)
            else:
                # Of a chain of renames any link may be missing, but one file never gets two names.
                for older in [known for known, held in self._durable_names.items() if held is inode]:
                    del self._durable_names[older]
                self._durable_names[name] = inode
