"""Programs with a system's own client library in Java: compiled where the system is installed, against its jars.

Their sources are in ``jvm/`` of the driver; those that all of them share are in ``jvm/stormproof/client`` here.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from chaos.errors import MachineError
from chaos.recipe import Recipe, Step
from drivers._java.maven import JAVA, LIB

#: In an installation: the sources of the program, and its classes.
CLIENTS, CLASSES = "clients", "clients/classes"
SOURCES = Path(__file__).parent / "jvm"
SHARED = "stormproof/client"
#: What the program finds its orders in.
ORDERS = "STORMPROOF_ORDERS"
_COMPILE = f"""\
command -v javac >/dev/null || exit 0
javac -nowarn -d {CLASSES} -cp "$0" $(find {CLIENTS} -name '*.java')
"""
_FLAGS = ("-Xms32m", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


def sources(folder: Path, package: str = "") -> Mapping[str, str]:
    """Return the sources in a folder, or those of one package there, as files of a recipe."""
    return {
        f"{CLIENTS}/{path.relative_to(folder).as_posix()}": path.read_text("utf-8")
        for path in sorted((folder / package).rglob("*"))
        if path.is_file()
    }


def compiles(jars: str) -> Step:
    """Return the step that compiles the sources against these jars, where this machine has a JDK."""
    return Step(
        command=("/bin/sh", "-c", _COMPILE, jars),
        does="compile the program with its own client",
        mend="is the disk full?",
    )


def java(installed: Recipe, program: str, *, flags: Sequence[str] = (), before: str = "") -> Sequence[str]:
    """Return how a program is started with the jars of the installation, and those that come ``before`` them. Raises
    :class:`MachineError` when it was not compiled."""
    lib, classes = installed.program(LIB), installed.folder / CLASSES
    if not classes.is_dir():
        raise MachineError(
            f"the program with the system's own client is not compiled for {installed.title}, since there was no javac"
            " when it was installed: install a JDK (Debian: apt-get install openjdk-17-jdk-headless), remove"
            f" {installed.folder}, and run `stormproof install {installed.system}@{installed.version}`"
        )
    found = shutil.which("java") or str(installed.folder / JAVA)
    return (found, *_FLAGS, *flags, "-cp", f"{classes}:{before}{lib}/*", program)
