"""The programs of others that a host was brought, each in a folder that its content names. For a host's agent.

Imports only the standard library."""

from __future__ import annotations

import gzip
import io
import os
import re
import shutil
import tarfile
import tempfile
from base64 import b64decode
from hashlib import sha256
from pathlib import Path

_NAME = re.compile(r"(?!\.)[\w.-]+")


class Systems:
    """Commands: the methods whose names begin with ``do_``. ``root``: our folder on the host."""

    def __init__(self, root: Path) -> None:
        self._root = root / "systems"
        self._pieces: dict[str, list[bytes]] = {}

    def do_system(self, name: str) -> str:
        """Return where it is; "" when the host lacks it."""
        self._pieces.pop(name, None)
        folder = self._folder(name)
        return str(folder) if folder.is_dir() else ""

    def do_piece(self, name: str, data: str) -> None:
        """Take one piece more of its archive, in base 64."""
        self._pieces.setdefault(name, []).append(b64decode(data))

    def do_unpack(self, name: str, digest: str) -> str:
        """Unpack what has come, a tar archive with this SHA-256 that was packed by gzip; return where it is now. All or
        nothing: who finds the folder can use it."""
        folder, data = self._folder(name), gzip.decompress(b"".join(self._pieces.pop(name, [])))
        if sha256(data).hexdigest() != digest:
            raise OSError(f"{name} was damaged on its way")
        self._root.mkdir(parents=True, exist_ok=True)
        part = tempfile.mkdtemp(dir=self._root)
        try:
            with tarfile.open(fileobj=io.BytesIO(data)) as archive:
                safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
                archive.extractall(part, _plain(archive.getmembers()), **safe)  # type: ignore[arg-type]
            os.chmod(part, 0o755)
            try:
                os.rename(part, folder)
            except OSError:
                if not folder.is_dir():  # another run was faster otherwise
                    raise
        finally:
            shutil.rmtree(part, ignore_errors=True)
        return str(folder)

    def _folder(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a name of a system")
        return self._root / name


def _plain(members: list[tarfile.TarInfo]) -> list[tarfile.TarInfo]:
    """Return the same members. Raises ``OSError`` for what our archives never hold: anything but files and folders,
    which a link could lead out of the folder, and names that lead out of it. Pythons before 3.11.4 have no filter of
    their own."""
    for member in members:
        parts = member.name.split("/")
        if not (member.isreg() or member.isdir()) or ".." in parts or member.name.startswith("/"):
            raise OSError(f"{member.name!r} is neither a file nor a folder below that of the system")
    return members
