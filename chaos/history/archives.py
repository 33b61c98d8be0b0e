"""Runs in ZIP archives, as continuous-integration servers keep them: taken out into the folder of the runs.

An archive comes from elsewhere, so that nothing in it is trusted: no name leads out of its place, nothing but regular
files is made, no more bytes than a run may have, and of a run only the files that commands read or that people look at.
What a run leaves to be healed is not among them.
"""

from __future__ import annotations

import io
import re
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from chaos import guarded
from chaos.errors import BadInput, MachineError
from chaos.history import directory, manifest

#: All files of one archive together, unpacked; and, beyond some megabytes, as a multiple of the archive. Histories of
#: ours become a tenth at the very most.
LARGEST = guarded.LARGEST_ROWS
MOST_TIMES, FREE_BYTES = 100, 64 << 20
#: A run has a file for each node and each shard, and an archive may have a hundred runs.
MOST_FILES = 10_000
#: Parts of a path in an archive.
DEEPEST = 32
#: What is read of an archive at once: its directory above all, which is held.
MOST_AT_ONCE = 4 << 20
PIECE_BYTES = 1 << 20
#: A name of a run that nothing takes for an option, a hidden file or a path.
RUN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", re.ASCII)
#: What a run has for those who judge it or read about it. Whatever else is in its folder stays in the archive. (Modules
#: that have these names load much.)
FILES = (
    *(directory.META, manifest.FILE, directory.EXPERIMENT, "history.arrows", "undo.jsonl", directory.VERDICT),
    *("junit.xml", "report.html", "moments.json", "perfetto.json", "error.txt"),
)
FOLDERS: Mapping[str, Sequence[str]] = {
    directory.TRACES: (directory.LINES, directory.SEGMENTS),
    directory.SHARDS: (".parquet",),
    "logs": (".log",),
}
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 1


def is_archive(path: Path) -> bool:
    return path.is_file() and zipfile.is_zipfile(path)


def unpack(path: Path, parent: Path, *, most: int = MOST_FILES) -> list[Path]:
    """Put all runs of a ZIP archive into ``parent``, under their own names; returns where they are.

    Raises :class:`chaos.errors.BadInput` for an archive without a run, with more than ``most`` runs or with anything
    unsafe in it, and where a run of that name is there already; :class:`chaos.errors.MachineError` when the disk is
    full.
    """
    try:
        with guarded.opened(path, LARGEST, links=True) as file, zipfile.ZipFile(_Little(file)) as archive:
            return _unpack(archive, path, parent, most)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, zlib.error, ValueError) as error:
        raise BadInput(f"{path} is a damaged archive: {error}") from error
    except OSError as error:
        raise MachineError(f"cannot unpack {path} in {parent}: {error.strerror or error}") from error


def _unpack(archive: zipfile.ZipFile, path: Path, parent: Path, most: int) -> list[Path]:
    members = [info for info in archive.infolist() if not info.filename.endswith("/")]
    _refuse_unsafe(members, path)
    runs = {folder: files for folder, files in sorted(_by_run(members).items()) if directory.META in files}
    if not runs:
        raise BadInput(f"{path} holds no run (no {directory.META})")
    places = [parent / _run_name(folder, path) for folder in runs]
    if len(set(places)) < len(places):
        raise BadInput(f"{path} holds several runs of one name")
    if len(places) > most:
        names = ", ".join(place.name for place in places[:3]) + (", …" if len(places) > 3 else "")
        raise BadInput(f"{path} holds {len(places)} runs ({names}); this command takes one: unpack it and name one")
    _refuse_bombs([member for files in runs.values() for member in files.values()], path)
    for place in places:
        if place.exists() or place.is_symlink():
            raise BadInput(f"{place} is there already: name it in the place of {path}, or remove it first")
    parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=parent))
    try:
        for files, place in zip(runs.values(), places, strict=True):
            for name, member in files.items():
                _write(archive, member, fresh / place.name / name)
        for place in places:  # only once all could be written
            (fresh / place.name).rename(place)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return places


def _by_run(members: Sequence[zipfile.ZipInfo]) -> dict[PurePosixPath, dict[str, zipfile.ZipInfo]]:
    """Return, by folder and by path below it, what a run there may have."""
    found: dict[PurePosixPath, dict[str, zipfile.ZipInfo]] = {}
    for member in members:
        path = PurePosixPath(member.filename)
        if path.name in FILES:
            found.setdefault(path.parent, {})[path.name] = member
        if path.suffix in FOLDERS.get(path.parent.name, ()) and RUN_NAME.fullmatch(path.name):
            found.setdefault(path.parent.parent, {})[f"{path.parent.name}/{path.name}"] = member
    return found


def _run_name(folder: PurePosixPath, path: Path) -> str:
    """Return the name of a run: its folder's; the archive's for one without a folder."""
    name = folder.name or path.stem
    if not RUN_NAME.fullmatch(name):
        raise BadInput(f"{path}: {name!r} is not a name for a run")
    return name


def _refuse_unsafe(members: Sequence[zipfile.ZipInfo], path: Path) -> None:
    if len(members) > MOST_FILES:
        raise BadInput(f"{path} holds {len(members):,} files; at most {MOST_FILES:,} are unpacked")
    seen: set[str] = set()
    for member in members:
        if problem := _problem(member):
            raise BadInput(f"{path}: {member.filename!r:.200} {problem}; nothing was unpacked")
        if member.filename in seen:
            raise BadInput(f"{path}: {member.filename!r:.200} is in it twice; nothing was unpacked")
        seen.add(member.filename)


def _refuse_bombs(members: Sequence[zipfile.ZipInfo], path: Path) -> None:
    whole, most = sum(member.file_size for member in members), MOST_TIMES * path.stat().st_size + FREE_BYTES
    if whole > min(LARGEST, most):
        raise BadInput(f"{path} holds {whole:,} bytes; at most {min(LARGEST, most):,} are unpacked of it")


def _problem(member: zipfile.ZipInfo) -> str:
    """Return why a member is not unpacked; "" if it may be. What was packed elsewhere than on Unix names no kind of
    file."""
    name, kind = member.filename, stat.S_IFMT(member.external_attr >> 16)
    if name.startswith("/") or "\\" in name or ":" in name or not name.isprintable():
        return "is no path below the archive's own folder"
    if any(part in ("", ".", "..") for part in name.split("/")):
        return "leads out of the archive's own folder"
    if name.count("/") > DEEPEST:
        return f"is more than {DEEPEST} folders deep"
    if kind == stat.S_IFLNK:
        return "is a link"
    if kind not in (0, stat.S_IFREG):
        return "is no regular file"
    if member.compress_type not in _PACKED:
        return "is packed otherwise than stored or deflated"
    return "is encrypted" if member.flag_bits & _ENCRYPTED else ""


def _write(archive: zipfile.ZipFile, member: zipfile.ZipInfo, place: Path) -> None:
    """Write never more bytes than the archive's directory says, whatever comes out."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as packed, place.open("xb") as file:
        written = 0
        while piece := packed.read(PIECE_BYTES):
            written += len(piece)
            if written > member.file_size:
                raise zipfile.BadZipFile(f"{member.filename!r} is longer than it says")
            file.write(piece)


class _Little(io.BufferedIOBase):
    """A file of which nobody reads much at once: an archive says itself how large the directory is that is held."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int | None = -1) -> bytes:
        wanted = MOST_AT_ONCE + 1 if size is None or size < 0 else min(size, MOST_AT_ONCE + 1)
        data = self._file.read(wanted)
        if len(data) > MOST_AT_ONCE:
            raise zipfile.BadZipFile(f"it has a directory of more than {MOST_AT_ONCE:,} bytes")
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True
