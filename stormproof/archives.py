"""Runs in ZIP archives, as continuous-integration servers keep them: taken out into the folder of the runs.

An archive comes from elsewhere, so that nothing in it is trusted: no name leads out of its place, nothing but regular
files is made, and no more bytes than a run may have.
"""

from __future__ import annotations

import re
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from chaos import guarded
from chaos.errors import BadInput, MachineError
from chaos.history import directory

#: All files of one archive together, unpacked.
LARGEST = guarded.LARGEST_ROWS
#: A run has a file for each node and each shard, and an archive may have a hundred runs.
MOST_FILES = 20_000
PIECE_BYTES = 1 << 20
#: A name of a run that nothing takes for an option, a hidden file or a path.
RUN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", re.ASCII)
_ENCRYPTED = 1


def resolve_one(word: str, parent: Path) -> Path:
    """The one run that a user means, as :func:`resolve` says."""
    (found,) = resolve(word, parent, most=1)
    return found


def resolve(word: str, parent: Path, *, most: int = MOST_FILES) -> list[Path]:
    """The runs that a user means: as :func:`chaos.history.directory.resolve` says, or all that are in a ZIP archive,
    which are put into ``parent`` under their own names.

    Raises :class:`chaos.errors.BadInput` for what is no run, for an archive without one, with more than ``most`` runs
    or with anything unsafe in it, and where a run of that name is there already; :class:`chaos.errors.MachineError`
    when the disk is full.
    """
    path = Path(word)
    if word == directory.LATEST or not path.is_file() or not zipfile.is_zipfile(path):
        return [directory.resolve(word, parent)]
    try:
        with guarded.opened(path, LARGEST, links=True) as file, zipfile.ZipFile(file) as archive:
            return _unpack(archive, path, parent, most)
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise BadInput(f"{path} is a damaged archive: {error}") from error
    except OSError as error:
        raise MachineError(f"cannot unpack {path} in {parent}: {error.strerror or error}") from error


def _unpack(archive: zipfile.ZipFile, path: Path, parent: Path, most: int) -> list[Path]:
    members = [info for info in archive.infolist() if not info.is_dir()]
    _refuse_unsafe(members, path)
    folders = sorted(PurePosixPath(one.filename).parent for one in members if _name(one) == directory.META)
    if not folders:
        raise BadInput(f"{path} holds no run (no {directory.META})")
    places = [parent / _run_name(folder, path) for folder in folders]
    if len(set(places)) < len(places):
        raise BadInput(f"{path} holds several runs of one name")
    if len(places) > most:
        names = ", ".join(place.name for place in places[:3]) + (", …" if len(places) > 3 else "")
        raise BadInput(f"{path} holds {len(places)} runs ({names}); this command takes one: unpack it and name one")
    for place in places:
        if place.exists() or place.is_symlink():
            raise BadInput(f"{place} is there already: name it in the place of {path}, or remove it first")
    parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=parent))
    try:
        for folder, place in zip(folders, places, strict=True):
            for member, below in _inside(members, folder):
                _write(archive, member, fresh / place.name / below)
            (fresh / place.name).rename(place)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return places


def _name(member: zipfile.ZipInfo) -> str:
    return PurePosixPath(member.filename).name


def _run_name(folder: PurePosixPath, path: Path) -> str:
    """A run keeps its folder's name; one without a folder has the archive's."""
    name = folder.name or path.stem
    if not RUN_NAME.fullmatch(name):
        raise BadInput(f"{path}: {name!r} is no name for a run")
    return name


def _inside(members: Sequence[zipfile.ZipInfo], folder: PurePosixPath) -> Iterator[tuple[zipfile.ZipInfo, Path]]:
    """The files below a folder, each with its path from there."""
    for member in members:
        name = PurePosixPath(member.filename)
        if name.is_relative_to(folder):
            yield member, Path(name.relative_to(folder))


def _refuse_unsafe(members: Sequence[zipfile.ZipInfo], path: Path) -> None:
    if len(members) > MOST_FILES:
        raise BadInput(f"{path} holds {len(members):,} files; at most {MOST_FILES:,} are unpacked")
    whole = sum(member.file_size for member in members)
    if whole > LARGEST:
        raise BadInput(f"{path} holds {whole:,} bytes; at most {LARGEST:,} are unpacked")
    seen: set[str] = set()
    for member in members:
        if problem := _problem(member):
            raise BadInput(f"{path}: {member.filename!r} {problem}; nothing was unpacked")
        if member.filename in seen:
            raise BadInput(f"{path}: {member.filename!r} is in it twice; nothing was unpacked")
        seen.add(member.filename)


def _problem(member: zipfile.ZipInfo) -> str:
    """Why a member is not unpacked; "" if it may be. What was packed elsewhere than on Unix tells no kind of file."""
    name, kind = member.filename, stat.S_IFMT(member.external_attr >> 16)
    if name.startswith("/") or "\\" in name or ":" in name or not name.isprintable():
        return "is no path below the archive's own folder"
    if any(part in ("", ".", "..") for part in name.split("/")):
        return "leads out of the archive's own folder"
    if kind == stat.S_IFLNK:
        return "is a link"
    if kind not in (0, stat.S_IFREG):
        return "is no regular file"
    return "is encrypted" if member.flag_bits & _ENCRYPTED else ""


def _write(archive: zipfile.ZipFile, member: zipfile.ZipInfo, place: Path) -> None:
    """Never more bytes than the archive's directory says, whatever comes out."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as packed, place.open("xb") as file:
        written = 0
        while piece := packed.read(PIECE_BYTES):
            written += len(piece)
            if written > member.file_size:
                raise zipfile.BadZipFile(f"{member.filename!r} is longer than it says")
            file.write(piece)
