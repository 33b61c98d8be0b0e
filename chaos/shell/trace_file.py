"""The file that a node's trace rows are appended to, a line each. Imports only the standard library."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from chaos.history.trace_lines import SPOILT, Encoder


class TraceFile:
    """Keeps the rows of a step until :meth:`write`, which appends them as one plain write. Where nobody wants them
    (``/dev/null``) they cost nothing."""

    def __init__(self, path: Path) -> None:
        self._is_wanted = path != Path(os.devnull)
        self._handle = _open(path)
        self._encoder = Encoder()
        self._rows: list[str] = []

    def add(self, row: Mapping[str, object]) -> None:
        if self._is_wanted:
            self._rows.append(self._encoder.encode(row))

    def write(self) -> None:
        """Append all rows so far. Raises ``OSError``; a line that it has cut short is never taken for a row, and what
        was to be written with it is lost."""
        if self._rows:
            data = memoryview("".join(self._rows).encode())
            self._rows.clear()
            try:
                while data:
                    data = data[os.write(self._handle, data) :]
            except OSError:
                self._encoder = Encoder()  # a header may be lost
                self._rows.append(SPOILT)
                raise


def _open(path: Path) -> int:
    """Open for appending. A last line that a kill has cut short is removed: nothing of its step ever left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    size = os.fstat(handle).st_size
    keep = size
    while keep and os.pread(handle, 1, keep - 1) != b"\n":
        back = max(0, keep - 65536)
        keep = back + os.pread(handle, keep - back, back).rfind(b"\n") + 1
    if keep < size:
        os.ftruncate(handle, keep)
    return handle
