"""What this machine can and can't do for Stormproof, and how to mend it."""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

JAVA_VERSION = 17
LEAST_FREE_BYTES = 2 * 2**30
LEAST_MEMORY_BYTES = 2 * 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """``ok`` with what was found, or what is missing, what that forbids, and how to mend it."""

    what: str
    ok: bool
    found: str
    mend: str = ""


def examine(out: Path) -> Iterator[Finding]:
    """Look at everything that some command needs; ``out`` is the folder of the runs."""
    yield from (check() for check in (_python, _packages, _java, _cores, _memory, _loopback, _signals))
    yield _disk(out)


def find_java() -> tuple[str, int]:
    """Path and major version of the Java that Spark would use; ("", 0) if there is none."""
    home = os.environ.get("JAVA_HOME")
    path = str(Path(home) / "bin" / "java") if home else shutil.which("java") or ""
    if not path:
        return "", 0
    try:
        told = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return "", 0
    version = re.search(r'version "(?:1\.)?(\d+)', told)
    return (path, int(version[1])) if version else ("", 0)


def _python() -> Finding:
    good = sys.version_info >= (3, 11)
    return Finding(what="Python", ok=good, found=platform.python_version(), mend="install Python 3.11 or newer")


def _packages() -> Finding:
    versions, missing = [], []
    for name in ("numpy", "pyarrow", "pyspark", "pydantic", "ruamel.yaml", "junitparser", "matplotlib", "jinja2"):
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
    found = f"missing: {', '.join(missing)}" if missing else ", ".join(versions)
    return Finding(what="Packages", ok=not missing, found=found, mend="install stormproof anew (`make setup`)")


def _java() -> Finding:
    path, version = find_java()
    found = f"{version} at {path}" if version else "none found"
    mend = (
        f"Spark needs Java {JAVA_VERSION} or newer: install it (Debian, Ubuntu: `apt-get install"
        " openjdk-17-jre-headless`) or set JAVA_HOME; until then use `--engine local`"
    )
    return Finding(what="Java", ok=version >= JAVA_VERSION, found=found, mend=mend)


def _cores() -> Finding:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    mend = "runs on processes share one core with what they test, and may stall: give the machine two"
    return Finding(what="Cores", ok=count >= 2, found=str(count), mend=mend)


def _memory() -> Finding:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return Finding(what="Memory", ok=True, found="unknown here")
    mend = "Spark takes about 1 GiB: end other programs, or use `--engine local`"
    return Finding(what="Memory", ok=free >= LEAST_MEMORY_BYTES, found=f"{free / 2**30:.1f} GiB free", mend=mend)


def _loopback() -> Finding:
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            found = f"listens on 127.0.0.1:{server.getsockname()[1]}"
        return Finding(what="Loopback", ok=True, found=found)
    except OSError as error:
        mend = "runs on processes need to listen on 127.0.0.1: allow it, or use `--on sim`"
        return Finding(what="Loopback", ok=False, found=str(error), mend=mend)


def _signals() -> Finding:
    good = sys.platform == "linux" and Path("/proc/self/environ").exists()
    mend = "runs on processes need Linux with /proc (to find and to heal nodes): use `--on sim` here"
    return Finding(what="Processes", ok=good, found=platform.platform(terse=True), mend=mend)


def _disk(out: Path) -> Finding:
    folder = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    free = shutil.disk_usage(folder).free
    writable = os.access(folder, os.W_OK)
    found = f"{free / 2**30:.1f} GiB free in {folder}" + ("" if writable else ", not writable")
    mend = "free some space (`stormproof clean --keep failed`), or choose another folder with --out"
    return Finding(what="Disk", ok=writable and free >= LEAST_FREE_BYTES, found=found, mend=mend)
