"""Runs programs as a user without privileges: as nobody where the tests are root's, else as who we are."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOBODY = 65534
RUN_S = 240


@contextmanager
def folder_of_an_ordinary_user() -> Iterator[Path]:
    """One that belongs to this user; those of pytest are below folders that only root may enter."""
    with tempfile.TemporaryDirectory(prefix="stormproof-user-") as name:
        if os.geteuid() == 0:
            os.chown(name, NOBODY, NOBODY)
        yield Path(name)


def as_ordinary_user(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Python with these words, in this folder; it finds the checkout."""
    return command_of_ordinary_user(folder, python_of_ordinary_user(), *words, **environment(folder))


def command_of_ordinary_user(folder: Path, *words: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    """A command, in this folder, with no other environment than this."""
    own = _user() if os.geteuid() == 0 else {}
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=RUN_S, check=False, env=env, **own)


def environment(folder: Path) -> dict[str, str]:
    paths = [entry for entry in sys.path if entry.endswith("site-packages")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *paths]),
        "HOME": str(folder),
        "TMPDIR": str(folder),
    }


def _user() -> dict[str, object]:
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []}


@cache
def python_of_ordinary_user() -> str:
    """A Python of our version that this user can start; one in a home of root's can't be."""
    for python in (sys.executable, "/usr/bin/python3", f"/usr/bin/python3.{sys.version_info.minor}"):
        version = "import sys; print(sys.version_info[:2])"
        own = _user() if os.geteuid() == 0 else {}
        try:
            told = subprocess.run([python, "-c", version], capture_output=True, text=True, check=False, cwd="/", **own)
        except OSError:
            continue
        if told.stdout.strip() == str(sys.version_info[:2]):
            return python
    pytest.skip(f"user {NOBODY} can start no Python {sys.version_info[0]}.{sys.version_info[1]} here")
