"""Brings what was installed on this machine to a host, once: the folder there is named after the content."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import threading
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from chaos.program import Installation

#: So much goes over at once.
PIECE_BYTES = 1 << 20
_packing = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """A folder as a tar archive that was packed by gzip, and the SHA-256 of the tar archive (bare lower-case hex)."""

    data: bytes
    digest: str


class Cargo:
    """What one host was brought. ``ask``: has its agent do something; see :mod:`chaos.machines.ssh.systems`. Threads
    may share it."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._there: dict[Path, str] = {}

    def bring(self, installed: Installation) -> str:
        """Return the folder in which the host has it. Raises as ``ask`` does, and ``OSError`` when it can't be read
        here."""
        with self._lock:
            folder = installed.folder
            if folder not in self._there:
                with _packing:  # several hosts want the same
                    archive = packed(folder)
                name = f"{re.sub(r'[^A-Za-z0-9_.-]', '-', installed.title)}-{archive.digest[:16]}"
                self._there[folder] = str(self._ask("system", name=name) or self._send(name, archive))
            return self._there[folder]

    def _send(self, name: str, archive: Archive) -> str:
        for begin in range(0, len(archive.data), PIECE_BYTES):
            self._ask("piece", name=name, data=b64encode(archive.data[begin : begin + PIECE_BYTES]).decode())
        return str(self._ask("unpack", name=name, digest=archive.digest))


@cache
def packed(folder: Path) -> Archive:
    """Pack a folder. The same content makes the same digest: files are sorted, nobody's, and of no time."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", dereference=True) as archive:
        for path in sorted(folder.rglob("*")):
            entry = archive.gettarinfo(str(path), str(path.relative_to(folder)))
            entry.uid = entry.gid = entry.mtime = 0
            entry.uname = entry.gname = ""
            entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
            with path.open("rb") if entry.isfile() else io.BytesIO() as content:
                archive.addfile(entry, content)
    data = buffer.getvalue()
    return Archive(data=gzip.compress(data, 1, mtime=0), digest=sha256(data).hexdigest())
