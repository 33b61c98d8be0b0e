"""Files in a folder that a system under test writes to as well: nothing that it puts there leads out of the folder.

Each part of a path is opened below the one before and never followed where it is a link, so that a program can't have
the harness, which may be somebody mightier, read or write elsewhere. Imports only the standard library.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

#: No program is followed deeper than this.
MOST_DEPTH = 32


@contextmanager
def folder_of(root: Path, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the open folder that holds the file of this relative path below ``root``, and the file's name in it. Raises
    ``OSError``."""
    parts = PurePosixPath(path).parts
    if not parts or ".." in parts or PurePosixPath(path).is_absolute():
        raise OSError(f"{path!r} is no relative path")
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=here)
            below = os.open(part, flags, dir_fd=here)
            os.close(here)
            here = below
        yield here, parts[-1]
    finally:
        os.close(here)


def write(root: Path, path: str, content: bytes) -> None:
    """Put a file there in the place of whatever stands there, and make the folders on the way. Raises ``OSError``."""
    with folder_of(root, path, make=True) as (folder, name):
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        made = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=folder)
        with os.fdopen(made, "wb") as file:
            file.write(content)


def read(root: Path, path: str, begin: int, length: int) -> bytes:
    """Return up to so many bytes of a regular file from this one on. Raises ``OSError``."""
    with folder_of(root, path) as (folder, name):
        found = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        with os.fdopen(found, "rb") as file:
            if not os.path.isfile(f"/proc/self/fd/{file.fileno()}"):
                raise OSError(f"{path} is not a file")
            file.seek(begin)
            return file.read(length)


def matching(root: Path, globs: Sequence[str]) -> dict[str, int]:
    """Return the size of each regular file below ``root`` whose path one of these matches, sorted by path. ``*`` stands
    for any part of a name, ``**`` for any folders."""
    wanted = [re.compile(_expression(glob)) for glob in globs]
    found = {}
    for path, size in _walk(root):
        if any(one.fullmatch(path) for one in wanted):
            found[path] = size
    return dict(sorted(found.items()))


def _walk(root: Path) -> Iterator[tuple[str, int]]:
    waiting = [(root, 0)]
    while waiting:
        folder, depth = waiting.pop()
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False) and depth < MOST_DEPTH:
                        waiting.append((Path(entry.path), depth + 1))
                    elif entry.is_file(follow_symlinks=False):
                        yield Path(entry.path).relative_to(root).as_posix(), entry.stat(follow_symlinks=False).st_size


def _expression(glob: str) -> str:
    """Return the regular expression of a glob."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", glob)
    known = {"**/": r"(?:.*/)?", "**": r".*", "*": r"[^/]*", "?": r"[^/]"}
    return "".join(known.get(part, re.escape(part)) for part in parts)
