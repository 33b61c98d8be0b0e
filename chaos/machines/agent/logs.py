"""What nodes write to their standard output, bounded: a program that floods its log fills no disk.

A log keeps its beginning and its end. What lies between is punched out of the file while the node goes on appending, so
that no writer notices and every byte keeps its place; :func:`close_up` takes the hole out when the node has ended.
Imports only the standard library.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from chaos.holes import punch

#: What is kept of the beginning, and of the end.
HEAD_BYTES = 4 << 20
TAIL_BYTES = 4 << 20
#: A hole is made or grows once the file takes so much more than it may.
SLACK_BYTES = 8 << 20


def end_of(path: Path, length: int) -> str:
    """Return the last bytes of a log as text; "" where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - length))
            return file.read(length).decode("utf-8", "replace").strip("\0 \r\n\t")
    except OSError:
        return ""


def rest_of(path: Path, begin: int) -> bytes:
    """Return the end of what follows the first ``begin`` bytes of a log, behind a line that says how much is left
    out."""
    try:
        with path.open("rb") as file:
            left = max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES - begin)
            file.seek(begin + left)
            end = file.read(TAIL_BYTES)
    except OSError:
        return b""
    return (_left_out(left) if left else b"") + end


def _left_out(length: int) -> bytes:
    return f"\n... {length} bytes were left out here ...\n".encode()


def says(path: Path, begin: int, pattern: str) -> bool:
    """Return whether a line from this byte on holds a match; of a log that is too long, a line of its beginning or its
    end."""
    wanted = re.compile(pattern)
    try:
        with path.open("rb") as file:
            file.seek(begin)
            text = file.read(HEAD_BYTES)
            last = file.seek(0, os.SEEK_END) - TAIL_BYTES
            if last > begin + len(text):
                file.seek(last)
                text += b"\n" + file.read(TAIL_BYTES)
    except OSError:
        return False
    return any(wanted.search(line) for line in text.decode("utf-8", "replace").splitlines())


def cap(path: Path) -> None:
    """Give the middle of a log back to the disk, if it takes more than it may; where the file system can't do that, it
    stays."""
    try:
        status = path.stat()
        if status.st_blocks * 512 <= HEAD_BYTES + TAIL_BYTES + SLACK_BYTES:
            return
        punch(path, HEAD_BYTES, status.st_size - TAIL_BYTES)
    except OSError:
        pass


def close_up(path: Path) -> None:
    """Take the hole out of the log of a node that has ended, and say how much is missing there."""
    try:
        status = path.stat()
        if status.st_size <= HEAD_BYTES + TAIL_BYTES + SLACK_BYTES:
            return
        part = path.with_suffix(".part")
        with path.open("rb") as file, part.open("wb") as short:
            short.write(file.read(HEAD_BYTES))
            short.write(_left_out(status.st_size - HEAD_BYTES - TAIL_BYTES))
            file.seek(status.st_size - TAIL_BYTES)
            short.write(file.read(TAIL_BYTES))
        part.replace(path)
    except OSError:
        pass
