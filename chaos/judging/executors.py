"""What our packages do first in a worker of Spark: compare its versions with the driver's, and find what to run.

Needs nothing but the standard library to be imported, so that it can say what a worker lacks.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

#: What has to be of one version (of its major and minor part) on all executors, besides Python: what they send one
#: another, and what kernels compute with.
LIBRARIES = ("pyspark", "pyarrow", "numpy")


@dataclass(frozen=True, slots=True)
class Unlike:
    """Instead of a result: why the worker's would not be worth anything. It is returned, not raised: another try on a
    better executor would hide it."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Remote:
    """A function of a module of ours, to be called by name once the worker has proven to be like the driver."""

    module: str
    function: str
    versions: Mapping[str, str]

    def __call__(self, *given: Any) -> Any:
        if wrong := differences(tuple(sorted(self.versions.items()))):
            return Unlike(wrong)
        return getattr(importlib.import_module(self.module), self.function)(*given)


@dataclass(frozen=True, slots=True)
class Probe:
    """A task that only says in what an executor differs; "" when in nothing."""

    versions: Mapping[str, str]

    def __call__(self, _: int) -> str:
        return differences(tuple(sorted(self.versions.items())))


def versions() -> dict[str, str]:
    """Return what is installed in this process, by name; "" where it can't be imported."""
    found = {"Python": f"{sys.version_info[0]}.{sys.version_info[1]}"}
    return found | {name: _version(name) for name in LIBRARIES}


def _version(name: str) -> str:
    try:
        return str(importlib.import_module(name).__version__)
    except Exception:  # a library that is broken can raise anything, and is as good as none
        return ""


@cache
def differences(wanted: tuple[tuple[str, str], ...]) -> str:
    """In what this worker differs from the driver, whose versions are given, as one sentence; "" if in nothing."""
    here = versions()
    wrong = [
        f"{name} {here[name]}, not {version}" if here.get(name) else f"no {name} (wanted: {version})"
        for name, version in wanted
        if _rank(here.get(name, "")) != _rank(version)
    ]
    if not wrong:
        return ""
    where = f"{socket.gethostname()}, {os.path.realpath(sys.executable)}"
    return f"an executor ({where}) has {', '.join(wrong)}: both sides need the same versions"


def _rank(version: str) -> list[str]:
    return version.split(".")[:2]


def shipped(name: str) -> Path | None:
    """Return the file of this name that Spark has brought to this process, as a jar of the session, say; None where it
    has not, as in any process that is no worker of Spark."""
    files = getattr(sys.modules.get("pyspark.files"), "SparkFiles", None)
    folder = getattr(files, "_root_directory", None) if getattr(files, "_is_running_on_worker", False) else None
    path = Path(folder, name) if folder else None
    return path if path is not None and path.is_file() else None
