"""Reads and writes files where somebody else may have put something odd: a pipe, a device, a link, or gigabytes.

Whatever is read of a run's directory is opened here, so that none of it leads out of the directory:
:func:`below` and :func:`listed` give the paths, :func:`opened` and what stands on it reads them.

Whatever is refused is one sentence (:class:`chaos.errors.BadInput`), before a byte of it is read; nothing here waits
for another process. What is not JSON at all is damage instead (:class:`chaos.errors.DamagedHistory`).
"""

from __future__ import annotations

import json
import os
import stat
from errno import ELOOP
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from chaos.errors import BadInput, DamagedHistory, MachineError

#: No JSON file of ours comes near this; nor does any stream of rows that fits into memory near the other.
LARGEST_JSON = 32 << 20
LARGEST_ROWS = 4 << 30
#: What is read a piece at a time may be as large as a disk.
LARGEST_STREAM = 1 << 44
#: Our own JSON is nested a few levels deep. More than this could exhaust the stack of the code that walks through it.
DEEPEST = 100

_KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISDIR, "a directory"),
)


def below(root: Path, name: str) -> Path:
    """Return the path of ``name`` (with ``/`` between its parts) in the folder ``root``, which may be a link itself.
    Raises :class:`BadInput` for a name that leads elsewhere, and where a folder on the way is a link, or is none."""
    parts = PurePosixPath(name).parts
    if not is_below(name):
        raise BadInput(f"{name!r} is no path below {root}")
    path = root
    for part in parts[:-1]:
        path = path / part
        _check_folder(path)
    return root / name


def is_below(name: str) -> bool:
    """Return whether a name is a path that stays in the folder from which it is read."""
    parts = name.split("/")
    return not any(part in ("", ".", "..") or "\0" in part for part in parts)


def listed(root: Path, folder: str, suffix: str) -> list[str]:
    """Return what has this suffix in a folder of ``root``, as sorted paths below ``root``; nothing where there is no
    such folder. Raises :class:`BadInput` where a link or a file stands in its place."""
    place = root / folder
    if not _check_folder(place):
        return []
    return sorted(f"{folder}/{entry}" for entry in os.listdir(place) if entry.endswith(suffix))


def _check_folder(path: Path) -> bool:
    """Return whether there is a folder. Raises :class:`BadInput` where it is something else."""
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    if not stat.S_ISDIR(mode):
        what = next((words for is_it, words in _KINDS if is_it(mode)), "a file")
        raise BadInput(f"{path} is {what}; only a folder is read there")
    return True


def is_there(path: Path) -> bool:
    """Return whether anything has this name, be it a link that leads nowhere."""
    return os.path.lexists(path)


def vetted(path: Path, most: int = LARGEST_STREAM) -> Path:
    """Return a path that a library opens itself, if a regular file of at most ``most`` bytes stands there. Raises as
    :func:`opened`."""
    opened(path, most).close()
    return path


def appended(path: Path) -> int:
    """Open a descriptor that appends to a regular file, which is made if there is none; of a file with several names,
    of which others may belong to somebody else, none is altered. Raises :class:`MachineError` for anything else,
    ``OSError`` for what can't be opened."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        handle = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno == ELOOP:
            raise MachineError(f"{path} is a link; only a regular file is written to") from error
        raise
    found = os.fstat(handle)
    if stat.S_ISREG(found.st_mode) and found.st_nlink <= 1:
        return handle
    os.close(handle)
    if stat.S_ISREG(found.st_mode):
        raise MachineError(
            f"{path} has another name too (a hard link), so nothing is written to it: copy the run first"
        )
    raise MachineError(f"{path} is no regular file; only such a one is written to")


def created(path: Path) -> BinaryIO:
    """Make a file that isn't there yet, to be written. Raises ``OSError``, where anything has its name too."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), "wb")


def opened(path: Path, most: int, *, links: bool = False) -> BinaryIO:
    """Open a regular file of at most ``most`` bytes. ``links``: a link that leads to such a file will do too. Raises
    :class:`BadInput` for anything else, ``OSError`` for what can't be opened."""
    _check(path, os.stat(path, follow_symlinks=links), most)
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if links else os.O_NOFOLLOW))
    try:
        _check(path, os.fstat(handle), most)  # it may have changed meanwhile
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def _check(path: Path, found: os.stat_result, most: int) -> None:
    for is_it, words in _KINDS:
        if is_it(found.st_mode):
            raise BadInput(f"{path} is {words}; only a regular file is read")
    if found.st_size > most:
        raise BadInput(f"{path} has {found.st_size:,} bytes; at most {most:,} are read")


def read(path: Path, most: int = LARGEST_JSON, *, links: bool = False) -> bytes:
    """Return what is in a file. Raises as :func:`opened` does."""
    with opened(path, most, links=links) as file:
        return file.read(os.fstat(file.fileno()).st_size)  # of ``most`` bytes so much memory would be taken at once


def read_json(path: Path) -> Any:
    """Return the value in a JSON file. Raises as :func:`opened` does, and as :func:`parsed`."""
    return parsed(read(path), str(path))


def parsed(text: str | bytes, what: str) -> Any:
    """Return a JSON value whose numbers are finite, whose texts are Unicode, and through which anybody can walk. Raises
    :class:`DamagedHistory` for what is not JSON, :class:`BadInput` for what nobody should try to hold."""
    try:
        value = json.loads(text, parse_constant=_no_number)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DamagedHistory(f"{what} is not JSON: {error}") from error
    except RecursionError:
        raise BadInput(f"{what} is nested too deeply") from None
    except ValueError as error:  # an integer of five thousand digits
        raise BadInput(f"{what} holds what is not a number to us: {error}") from error
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for one in level for inner in _inside(one, what)]
        if not level:
            return value
    raise BadInput(f"{what} is nested too deeply")


def _inside(value: object, what: str) -> list[Any]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:  # half of a surrogate pair: nobody could print it
            raise DamagedHistory(f"{what} holds a text that is no Unicode") from error
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        raise DamagedHistory(f"{what} holds a number that is too large")
    return value if isinstance(value, list) else []


def misfit(value: Any, form: Any) -> str:
    """Where a JSON value has another form than expected, as a path; "" where it fits. A form is a type, a list of one
    form, or a dictionary of forms, where a key with ``?`` at its end may be missing, and ``*`` stands for any key."""
    if isinstance(form, type):
        fits = isinstance(value, form) and (form is bool or not isinstance(value, bool))
        return "" if fits else f" is no {form.__name__}"
    if isinstance(form, list):
        if not isinstance(value, list):
            return " is not a list"
        inner = ((f"[{at}]", one, form[0]) for at, one in enumerate(value))
    elif not isinstance(value, dict):
        return " is not an object"
    elif "*" in form:
        inner = ((f".{name}", one, form["*"]) for name, one in value.items())
    else:
        wanted = {name.removesuffix("?"): (name.endswith("?"), one) for name, one in form.items()}
        if missing := [name for name, (optional, _) in wanted.items() if not optional and name not in value]:
            return f" has no {missing[0]}"
        inner = ((f".{name}", value[name], one) for name, (_, one) in wanted.items() if name in value)
    return next((f"{place:.100}{found}" for place, one, its in inner if (found := misfit(one, its))), "")


def _no_number(word: str) -> None:
    raise json.JSONDecodeError(f"{word} is not a number", word, 0)


def replace(path: Path, data: bytes) -> None:
    """Put a file there in one step; a reader sees the old or the new content. What stands in its way, or in the way of
    the one that takes its place, is neither followed nor written to. Raises ``OSError``."""
    fresh = path.with_name(path.name + ".new")
    try:
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError:
        if fresh.is_file() and not fresh.is_symlink():
            fresh.unlink()
        raise


def write(path: Path, content: str | bytes) -> Path:
    """Put a file there as :func:`replace` does, and return its path. Raises :class:`MachineError`."""
    try:
        replace(path, content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise MachineError(f"cannot write {path}: {error.strerror or error}") from error
    return path
