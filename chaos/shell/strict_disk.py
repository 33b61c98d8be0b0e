"""The disk of a node that is a process: what was not synced stays in this process's memory, and dies with it.

With plain files a killed process would lose nothing, since the system's page cache outlives it, and ``kill -9`` would
hide every missing fsync. Here a kill loses what a power cut would lose. What is synced is really written and fsynced,
with the directory entries, by one thread, in the order in which the syncs were started.

Files are held whole in memory once they were touched: a node's disk must fit there.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from random import Random

from chaos.node import DiskFull
from chaos.shell.clocks import sleep
from chaos.shell.disk_rules import ReadRules
from chaos.shell.sectors import Change, torn_writes

_PENDING = ".pending-"
#: How often a sync that waits looks whether it may begin.
WAIT_S = 0.005
#: The exit code of a process that is killed.
KILLED = 137


class _Inode:
    """A file, whatever its name: its content as the node sees it, and the changes that no sync has taken yet."""

    __slots__ = ("changes", "content", "number")

    def __init__(self, number: int, content: bytes = b"") -> None:
        self.number = number
        self.content = bytearray(content)
        self.changes: list[Change] = []


#: One change to the directory: names, and the files that they stand for from now on (None: no file).
_Entry = tuple[tuple[str, _Inode | None], ...]
_Entries = list[_Entry]


_Changes = list[tuple[_Inode, list[Change]]]


@dataclass(slots=True)
class _Job:
    """All that one sync makes durable."""

    token: int
    files: _Changes = field(default_factory=list)
    entries: list[_Entry] = field(default_factory=list)


class StrictDisk:
    """Implements :class:`chaos.node.Disk` on a directory.

    ``on_done(token)`` and ``on_error(error)`` are called by the disk's own thread. After an error nothing more is
    written: the node must stop. While there is a file ``gate``, no sync ends.
    """

    def __init__(
        self,
        root: Path,
        on_done: Callable[[int], None],
        on_error: Callable[[Exception], None],
        *,
        rules: Path | None = None,
        capacity_bytes: int | None = None,
        gate: Path | None = None,
    ) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._root = root
        self._capacity_bytes = capacity_bytes
        self._rules = None if rules is None else ReadRules(rules)
        self._rng = Random()
        self._numbers = 0
        self._tokens = 0
        self._pending_bytes = 0
        self._names: dict[str, _Inode | None] = {}  # None: there, but not read yet
        self._entries: _Entries = []
        self._writer = _Writer(root, on_done, on_error, gate)
        self._writer.rules = None if rules is None else ReadRules(rules)
        for path in sorted(root.rglob("*")):
            if path.name.startswith(_PENDING):
                path.unlink()
            elif path.is_file():
                self._names[path.relative_to(root).as_posix()] = None
        self._sizes = {name: (root / name).stat().st_size for name in self._names}

    def close(self) -> None:
        """Finish the syncs that were started and end the thread."""
        self._writer.close()

    def sync_all(self) -> int:
        """Sync whatever was changed."""
        return self.sync([*self._names, *(name for entry in self._entries for name, _ in entry)])

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        content = self._find(path).content
        if self._rules is not None and self._rules.refresh() and self._rules.fails_read(self._rng):
            raise OSError(errno.EIO, "the disk can't read it", path)
        return bytes(content[offset:] if length is None else content[offset : offset + length])

    def size(self, path: str) -> int:
        if path not in self._names:
            return -1
        inode = self._names[path]
        return self._sizes[path] if inode is None else len(inode.content)

    def list(self, prefix: str = "") -> list[str]:
        return sorted(name for name in self._names if name.startswith(prefix))

    def write(self, path: str, offset: int, data: bytes) -> None:
        if offset < 0:
            raise ValueError(f"{path}: offset {offset} is negative")
        self._make_room(path, max(0, offset + len(data) - max(0, self.size(path))))
        if path in self._names:
            inode = self._find(path)
        else:
            inode = self._create(path)
        content = inode.content
        if len(content) < offset:
            content.extend(bytes(offset - len(content)))
        content[offset : offset + len(data)] = data
        inode.changes.append((offset, bytes(data)))
        self._pending_bytes += len(data)

    def truncate(self, path: str, size: int) -> None:
        inode = self._find(path)
        if size < len(inode.content):
            del inode.content[size:]
            inode.changes.append((size, None))

    def rename(self, old: str, new: str) -> None:
        inode = self._find(old)
        _check(new)
        if old != new:
            del self._names[old]
            self._names[new] = inode
            self._entries.append(((old, None), (new, inode)))

    def remove(self, path: str) -> None:
        if path in self._names:
            del self._names[path]
            self._entries.append(((path, None),))

    def sync(self, paths: Iterable[str]) -> int:
        wanted = dict.fromkeys(paths)
        self._tokens += 1
        job = _Job(self._tokens)
        for path in wanted:
            inode = self._names.get(path)
            if inode is not None and inode.changes:
                job.files.append((inode, inode.changes))
                self._pending_bytes -= sum(len(data) for _, data in inode.changes if data is not None)
                inode.changes = []
        job.entries = self._take_entries(wanted)
        self._writer.jobs.put(job)
        return job.token

    def _create(self, path: str) -> _Inode:
        _check(path)
        self._numbers += 1
        inode = self._names[path] = _Inode(self._numbers)
        self._entries.append(((path, inode),))
        return inode

    def _find(self, path: str) -> _Inode:
        if path not in self._names:
            raise FileNotFoundError(path)
        inode = self._names[path]
        if inode is None:
            self._numbers += 1
            inode = self._names[path] = _Inode(self._numbers, (self._root / path).read_bytes())
            self._writer.homes[inode.number] = self._root / path
        return inode

    def _make_room(self, path: str, growth: int) -> None:
        """Refuse a write that could not be synced. Raises :class:`DiskFull`."""
        if not growth:
            return
        if self._rules is not None and self._rules.refresh() and self._rules.refuses_growth():
            raise DiskFull(f"{path}: no room for {growth} bytes more")
        if self._capacity_bytes is not None:
            free = self._capacity_bytes - sum(self.size(name) for name in self._names)
        else:
            volume = os.statvfs(self._root)
            free = volume.f_bavail * volume.f_frsize - self._pending_bytes
        if growth > free:
            raise DiskFull(f"{path}: no room for {growth} bytes more ({max(0, free)} are free)")

    def _take_entries(self, wanted: dict[str, None]) -> _Entries:
        """Return all pending directory changes that touch these names, and what those changes build on."""
        names = dict(wanted)
        taken: _Entries = []
        left: _Entries = []
        for entry in reversed(self._entries):
            if any(name in names for name, _ in entry):
                names.update(dict.fromkeys(name for name, _ in entry))
                taken.append(entry)
            else:
                left.append(entry)
        self._entries = left[::-1]
        return taken[::-1]


class _Writer:
    """The thread that writes. ``homes``: where each file really is, by the inode's number."""

    def __init__(
        self,
        root: Path,
        on_done: Callable[[int], None],
        on_error: Callable[[Exception], None],
        gate: Path | None,
    ) -> None:
        self.jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self.homes: dict[int, Path] = {}
        self.rules: ReadRules | None = None
        self._root = root
        self._on_done = on_done
        self._on_error = on_error
        self._gate = gate
        self._thread = threading.Thread(target=self._run, name="disk", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (jobs := self._waiting())[0] is not None:
            last = jobs[-1] is None
            started = [job for job in jobs if job is not None]
            while self._gate is not None and self._gate.exists():
                sleep(WAIT_S)
            try:
                self._apply_rules(started)
                self._write(started)
            except (OSError, MemoryError) as error:
                self._on_error(error)
                return
            for job in started:
                self._on_done(job.token)
            if last:
                return

    def _apply_rules(self, jobs: list[_Job]) -> None:
        """Delay, fail or tear these syncs as the rules say. Raises ``OSError``; a torn sync ends the process."""
        if self.rules is not None and self.rules.refresh():
            sleep(self.rules.latency_ns() / 1e9)
            if self.rules.fails_sync():
                raise OSError(errno.EIO, "the disk can't write it")
            changes = _changes(jobs)
            draw = self.rules.tears_sync() if changes else None
            if draw is not None:
                self._tear(changes, Random(draw))

    def _tear(self, changes: _Changes, rng: Random) -> None:
        """Write a part of this, and die. New names are not there yet."""
        for inode, made in changes:
            home = self._home(inode)
            self._write_file(home, torn_writes(made, home.stat().st_size, rng))
        os._exit(KILLED)  # as by SIGKILL, which the first process of a container can't send itself

    def _waiting(self) -> list[_Job | None]:
        """Return all syncs that wait, at least one: they share their fsyncs. None, always the last, ends the thread."""
        jobs = [self.jobs.get()]
        while jobs[-1] is not None and not self.jobs.empty():
            jobs.append(self.jobs.get())
        return jobs

    def _write(self, jobs: list[_Job]) -> None:
        for inode, changes in _changes(jobs):
            self._write_file(self._home(inode), changes)
        folders: dict[Path, None] = {}
        for job in jobs:
            for entry in job.entries:
                self._write_entry(entry, folders)
        for folder in folders:
            _fsync(folder)

    def _write_file(self, path: Path, changes: list[Change]) -> None:
        handle = _open(path, os.O_RDWR)
        try:
            for offset, data in changes:
                if data is None:
                    os.ftruncate(handle, offset)
                    continue
                view = memoryview(data)
                while view:
                    written = os.pwrite(handle, view, offset)
                    view, offset = view[written:], offset + written
            os.fsync(handle)
        finally:
            os.close(handle)

    def _home(self, inode: _Inode) -> Path:
        """Return where the file is; one that has no durable name yet waits for it under a name of ours."""
        home = self.homes.get(inode.number)
        if home is None:
            home = self.homes[inode.number] = self._root / f"{_PENDING}{inode.number}"
            os.close(_open(home, os.O_CREAT | os.O_WRONLY))
        return home

    def _write_entry(self, entry: _Entry, folders: dict[Path, None]) -> None:
        for name, inode in entry:
            path = self._root / name
            if inode is not None:
                home = self._home(inode)
                _make_folders(path.parent, folders)
                os.replace(home, path)
                self.homes[inode.number] = path
                folders[home.parent] = None
                folders[path.parent] = None
            elif len(entry) == 1 and path.exists():
                path.unlink()
                folders[path.parent] = None


def _changes(jobs: list[_Job]) -> _Changes:
    """Return what all of them do to files, file by file."""
    files: dict[int, tuple[_Inode, list[Change]]] = {}
    for job in jobs:
        for inode, changes in job.files:
            files.setdefault(inode.number, (inode, []))[1].extend(changes)
    return list(files.values())


def _make_folders(folder: Path, folders: dict[Path, None]) -> None:
    """Make a folder and note all above it whose entries have changed."""
    if not folder.is_dir():
        _make_folders(folder.parent, folders)
        folder.mkdir()
        folders[folder.parent] = None


def _open(path: Path, flags: int) -> int:
    """Open a file; wait while this process may open no more files, since nothing is lost by waiting."""
    while True:
        try:
            return os.open(path, flags, 0o644)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
        sleep(WAIT_S)


def _fsync(path: Path) -> None:
    handle = _open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _check(path: str) -> None:
    """Keep the node inside its directory. Raises ``ValueError``."""
    parts = path.split("/")
    if any(part in ("", ".", "..") or part.startswith(_PENDING) for part in parts):
        raise ValueError(f"{path!r} is no path on a node's disk: relative, with / between names, no . or ..")
