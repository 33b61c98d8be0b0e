"""The JVM that the checker in Java works in: packed bytes go in, JSON comes out, over py4j.

It is started when it is first needed, one for each process, and ends with that: so a worker of Spark has its own.
"""

from __future__ import annotations

import atexit
import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chaos.errors import BadInput, MachineError
from chaos.judging import class_archive
from checkers.linearizable import jar
from checkers.linearizable.batches import Jvm, JvmDied
from checkers.linearizable.limits import Limits

#: What a JVM takes beside its heap: classes, compiled code, stacks.
BESIDE_HEAP_MIB = 64
#: The part of the heap for short-lived objects; the rest is for the large arrays of the searches.
YOUNG_PART = 8
JVM_OPTIONS = (
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-XX:TieredStopAtLevel=4",
    "-XX:+DisplayVMOutputToStderr",
    "-Xss1m",
    "-Xlog:disable",
    "-Xlog:all=off",
)


class Gateway:
    """A JVM of our own with so much memory in all. Raises :class:`chaos.errors.MachineError` when it does not start."""

    def __init__(self, memory_mib: int, dump: Path | None = None) -> None:
        """``dump``: where the JVM is to leave a class-data archive when it ends."""
        from py4j.java_gateway import GatewayParameters, JavaGateway, find_jar_path, launch_gateway

        self.memory_mib = memory_mib
        self.pid = os.getpid()
        java = class_archive.find_java()
        heap_mib = max(memory_mib - BESIDE_HEAP_MIB, memory_mib // 2)
        self._heap_bytes = heap_mib * 2**20
        options = [*JVM_OPTIONS, f"-Xmx{heap_mib}m", f"-Xmn{max(heap_mib // YOUNG_PART, 2)}m"]
        options += _archive_options(java, dump)
        with tempfile.TemporaryFile("w+", prefix="stormproof-java-") as said:
            try:
                port, token, self._process = launch_gateway(
                    jarpath=find_jar_path(),
                    classpath=str(jar.path()),
                    javaopts=options,
                    java_path=str(java),
                    die_on_exit=True,
                    enable_auth=True,
                    return_proc=True,
                    redirect_stderr=said,
                )
            except Exception as error:  # whatever it is that a JVM that does not start makes of py4j
                said.seek(0)
                words = " ".join(said.read().split())[:300] or str(error)
                raise MachineError(f"the checker in Java did not start ({java}): {words}") from error
        parameters = GatewayParameters(port=port, auth_token=token, auto_convert=False)
        self._gateway = JavaGateway(gateway_parameters=parameters)
        try:
            self._checker = self._gateway.jvm.stormproof.Checker
            if wrong := jar.problem(self._checker.version()):
                raise MachineError(wrong)
        except BaseException as error:
            self.kill()
            if isinstance(error, MachineError):
                raise
            raise MachineError(f"the checker in Java did not start: {error}") from error

    @property
    def process_id(self) -> int:
        return int(self._process.pid)

    def alive(self) -> bool:
        return bool(self._process.poll() is None) and self.pid == os.getpid()

    def check(self, batch: bytes, limits: Limits) -> str:
        return _call(self._checker, batch, self._heap_bytes, limits, self._ending)

    def _ending(self) -> str:
        try:
            status = self._process.wait(timeout=2)
        except Exception:
            return "it can't be reached any more"
        return f"its JVM was ended by signal {-status}" if status < 0 else f"its JVM ended with status {status}"

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Have it end by itself."""
        self._gateway.close()
        self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except Exception:
            self.kill()


def is_usable(jvm: Any) -> bool:
    """Return whether a JVM, of Spark say, has our checker on its class path."""
    try:
        return not jar.problem(jvm.stormproof.Checker.version())
    except Exception:  # its class path has no jar of ours
        return False


def _call(checker: Any, batch: bytes, memory_bytes: int, limits: Limits, ending: Callable[[], str]) -> str:
    return translated(
        lambda: checker.check(
            batch, float(limits.time_limit_s), memory_bytes, limits.threads, limits.every_key, limits.orders
        ),
        ending,
    )


def translated(ask: Callable[[], str], ending: Callable[[], str]) -> str:
    """Return what Java answers; raise what it throws as an error of ours. ``ending`` says how the JVM ended, if so."""
    from py4j.protocol import Py4JError, Py4JJavaError

    try:
        return ask()
    except Py4JJavaError as error:
        thrown = error.java_exception
        cause = thrown
        while cause.getCause() is not None:
            cause = cause.getCause()
        if cause.getClass().getName() == "java.lang.IllegalArgumentException":
            raise BadInput(str(cause.getMessage())) from error
        raise JvmDied(f"it threw {cause.toString()}") from error
    except (Py4JError, OSError, EOFError) as error:
        raise JvmDied(ending()) from error


def _archive_options(java: Path, dump: Path | None) -> list[str]:
    if dump is not None:
        return [f"-XX:ArchiveClassesAtExit={dump}"]
    archive = archive_path(java)
    return ["-Xshare:auto", f"-XX:SharedArchiveFile={archive}"] if archive.is_file() else []


def archive_path(java: Path) -> Path:
    """Return where the class-data archive for this Java and these jars belongs, whether or not it exists."""
    from py4j.java_gateway import find_jar_path

    return class_archive.path_for("checker", java, [Path(find_jar_path()), jar.path()], JVM_OPTIONS)


_lock = threading.Lock()
_own: Gateway | None = None


def jvm(memory_mib: int) -> Jvm:
    """Return our JVM, started if need be."""
    global _own
    with _lock:
        if _own is not None and (not _own.alive() or _own.memory_mib != memory_mib):
            old, _own = _own, None
            if old.alive():
                old.close()
        if _own is None:
            _own = Gateway(memory_mib)
        return _own


def forget() -> None:
    """End the JVM of our own at once, if there is one; the next check starts another."""
    global _own
    with _lock:
        old, _own = _own, None
    if old is not None and old.pid == os.getpid():
        old.kill()


atexit.register(forget)
