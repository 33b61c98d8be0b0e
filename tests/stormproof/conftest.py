"""What the tests of the command line share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

Begin = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Start a command in the test's folder; what still runs at the test's end is killed."""
    begun: list[subprocess.Popen[str]] = []

    def start(*words: str, **environment: str) -> subprocess.Popen[str]:
        popen = subprocess.Popen(
            [sys.executable, "-P", "-m", "stormproof", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        begun.append(popen)
        return popen

    yield start
    for popen in begun:
        if popen.poll() is None:
            popen.kill()
        popen.communicate()
