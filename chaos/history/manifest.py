"""The manifest of a run: what each file of it was when it was written, so that damage is noticed.

A line for each sealed part, appended as soon as that is whole; ``docs/history.md`` has the format. A checksum is the
length and the CRC-32 of the bytes: it finds every flipped bit and every changed byte, the history is summed up anyway
while it is written, and a gigabyte takes a third of a second. It protects against damage; an attacker who rewrites a
file can rewrite its line too.
"""

from __future__ import annotations

import fcntl
import os
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from errno import ENOSPC
from pathlib import Path
from typing import BinaryIO, NamedTuple
from urllib.parse import quote, unquote

from chaos import guarded
from chaos.errors import MachineError

FILE = "manifest"
#: A line is about 60 bytes, and there is one for each batch of rows.
LARGEST = 1 << 30
#: A file is summed up in pieces of this size.
PIECE_BYTES = 1 << 20
#: In digits; nothing here is counted beyond 64 bits.
LONGEST_NUMBER = 19
BATCH, SEGMENT, SEAL, GONE, STORED = "batch", "segment", "seal", "gone", "stored"


class Sum(NamedTuple):
    """The length of some bytes, and their CRC-32."""

    length: int
    crc: int

    def followed_by(self, data: bytes | memoryview) -> Sum:
        """Return the sum of these bytes and of some more."""
        return Sum(self.length + len(data), zlib.crc32(data, self.crc))


class Batch(NamedTuple):
    """So many ``rows``, in bytes of the stream from ``offset`` on."""

    offset: int
    sum: Sum
    rows: int


@dataclass(slots=True, kw_only=True)
class Sealed:
    """What a manifest vouches for. ``files``: by path in the run's directory, all sums that the file was to have, the
    newest last. ``lines``: the number of the newest line about each of them; ``last_batch``: of that about a batch.
    ``segments``: those that are complete, with all rows and bytes of their batches. ``stored``: by path and by the byte
    at which it begins, the URI of the folder into which a segment was put. ``damage``: one sentence for each line that
    is none."""

    files: dict[str, list[Sum]] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    last_batch: int = -1
    batches: list[Batch] = field(default_factory=list)
    segments: list[Batch] = field(default_factory=list)
    stored: dict[tuple[str, int], str] = field(default_factory=dict)
    damage: list[str] = field(default_factory=list)

    @property
    def stream_bytes(self) -> int:
        return max((batch.offset + batch.sum.length for batch in self.batches), default=0)


def largest(promised: Iterable[int]) -> int:
    """How many bytes a file may have to be read at all: gigabytes only where that many are promised."""
    return max((guarded.LARGEST_ROWS, *promised))


def sum_of(data: bytes | memoryview) -> Sum:
    return Sum(len(data), zlib.crc32(data))


def sum_of_file(path: Path) -> Sum:
    """Return the sum of a whole file. Raises as :func:`chaos.guarded.opened` does."""
    with guarded.opened(path, guarded.LARGEST_STREAM) as file:
        return _summed(file)


def _summed(file: BinaryIO) -> Sum:
    length = crc = 0
    while piece := file.read(PIECE_BYTES):
        length, crc = length + len(piece), zlib.crc32(piece, crc)
    return Sum(length, crc)


def check_appendable(run: Path) -> None:
    """Raise :class:`MachineError` if the manifest that a run has could not be appended to."""
    if guarded.is_there(run / FILE):
        Manifest(run).close()


class Manifest:
    """Appends to the manifest of one run. Several may do so at the same time, also in several processes: each line has
    a number, which is counted under a lock. Raises :class:`MachineError` when it can't be written, also where something
    else stands in its place, or it has another name too."""

    def __init__(self, run: Path) -> None:
        self._path = run / FILE
        try:
            self._handle = guarded.appended(self._path)
        except OSError as error:
            raise _not_written(self._path, error) from error
        self._size = self._lines = 0

    def __enter__(self) -> Manifest:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def batch(self, batch: Batch) -> None:
        """Seal a batch of rows, which follows the one before in the stream."""
        self._append(f"{BATCH} {batch.offset} {_words(batch.sum)} {batch.rows}")

    def segment(self, whole: Batch) -> None:
        """Seal all batches of a segment together, once no more will follow in it."""
        self._append(f"{SEGMENT} {whole.offset} {_words(whole.sum)} {whole.rows}")

    def seal(self, name: str, checksum: Sum) -> None:
        """From now on the file of this name (a path in the run's directory) has this sum."""
        self._append(f"{SEAL} {_words(checksum)} {quote(name)}")

    def seal_files(self, names: Iterable[str]) -> None:
        """Seal files as they are now."""
        for name in names:
            try:
                checksum = sum_of_file(guarded.below(self._path.parent, name))
            except OSError as error:
                raise _not_written(self._path, error) from error
            self.seal(name, checksum)

    def gone(self, name: str) -> None:
        """There is no file of this name any more."""
        self._append(f"{GONE} {quote(name)}")

    def stored(self, name: str, offset: int, folder: str) -> None:
        """The segment that begins at this byte of this file stands in a folder under a URI."""
        self._append(f"{STORED} {offset} {quote(name)} {quote(folder, safe='')}")

    def _append(self, words: str) -> None:
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX)
            try:
                self._catch_up()
                line = _line(self._lines, words)
                if os.write(self._handle, line) < len(line):
                    os.ftruncate(self._handle, self._size)  # half a line would be damage
                    raise OSError(ENOSPC, os.strerror(ENOSPC))
                self._size += len(line)
                self._lines += 1
            finally:
                fcntl.flock(self._handle, fcntl.LOCK_UN)
        except OSError as error:
            raise _not_written(self._path, error) from error

    def _catch_up(self) -> None:
        """Count the lines that others have written meanwhile; end one that is torn."""
        size = os.fstat(self._handle).st_size
        if size == self._size:
            return
        if size < self._size:
            self._size = self._lines = 0
        data = os.pread(self._handle, size - self._size, self._size)
        self._size, self._lines = size, self._lines + data.count(b"\n")
        if data and not data.endswith(b"\n"):
            self._size += os.write(self._handle, b"\n")
            self._lines += 1


def read(run: Path) -> Sealed:
    """Return what a run's manifest vouches for. Without one that is nothing, which is damage: a run is as easily robbed
    of its manifest as of one bit. Raises :class:`chaos.errors.BadInput` for a manifest that is no regular file."""
    sealed = Sealed()
    try:
        data = guarded.read(run / FILE, LARGEST)
    except FileNotFoundError:
        sealed.damage.append(f"there is no {FILE}, so nothing vouches for what stands here")
        return sealed
    *lines, last = data.split(b"\n")
    for number, line in enumerate(lines):
        if not _take(sealed, number, line):
            sealed.damage.append(f"{FILE}: line {number + 1} is damaged")
    if last:
        sealed.damage.append(f"{FILE}: its last line is cut off")
    return sealed


def altered(run: Path, sealed: Sealed, name: str, *, newest: int = 1) -> str:
    """Why a sealed file isn't what it was, in a sentence; "" if it is, or is one of its ``newest`` so many versions. A
    file that was never sealed is not what it was. Raises :class:`chaos.errors.BadInput` for what is no regular file."""
    known = sealed.files.get(name, [])[-newest:]
    try:
        with guarded.opened(guarded.below(run, name), largest(one.length for one in known)) as file:
            if not known:
                return f"{name} is not in the {FILE}"
            length = os.fstat(file.fileno()).st_size
            if any(one.length == length for one in known) and ((name, 0) in sealed.stored or _summed(file) in known):
                return ""  # what stands elsewhere is compared when it is read
    except FileNotFoundError:
        return f"{name} is missing" if known else ""
    except OSError as error:
        return f"{name} can't be read: {error.strerror or error}"
    return f"{name} is not what was written: its checksum is wrong"


def _line(number: int, words: str) -> bytes:
    line = f"{number} {words}".encode()
    return b"%08x %s\n" % (zlib.crc32(line), line)


def _words(checksum: Sum) -> str:
    return f"{checksum.length} {checksum.crc:08x}"


def _take(sealed: Sealed, number: int, line: bytes) -> bool:
    """Take what a line says; False if it is none, or isn't the line of this number."""
    crc, _, rest = line.partition(b" ")
    if crc != b"%08x" % zlib.crc32(rest):
        return False
    try:
        found, kind, *words = rest.decode("ascii").split(" ")
        if found != str(number):
            return False
        match kind, words:
            case "batch" | "segment", [offset, length, batch_crc, rows]:
                one = Batch(_number(offset), Sum(_number(length), _crc(batch_crc)), _number(rows))
                (sealed.batches if kind == "batch" else sealed.segments).append(one)
                sealed.last_batch = number
            case "seal" | "gone", [*_, name] if not guarded.is_below(unquote(name)):
                return False
            case "seal", [length, file_crc, name]:
                checksum = Sum(_number(length), _crc(file_crc))  # raises before the file is known
                sealed.files.setdefault(unquote(name), []).append(checksum)
                sealed.lines[unquote(name)] = number
            case "stored", [offset, name, folder] if guarded.is_below(unquote(name)):
                sealed.stored[unquote(name), _number(offset)] = unquote(folder)
            case "gone", [name]:
                sealed.files.pop(unquote(name), None)
            case _:
                return False
    except ValueError:
        return False
    return True


def _number(word: str) -> int:
    if not word.isdecimal() or len(word) > LONGEST_NUMBER:
        raise ValueError(word)
    return int(word)


def _crc(word: str) -> int:
    if len(word) != 8:
        raise ValueError(word)
    return int(word, 16)


def _not_written(path: Path, error: OSError) -> MachineError:
    return MachineError(f"cannot write {path}: {error.strerror or error}")
