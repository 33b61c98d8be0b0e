"""Compiles the checker in Java and its tests."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from chaos.judging.class_archive import JVM_OPTIONS
from checkers.linearizable import jar

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checker in Java and its tests, compiled without any warning: once for all processes that run tests."""
    assert shutil.which("javac"), "the checker on the JVM needs a JDK of at least version 17"
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with (shared / "classes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "classes").exists():
            sources = [*jar.sources(), *sorted((HERE / "java").glob("*.java"))]
            options = [f"-J{option}" for option in JVM_OPTIONS]
            subprocess.run(["javac", *options, "-Xlint:all", "-Werror", "-d", shared / "new", *sources], check=True)
            (shared / "new").rename(shared / "classes")
    return shared / "classes"
