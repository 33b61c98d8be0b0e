"""The small files between a node and the harness: by these a node is sent something while it runs or is down, and
reports what it has noticed.

There are no others, and the harness names them: nothing that a node says ever becomes a path. Imports only the standard
library.
"""

from __future__ import annotations

import errno
import os
from enum import StrEnum
from pathlib import Path

#: A node's program may read what it is sent, no matter to which user it belongs.
_READABLE = 0o644


class NodeFile(StrEnum):
    """What such a file is for. The value is its suffix, after the node's name."""

    #: Written by the harness: :mod:`chaos.shell.membership`, :mod:`chaos.shell.clocks`, :mod:`chaos.shell.disk_rules`.
    MEMBERSHIP = "membership"
    CLOCK = "clock"
    DISK_RULES = "rules"
    #: Appended to by the node: :mod:`chaos.shell.disk_rules`.
    DISK_HITS = "hits"


def file_of(folder: Path, node: str, file: NodeFile) -> Path:
    """Return where it is, in the folder that holds the files of this node."""
    return folder / f"{node}.{file}"


def put(path: Path, content: bytes) -> None:
    """Replace the file in one step, since the node may look at any moment; without content it is removed. Raises
    ``OSError``."""
    if not content:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    with open(part, "wb", opener=_own_file) as file:
        file.write(content)
    part.chmod(_READABLE)
    part.replace(path)


def get(path: Path, begin: int = 0) -> bytes:
    """Return what is in the file from this byte on; nothing when there is no file. Raises ``OSError``."""
    try:
        with open(path, "rb", opener=_own_file) as file:
            file.seek(begin)
            return file.read()
    except FileNotFoundError:
        return b""


def _own_file(path: str, flags: int) -> int:
    """Open it, unless a node has put a link there to somewhere else; a pipe that it has put there holds nobody up."""
    try:
        return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, _READABLE)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(f"{path} is a link, which nobody of us has made") from error
        raise
