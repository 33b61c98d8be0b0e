"""Holes in files: what nobody needs any more of a file to which somebody still appends goes back to the disk, and every
other byte keeps its place. Imports only the standard library."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_BLOCK = 4096
_KEEP_SIZE, _PUNCH_HOLE = 0x01, 0x02


def punch(path: Path, begin: int, end: int) -> None:
    """Give the whole blocks between these bytes of a file back to the disk. Raises ``OSError``, also where the file
    system can't do that."""
    offset = -(-begin // _BLOCK) * _BLOCK
    length = end // _BLOCK * _BLOCK - offset
    if length <= 0:
        return
    call = ctypes.CDLL(None, use_errno=True).fallocate
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if call(handle, _KEEP_SIZE | _PUNCH_HOLE, offset, length):
            raise OSError(ctypes.get_errno(), "the file keeps its blocks")
    finally:
        os.close(handle)
