"""The jar of the checker in Java: what it is built from, whether it is current.

``python -m checkers.linearizable`` builds it. Needs only ``javac``. The same sources give the same bytes; the jar
carries a digest of them as its version, so that a jar that is older than its sources is found before it judges
anything.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

from chaos.errors import MachineError
from chaos.judging.class_archive import JVM_OPTIONS, find_java
from chaos.judging.executors import shipped
from checkers.linearizable.paths import JAR, JVM

#: Of the packages in :data:`JVM`, the one that is compiled against Spark's jars; the others need the JDK alone.
ON_SPARK = Path("stormproof", "spark")
RELEASE = "17"
MAIN = "stormproof.Main"
VERSION_FILE = "stormproof.version"
COMPILE_TIMEOUT_S = 180
#: Zip files know no time before this one.
EPOCH = (1980, 1, 1, 0, 0, 0)
NO_JAVAC = (
    "the linearizability checker needs a Java compiler (javac, 17 or newer) to be built, and none was found: install it"
    " (Debian/Ubuntu: apt-get install openjdk-17-jdk-headless) and run `make setup`; `--engine python` does without"
)


def sources(*, on_spark: bool = False) -> list[Path]:
    """Return the Java sources that need the JDK alone, or those that need Spark, in a fixed order; none where only the
    jar was installed."""
    return sorted(path for path in JVM.rglob("*.java") if path.is_relative_to(JVM / ON_SPARK) == on_spark)


def wanted_version() -> str:
    """Return the version that the jar must have: a digest of the sources, "" where there are none to compare with."""
    found = [*sources(), *sources(on_spark=True)]
    digest = hashlib.sha256()
    for source in found:
        digest.update(f"{source.relative_to(JVM).as_posix()}\n".encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16] if found else ""


def path() -> Path:
    """Return where the jar is: beside this package, or, in a worker of Spark to which only that was sent, where Spark
    has put it."""
    return JAR if JAR.is_file() else shipped(JAR.name) or JAR


def jar_version() -> str:
    """Return the version that the jar says it has; "" when it is missing or damaged."""
    try:
        with zipfile.ZipFile(path()) as archive:
            return archive.read(VERSION_FILE).decode("ascii", "replace").strip()
    except (OSError, KeyError, zipfile.BadZipFile):
        return ""


def problem(version: str | None = None) -> str:
    """Say why the jar can't be used: a sentence, "" when it can. ``version`` is what a running checker says of itself;
    without it, the jar is asked."""
    if version is None and not path().is_file():
        return f"the checker's jar {JAR} is missing: build it with `python -m checkers.linearizable` (or `make setup`)"
    version = jar_version() if version is None else version
    wanted = wanted_version()
    if not version or (wanted and version != wanted):
        return (
            f"the checker's jar {JAR} is of version {version or 'unknown'}, expected {wanted or 'one that it names'}:"
            " build it again with `python -m checkers.linearizable` (or `make setup`)"
        )
    return ""


def find_javac() -> Path:
    """Return a compiler beside the Java that we use, or any other. Raises :class:`MachineError` when there is none."""
    candidates = []
    if home := os.environ.get("JAVA_HOME"):
        candidates.append(Path(home) / "bin" / "javac")
    try:
        candidates.append(find_java().parent / "javac")
    except MachineError:
        pass
    if on_path := shutil.which("javac"):
        candidates.append(Path(on_path))
    candidates += sorted(Path("/usr/lib/jvm").glob("*/bin/javac"), reverse=True)
    for candidate in candidates:
        if os.access(candidate, os.X_OK):
            return candidate.resolve()
    raise MachineError(NO_JAVAC)


def build(*, force: bool = False) -> str:
    """Build the jar unless it is current; return a note, "" when there is nothing to say. Raises
    :class:`MachineError` when it can't be built."""
    if not force and not problem():
        return ""
    core, on_spark = sources(), sources(on_spark=True)
    if not core:
        raise MachineError(f"there are no Java sources in {JVM}: install stormproof again")
    javac = find_javac()
    note = ""
    with tempfile.TemporaryDirectory(prefix="stormproof-jar-") as folder:
        classes = Path(folder)
        _compile(javac, core, classes, "")
        jars = _spark_jars()
        if on_spark and jars is not None:
            _compile(javac, on_spark, classes, f"{classes}{os.pathsep}{jars}/*")
        elif on_spark:
            note = "Spark is not installed: the jar has no part for it"
        _write(classes)
    return note


def _compile(javac: Path, files: list[Path], classes: Path, class_path: str) -> None:
    command = [str(javac), *(f"-J{option}" for option in JVM_OPTIONS)]
    command += ["--release", RELEASE, "-encoding", "UTF-8", "-nowarn", "-implicit:none"]
    command += ["-d", str(classes), "-cp", class_path or str(classes), *map(str, files)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"{javac} did not run: {error}") from error
    if done.returncode:
        raise MachineError(f"the checker's Java sources could not be compiled: {done.stderr.strip()[-1500:]}")


def _spark_jars() -> Path | None:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "jars"


def _write(classes: Path) -> None:
    """Write all classes as a jar, in one step, so that nobody ever reads half of one."""
    entries = {
        "META-INF/MANIFEST.MF": f"Manifest-Version: 1.0\r\nMain-Class: {MAIN}\r\n\r\n".encode(),
        VERSION_FILE: f"{wanted_version()}\n".encode(),
    }
    for path in sorted(classes.rglob("*.class")):
        entries[path.relative_to(classes).as_posix()] = path.read_bytes()
    fresh = JAR.with_suffix(f".{os.getpid()}.new")
    try:
        with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in entries.items():
                entry = zipfile.ZipInfo(name, EPOCH)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, content)
        fresh.replace(JAR)
    except OSError as error:
        raise MachineError(f"cannot write {JAR}: {error.strerror or error}") from error
    finally:
        fresh.unlink(missing_ok=True)
