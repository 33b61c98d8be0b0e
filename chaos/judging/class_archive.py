"""The class-data archive that shortens Spark's start, and where Java is.

``python -m chaos.judging.class_archive`` builds it. The archive (JEP 350) holds the classes that a start of Spark
loads, parsed and laid out. It fits one Java and one set of jars; the file's name says which, so that an update of
either makes a new one and an old one is never read.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from chaos import plugins
from chaos.errors import BadInput, MachineError
from chaos.plugins import PluginKind

MINIMUM_JAVA = 17
BUILD_TIMEOUT_S = 180
#: Fast start matters more than peak speed: kernels run in Python workers, the JVM only starts them.
JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
ARCHIVE_VARIABLE = "STORMPROOF_ARCHIVE_AT_EXIT"
#: By this name the module of a law gives the jars that it needs where Spark is: a tuple of paths.
JARS = "JARS"
NO_JAVA = (
    "Spark needs Java 17 or newer, and none was found: install it (Debian/Ubuntu: apt-get install "
    "openjdk-17-jre-headless) or set JAVA_HOME; `--engine local` judges without Java"
)


def find_java() -> Path:
    """Return the ``java`` that Spark will start. Raises :class:`MachineError` when there is none."""
    home = os.environ.get("JAVA_HOME")
    candidates = [Path(home) / "bin" / "java"] if home else []
    on_path = shutil.which("java")
    candidates += [Path(on_path)] if on_path else []
    candidates += sorted(Path("/usr/lib/jvm").glob("*/bin/java"), reverse=True)
    for candidate in candidates:
        if os.access(candidate, os.X_OK) and _version(candidate) >= MINIMUM_JAVA:
            return candidate.resolve()
    raise MachineError(NO_JAVA)


def _version(java: Path) -> int:
    """Java's major version: from the ``release`` file beside it, or by asking it; -1 if it does not run."""
    release = java.resolve().parent.parent / "release"
    if release.is_file():
        text = release.read_text("utf-8", errors="replace")
    else:
        try:
            text = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20).stderr
        except (OSError, subprocess.TimeoutExpired):
            return -1
    found = re.search(r'(?:JAVA_VERSION=|version )"(\d+)', text)
    return int(found.group(1)) if found else -1


def law_jars() -> tuple[Path, ...]:
    """Return the jars that laws need in Spark's JVM, as far as they are built. A law that can't be loaded needs
    none."""
    found: list[Path] = []
    for name in plugins.names(PluginKind.LAW):
        try:
            found += getattr(plugins.load(PluginKind.LAW, name), JARS, ())
        except BadInput:
            continue
    return tuple(jar for jar in found if jar.is_file())


def archive_path() -> Path | None:
    """Where the archive for this Java and these jars belongs, whether or not it exists; None without Spark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        return None
    jars = Path(spec.submodule_search_locations[0]) / "jars"
    class_path = [*law_jars(), *sorted(jars.iterdir())]
    return path_for("spark", find_java(), class_path, JVM_OPTIONS)


def path_for(name: str, java: Path, class_path: Iterable[Path], options: Sequence[str]) -> Path:
    """Where the archive for a JVM with this class path and these options belongs, whether or not it exists."""
    identity = hashlib.sha256(" ".join((str(java), _stamp(java), *options)).encode())
    for jar in class_path:
        identity.update(f"{jar} {_stamp(jar)}\n".encode())
    return _folder() / f"{name}-{identity.hexdigest()[:20]}.jsa"


def _stamp(file: Path) -> str:
    stat = file.stat()
    return f"{stat.st_mtime_ns} {stat.st_size}"


def _folder() -> Path:
    """``.cache`` of a checkout; for an installed package the user's own cache."""
    root = Path(__file__).resolve().parents[2]
    if (root / "pyproject.toml").is_file():
        return root / ".cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stormproof"


def java_options(*, full_speed: bool = False, archived: bool = True) -> tuple[str, ...]:
    """Options for Spark's JVM: the archive if there is one for exactly this Java and these jars, unless ``archived`` is
    false. ``full_speed``: let the JVM compile for peak speed, where it is Java that works for long."""
    base = tuple(option for option in JVM_OPTIONS if not (full_speed and option.startswith("-XX:TieredStopAtLevel")))
    building = os.environ.get(ARCHIVE_VARIABLE)
    if building:
        return (*base, f"-XX:ArchiveClassesAtExit={building}")
    archive = archive_path() if archived else None
    if archive is not None and archive.is_file():
        return (*base, "-Xshare:auto", f"-XX:SharedArchiveFile={archive}")
    return base


def build_archive() -> Path | None:
    """Build the archive unless it exists: start Spark once, run a job, and let the JVM dump what it had loaded.

    Returns its path, or None when Spark is not installed. Raises :class:`MachineError` when Java is missing or the
    dump fails; Spark works without it, only its start takes longer.
    """
    archive = archive_path()
    if archive is None or archive.is_file():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    fresh = archive.with_suffix(f".{os.getpid()}.new")
    environment: Mapping[str, str] = {
        **os.environ,
        ARCHIVE_VARIABLE: str(fresh),
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
    }
    command = [sys.executable, "-c", "from chaos.judging.spark import rehearse; rehearse()"]
    try:
        # The JVM shares the pipe, so this returns only after it has ended and the dump is complete.
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S)
        if done.returncode or not fresh.is_file():
            raise MachineError(f"the class-data archive could not be made: {done.stderr.strip()[-500:]}")
        fresh.replace(archive)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"the class-data archive could not be made: {error}") from error
    finally:
        fresh.unlink(missing_ok=True)
    for old in archive.parent.glob("spark-*.jsa"):
        if old != archive:
            old.unlink(missing_ok=True)
    return archive


if __name__ == "__main__":
    try:
        build_archive()
    except MachineError as problem:
        print(problem, file=sys.stderr)
        sys.exit(3)
