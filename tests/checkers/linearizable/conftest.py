"""Lets the tests of this folder import ``brute_force`` and ``random_histories``, and compiles the tests in Java."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from checkers.linearizable import jar

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))


@pytest.fixture(scope="session")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checker in Java and its tests, compiled without any warning."""
    assert shutil.which("javac"), "the checker on the JVM needs a JDK of at least version 17"
    out = tmp_path_factory.mktemp("classes")
    sources = [*jar.sources(), *sorted((HERE / "java").glob("*.java"))]
    subprocess.run(["javac", "-Xlint:all", "-Werror", "-d", out, *sources], check=True)
    return out
