"""A program's disk that can lose its power: an ext4 file system of its own, in a file that is a loop device.

A program that is killed loses nothing that it has written, for the kernel has it. So the file system is shut down under
the kernel (the call with which file systems are tested for power cuts) and mounted again: its journal is replayed, and
what was synced is there. What was not is gone, unless the kernel had written it back by itself: it does so with what is
older than half a minute, and with names and sizes after five seconds, as on any machine. Files that are mapped into
memory are no exception.

The mounts are in a mount namespace of the supervisor's (:func:`leave_mounts`). Nobody else sees them, and they end with
the last process in it, whatever ends that, and their loop devices with them. Imports only the standard library and ours
that do the same.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import shutil
import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from zlib import crc32

from chaos.errors import MachineError
from chaos.machines.agent.tools import run, where_is

#: A disk has so much room at most, and none is made with less.
MOST_ROOM, LEAST_ROOM = 4 << 30, 64 << 20
#: So much of a disk is compared before and after a power cut, the files that were changed last.
MOST_COMPARED = 512 << 20
BLOCK = 4096
#: Who has just ended may hold its files for a moment.
FREE_S = 10.0
POLL_S = 0.01
TOOLS = ("mkfs.ext4", "mount", "umount", "cp")
#: EXT4_IOC_SHUTDOWN, with the journal left as it is on the disk.
_SHUTDOWN, _NO_LOG_FLUSH = 0x8004587D, 2
_NEWNS, _REC, _SLAVE = 0x00020000, 0x4000, 0x80000
_EMPTY_BLOCK = crc32(bytes(BLOCK))
#: By name: the checksum of each block that holds something.
_Content = Mapping[str, Mapping[int, int]]


def leave_mounts() -> None:
    """Have this process, and all that it starts from now on, see mounts of its own: what others mount and unmount shows
    here too, and nothing of ours shows there. No thread may have begun yet. Raises ``OSError``."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEWNS) or libc.mount(b"none", b"/", None, _REC | _SLAVE, None):
        number = ctypes.get_errno()
        raise OSError(number, f"mount namespaces: {os.strerror(number)}")


def begin(run: Path) -> None:
    """Call :func:`leave_mounts`, and then cut the power of a small disk in the folder of the run, to see that it can
    be done. Raises :class:`MachineError` with what lacks."""
    try:
        if os.geteuid() != 0:
            raise OSError("only root may mount a file system")
        if missing := [tool for tool in TOOLS if where_is(tool) is None]:
            raise OSError(f"{missing[0]} is not installed (Debian/Ubuntu: apt-get install e2fsprogs mount)")
        leave_mounts()
        with tempfile.TemporaryDirectory(dir=run) as folder:
            _try(Path(folder))
    except OSError as error:
        raise MachineError(
            f"a program can't lose unsynced bytes here: {error.strerror or error}; that takes root, mkfs.ext4 and loop"
            " devices, on which its disk is mounted; what would do without: `kill`, or say `on: [...]` for this fault"
        ) from error


def _try(folder: Path) -> None:
    disk = PoweredDisk(folder / "disk", LEAST_ROOM)
    disk.mount()
    try:
        disk.cut_power()
    finally:
        disk.unmount()


def room_of_each(folder: Path, disks: int) -> int:
    """Return how many bytes each of so many disks gets: files of this size that take only the room of what is written
    to them. Raises ``OSError`` where there is too little."""
    free = shutil.disk_usage(folder).free
    room = min(MOST_ROOM, free // 2 // max(1, disks)) // BLOCK * BLOCK
    if room < LEAST_ROOM:
        raise OSError(
            f"{disks} disks that can lose their power need {2 * disks * LEAST_ROOM >> 20} MiB of free room in {folder},"
            f" and {free >> 20} MiB are free",
        )
    return room


class PoweredDisk:
    """``folder``: where it is mounted; the file that holds it is beside. Nobody may run on it while one of the calls
    lasts. All raise ``OSError``."""

    def __init__(self, folder: Path, room: int) -> None:
        self._folder = folder
        self._image = folder.parent.resolve() / f"{folder.name}.ext4"
        self._room = room
        self._mounted = False

    def mount(self) -> None:
        """Make it, empty, where there is none yet, and mount it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        made = not self._image.exists()
        if made:
            with self._image.open("wb") as image:
                image.truncate(self._room)
            lazily = "lazy_itable_init=1,lazy_journal_init=1,nodiscard"
            _tool("mkfs.ext4", "-q", "-F", "-m", "0", "-E", lazily, str(self._image))
        _tool("mount", "-t", "ext4", "-o", "loop,noatime,noinit_itable", str(self._image), str(self._folder))
        self._mounted = True
        if made:
            (self._folder / "lost+found").rmdir()  # not the program's

    def sync(self) -> None:
        """Have all that was written to it be there after a power cut."""
        with _opened(self._folder) as folder:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.syncfs(folder):
                raise OSError(ctypes.get_errno(), f"syncfs: {os.strerror(ctypes.get_errno())}")

    def cut_power(self) -> dict[str, object]:
        """Shut the file system down, as it is, and mount it again; return what that took away, as far as it was
        compared: files that are gone, files that are there again, blocks of the others that are not what they were."""
        names = _by_age(self._folder)
        before = _contents(self._folder, names)
        with _opened(self._folder) as folder:
            fcntl.ioctl(folder, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        if not self._is_down():
            raise OSError(f"the file system in {self._image} was shut down and still takes writes")
        self.unmount()
        self.mount()
        there = set(_by_age(self._folder))
        after = _contents(self._folder, [name for name in before if name in there])
        lost = (
            name
            for name in after
            for block in before[name].keys() | after[name].keys()
            if before[name].get(block, _EMPTY_BLOCK) != after[name].get(block, _EMPTY_BLOCK)
        )
        blocks = sum(1 for _ in lost)
        gone, back = set(names) - there, there - set(names)
        return {"files_lost": len(gone), "files_back": len(back), "blocks_lost": blocks, "block_bytes": BLOCK}

    def _is_down(self) -> bool:
        try:
            os.close(os.open(self._folder / "power", os.O_CREAT | os.O_WRONLY))
        except OSError:
            return True
        return False

    def unmount(self) -> None:
        """Unmount it, and wait until its loop device is free: a second one must never be on the same file."""
        if not self._mounted:
            return
        said = [""]

        def unmounted() -> bool:
            code, said[0] = run(["umount", str(self._folder)], "")
            return code == 0

        if not _until(unmounted):
            raise OSError(f"the disk in {self._folder} can't be unmounted: {said[0]}")
        self._mounted = False
        if not _until(lambda: not _devices(self._image)):
            raise OSError(f"the loop device of {self._image} does not end")

    def give_back(self) -> None:
        """Leave a plain folder with what is on the disk, in its place; or, where that fails, the file that holds it."""
        copied = self._folder.with_name(f"{self._folder.name}.files")
        with suppress(OSError):
            _tool("cp", "-a", "--sparse=always", str(self._folder), str(copied))
            self.unmount()
            self._folder.rmdir()
            copied.rename(self._folder)
            self._image.unlink()
        with suppress(OSError):  # what is still mounted ends with the namespace
            self.unmount()
        if copied.exists():
            shutil.rmtree(copied, ignore_errors=True)

    def empty(self) -> None:
        """Remove all that is on it."""
        for path in self._folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


def _by_age(folder: Path) -> list[str]:
    """Return the names of all regular files below it, those first that were changed last."""
    found = []
    for here, _, names in os.walk(folder):
        for name in names:
            path = Path(here, name)
            if path.is_file() and not path.is_symlink():
                found.append((-path.stat().st_mtime_ns, path.relative_to(folder).as_posix()))
    return [name for _, name in sorted(found)]


def _contents(folder: Path, names: list[str]) -> _Content:
    """Return the content of as many of these as are compared."""
    found, left = {}, MOST_COMPARED
    for name in names:
        blocks = dict(_blocks(folder / name, left))
        if (left := left - len(blocks) * BLOCK) <= 0:
            break
        found[name] = blocks
    return found


def _blocks(path: Path, most: int) -> Iterator[tuple[int, int]]:
    """Yield number and checksum of each block of a file, but for its holes; about so many bytes of them."""
    with path.open("rb", buffering=0) as file:
        at = 0
        while most > 0:
            try:
                at = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:  # there is none behind
                return
            begin = at // BLOCK * BLOCK
            piece = os.pread(file.fileno(), BLOCK, begin)
            if not piece:
                return
            yield begin // BLOCK, crc32(piece.ljust(BLOCK, b"\0"))
            at, most = begin + BLOCK, most - BLOCK


def _devices(image: Path) -> list[str]:
    """Return the loop devices that are this file."""
    found = []
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            if backing.read_text("utf-8", "replace").strip() == str(image):
                found.append(backing.parts[3])
    return found


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _tool(*command: str) -> None:
    code, said = run(command, "")
    if code:
        raise OSError(f"{command[0]}: {' '.join(said.split()) or f'exit code {code}'}")


def _until(there: Callable[[], bool]) -> bool:
    deadline_s = time.monotonic() + FREE_S
    while not there():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(POLL_S)
    return True


if __name__ == "__main__":
    try:
        with tempfile.TemporaryDirectory() as scratch:
            begin(Path(scratch))
        print("{}")
    except MachineError as lacks:
        print(json.dumps({"problem": str(lacks)}))
