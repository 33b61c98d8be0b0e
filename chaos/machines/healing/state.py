"""The user's own folder of what runs may have left behind. Nobody else can write there, so what stands in it is
believed; what stands in a run's directory, which may have come from anywhere, is not.

It is ``STORMPROOF_STATE`` (``--state DIR``), else ``stormproof`` in ``XDG_STATE_HOME``, which is ``~/.local/state``
unless it is set.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos.errors import MachineError

VARIABLE = "STORMPROOF_STATE"
NAME = "stormproof"
#: What others may do in it: nothing.
OTHERS = 0o077


def place() -> Path:
    """Return where it is, or would be. Raises :class:`MachineError` for a user who has no home."""
    given, base = os.environ.get(VARIABLE, ""), os.environ.get("XDG_STATE_HOME", "")
    try:
        path = Path(given) if given else (Path(base) if os.path.isabs(base) else Path.home() / ".local/state") / NAME
    except RuntimeError as error:
        raise _refused("", "this user has no home directory") from error
    if not path.is_absolute():
        raise _refused(path, "it is no absolute path")
    return path


def folder() -> Path:
    """Return the folder, made if need be. Raises :class:`MachineError`: why it can't serve, and what to do."""
    path = place()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.lstat()
    except OSError as error:
        raise _refused(path, error.strerror or str(error)) from error
    if not stat.S_ISDIR(found.st_mode):
        raise _refused(path, "it is a link, and only a directory is believed")
    if found.st_uid != os.getuid():
        raise _refused(path, f"it belongs to user {found.st_uid}, and this is user {os.getuid()}")
    if found.st_mode & OTHERS:
        raise _refused(path, f"others may enter it: `chmod 700 {path}`, once you know what is in it")
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise _refused(path, "it can't be written to")
    return path


def problem() -> str:
    """Return why there is none, and what to do; "" if there is one."""
    try:
        folder()
    except MachineError as error:
        return str(error)
    return ""


@contextmanager
def using(path: Path) -> Iterator[None]:
    """Have this folder serve, here and in processes that are started meanwhile."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(path.absolute())
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def _refused(path: Path | str, why: str) -> MachineError:
    where = f" {path}" if path else ""
    return MachineError(
        f"the state folder{where}, where a run notes what it may leave behind, can't serve: {why}; name a folder of"
        f" yours with mode 0700 by `--state DIR` or {VARIABLE}"
    )
