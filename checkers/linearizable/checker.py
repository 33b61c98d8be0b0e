"""Histories of registers, locks, maps, queues and metadata are judged by a search, in Java where there is Java.

This is the only file that touches the JVM: packed bytes go in, JSON comes out, over py4j. The Spark session's JVM is
used where one is up; else one of our own is started when it is first needed, and ends with this process.
"""

from __future__ import annotations

import atexit
import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from chaos.errors import BadInput, MachineError
from chaos.judging import class_archive
from chaos.verdict import Anomaly, Validity, Verdict, worst
from checkers.linearizable import jar
from checkers.linearizable.batches import Jvm, JvmDied, Stream, history_of, result_of, vacuous
from checkers.linearizable.formats import files
from checkers.linearizable.formats.operation_mapping import Shape, first_state, show
from checkers.linearizable.history import History, Result
from checkers.linearizable.law import NOT_LINEARIZABLE, PROMISE
from checkers.linearizable.limits import ENGINES, LEAST_MEMORY_MIB, MEMORY_MIB, TIME_LIMIT_S, Limits
from checkers.linearizable.packing import pack
from checkers.linearizable.python.checker import examine as examine_in_python
from checkers.linearizable.witness import explanation as explain

#: What a JVM takes beside its heap: classes, compiled code, stacks.
BESIDE_HEAP_MIB = 64
#: The part of the heap for short-lived objects; the rest is for the large arrays of the searches.
YOUNG_PART = 8
#: So much of the heap of Spark's JVM may be used: Spark needs the rest.
SPARK_PART = 0.4
#: The models that :func:`check_keys` knows, memory for one key, and how many results are reported of each part.
KEY_MODELS = ("register", "cas-register", "kv", "mutex", "fifo-queue", "counter")
KEY_MEMORY_MIB = 128
MAX_REPORTED_PER_PART = 4
#: Memory of the JVM that makes the class-data archive.
REHEARSAL_MIB = 256
JVM_OPTIONS = (
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-XX:TieredStopAtLevel=4",
    "-XX:+DisplayVMOutputToStderr",
    "-Xss1m",
    "-Xlog:disable",
    "-Xlog:all=off",
)


def check(
    history: History | Path | str | Sequence[Mapping[str, Any]],
    model: str = "",
    *,
    time_limit_s: float = TIME_LIMIT_S,
    memory_mib: int = MEMORY_MIB,
    threads: int = 0,
    engine: str = "auto",
) -> Verdict:
    """Judge a history: one in memory, a list of events (mappings with ``process``, ``type``, ``f``, ``value``, perhaps
    ``key``), or a file of any known format; of a file with several, the worst counts.

    ``model`` is one of :data:`checkers.linearizable.models.MODELS`; it may be left out where the history knows it.
    Never runs past its limits: what can't be decided within them, or for want of a working checker, is UNKNOWN, and
    ``why`` says so. Raises :class:`chaos.errors.BadInput` for a history that makes no sense.
    """
    limits = Limits(time_limit_s=time_limit_s, memory_mib=memory_mib, threads=threads)
    histories = list(_histories(history, model))
    try:
        results = list(_examine(histories, limits, engine))
    except MachineError as error:
        return Verdict(law=PROMISE.name, validity=Validity.UNKNOWN, why=str(error))
    return _verdict(histories, results)


def examine(
    histories: Iterable[History],
    *,
    time_limit_s: float = TIME_LIMIT_S,
    memory_mib: int = MEMORY_MIB,
    threads: int = 0,
    every_key: bool = False,
    orders: bool = False,
    engine: str = "auto",
) -> Iterator[Result]:
    """Judge many histories; results come one by one, in the same order, while further histories are still being read.

    ``time_limit_s`` is for each history, ``memory_mib`` for the JVM, ``threads`` 0 means all cores. ``every_key``: go
    on after a violation, until each object has a verdict; ``orders``: tell a linearization of each object. ``engine``:
    jvm, python, or auto, which is the JVM unless there is no Java at all. A JVM that dies leaves the history that it
    was at undecided, and is started again for the others. Raises :class:`chaos.errors.MachineError` when Java or the
    jar is missing or the jar is of another version.
    """
    limits = Limits(
        time_limit_s=time_limit_s, memory_mib=memory_mib, threads=threads, every_key=every_key, orders=orders
    )
    return _examine(histories, limits, engine)


def _examine(histories: Iterable[History], limits: Limits, engine: str) -> Iterator[Result]:
    if engine not in ENGINES:
        raise BadInput(f"expected an engine ({', '.join(ENGINES)}), got {engine!r}")
    if limits.memory_mib < LEAST_MEMORY_MIB:
        raise BadInput(f"expected at least {LEAST_MEMORY_MIB} MiB of memory, got {limits.memory_mib}")
    if not limits.time_limit_s > 0:
        raise BadInput(f"expected a time limit above 0 s, got {limits.time_limit_s}")
    if engine == "python" or (engine == "auto" and not _has_java()):
        return _in_python(histories, limits)
    if wrong := jar.problem():
        raise MachineError(wrong)
    class_archive.find_java()
    return Stream(limits, lambda: _jvm(limits.memory_mib), forget).results(histories)


def _has_java() -> bool:
    try:
        class_archive.find_java()
    except MachineError:
        return False
    return True


def _in_python(histories: Iterable[History], limits: Limits) -> Iterator[Result]:
    for history in histories:
        result = vacuous(history) or examine_in_python(
            history,
            max_configs=limits.memory_mib * 4096,
            max_seconds=limits.time_limit_s,
            every_key=limits.every_key,
            orders=limits.orders,
        )
        yield replace(result, id=history.id)


def _histories(history: History | Path | str | Sequence[Mapping[str, Any]], model: str) -> Iterator[History]:
    if isinstance(history, History):
        yield replace(history, model=model) if model else history
    elif isinstance(history, str | os.PathLike):
        yield from files.read(history, "", model)
    else:
        yield files.of_events(history, model)


def _verdict(histories: Sequence[History], results: Sequence[Result]) -> Verdict:
    anomalies = []
    for history, result in zip(histories, results, strict=True):
        if result.valid is False:
            rows = explain.rows(history, result)
            explanation = explain.sentence(history, result)
            anomalies.append(Anomaly(law=PROMISE.name, name=NOT_LINEARIZABLE, explanation=explanation, rows=rows))
    why = [explain.undecided(result) for result in results if result.valid is None]
    counts = {
        "histories": len(histories),
        "operations": sum(len(history.operations) for history in histories),
        "objects": sum(len({operation.key for operation in history.operations}) for history in histories),
        "configs": sum(result.configs for result in results),
    }
    return Verdict(
        law=PROMISE.name,
        validity=worst(_VALIDITY[result.valid] for result in results),
        anomalies=tuple(anomalies),
        counts=counts,
        why="; ".join(dict.fromkeys(why)),
    )


_VALIDITY = {True: Validity.VALID, False: Validity.INVALID, None: Validity.UNKNOWN}


# The JVM.


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
                    classpath=str(jar.JAR),
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


class _Borrowed:
    """The JVM of a Spark session."""

    def __init__(self, jvm: Any) -> None:
        self._checker = jvm.stormproof.Checker
        self._bytes = int(SPARK_PART * jvm.java.lang.Runtime.getRuntime().maxMemory())

    def check(self, batch: bytes, limits: Limits) -> str:
        return _call(
            self._checker, batch, min(limits.memory_mib * 2**20, self._bytes), limits, lambda: "Spark's JVM died"
        )

    def usable(self) -> bool:
        try:
            return not jar.problem(self._checker.version())
        except Exception:  # its class path has no jar of ours
            return False

    def kill(self) -> None:
        """It is not ours to end."""


def _call(checker: Any, batch: bytes, memory_bytes: int, limits: Limits, ending: Callable[[], str]) -> str:
    return _translated(
        lambda: checker.check(
            batch, float(limits.time_limit_s), memory_bytes, limits.threads, limits.every_key, limits.orders
        ),
        ending,
    )


def _translated(ask: Callable[[], str], ending: Callable[[], str]) -> str:
    """What Java answers; what it throws as an error of ours. ``ending`` tells how the JVM ended, if it did."""
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
    """Where the class-data archive for this Java and these jars belongs, whether or not it exists."""
    from py4j.java_gateway import find_jar_path

    return class_archive.path_for("checker", java, [Path(find_jar_path()), jar.JAR], JVM_OPTIONS)


_lock = threading.Lock()
_own: Gateway | None = None


def _jvm(memory_mib: int) -> Jvm:
    """Spark's JVM if a session of ours is up, else our own, started if need be."""
    global _own
    with _lock:
        if (borrowed := _spark_jvm()) is not None:
            return borrowed
        if _own is not None and (not _own.alive() or _own.memory_mib != memory_mib):
            old, _own = _own, None
            if old.alive():
                old.close()
        if _own is None:
            _own = Gateway(memory_mib)
        return _own


def _spark_jvm() -> Jvm | None:
    import sys

    spark = sys.modules.get("chaos.judging.spark")
    jvm = spark.Session.open_jvm() if spark is not None else None
    if jvm is None:
        return None
    borrowed = _Borrowed(jvm)
    return borrowed if borrowed.usable() else None


def forget() -> None:
    """End the JVM of our own at once, if there is one; the next check starts another."""
    global _own
    with _lock:
        old, _own = _own, None
    if old is not None and old.pid == os.getpid():
        old.kill()


atexit.register(forget)


def build_archive() -> Path:
    """Make the class-data archive that shortens the start, unless it exists: start a JVM, have it do a little of
    everything, and let it dump what it had loaded. Raises :class:`chaos.errors.MachineError`."""
    archive = archive_path(class_archive.find_java())
    if archive.is_file():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    fresh = archive.with_suffix(f".{os.getpid()}.new")
    try:
        gateway = Gateway(REHEARSAL_MIB, dump=fresh)
        try:
            gateway.check(pack(list(_rehearsal())), Limits(time_limit_s=5.0, every_key=True, orders=True))
        finally:
            gateway.close()
        fresh.replace(archive)
    except (OSError, JvmDied) as error:
        raise MachineError(f"the checker's class-data archive could not be made: {error}") from error
    finally:
        fresh.unlink(missing_ok=True)
    for old in archive.parent.glob("checker-*.jsa"):
        if old != archive:
            old.unlink(missing_ok=True)
    return archive


def _rehearsal() -> Iterator[History]:
    """Of each model, something that is right and something that is not."""
    for model, (change, value, observe, seen, unseen) in _REHEARSED.items():
        for told in (seen, unseen):
            calls = [
                (0, change, value, value),
                (1, change, value, None),
                (2, observe, None, told),
                (3, observe, None, told),
            ]
            events = [{"process": process, "type": "invoke", "f": f, "value": given} for process, f, given, _ in calls]
            events += [
                {"process": process, "type": "info" if process == 1 else "ok", "f": f, "value": found}
                for process, f, _, found in calls
            ]
            yield files.of_events(events, model)


#: Model → a function that changes, its value, one that observes, what it may and what it can't see.
_REHEARSED: Mapping[str, tuple[str, Any, str, Any, Any]] = {
    "register": ("write", 1, "read", 1, 2),
    "cas-register": ("write", 1, "read", 1, 2),
    "multi-register": ("txn", [["write", 1, 1]], "txn", [["read", 1, 1]], [["read", 1, 2]]),
    "mutex": ("acquire", None, "release", None, None),
    "fenced-lock": ("acquire", None, "release", None, None),
    "kv": ("append", "a", "get", "a", "b"),
    "set": ("add", 1, "read", [1], [2]),
    "fifo-queue": ("enqueue", 1, "dequeue", 1, 2),
    "counter": ("add", 1, "read", 1, 7),
    "replica-info": ("write", [1, ["a"]], "read", [1, ["a"]], [2, []]),
}


# Millions of objects, on Spark.


def check_keys(
    session: Any,
    paths: Sequence[Path | str],
    model: str,
    *,
    init: Any = None,
    time_limit_s: float = TIME_LIMIT_S,
    memory_mib: int = KEY_MEMORY_MIB,
) -> Verdict:
    """Judge many independent objects whose operations are rows of Parquet files, on the executors of a Spark session.

    Columns: ``key`` (whole number or text), ``process`` (whole number), ``f`` (codes of
    :class:`checkers.linearizable.history.Function`), ``value`` (a whole number, or a JSON text; null is nil, and for a
    read unknown), ``expected`` (of a compare-and-set; may be missing), ``call`` and ``ret`` (times or places, whole
    numbers; ``ret`` null: crashed). Models: register, cas-register, kv, mutex, fifo-queue, counter. ``session`` is a
    :class:`chaos.judging.spark.Session`, or a session or context of pyspark that has our jar on its class path. The
    limits are for each key. Raises :class:`chaos.errors.BadInput` for rows that make no sense and
    :class:`chaos.errors.MachineError` for a session that can't work.
    """
    if model not in KEY_MODELS:
        raise BadInput(f"expected a model with simple values ({', '.join(KEY_MODELS)}), got {model!r}")
    jvm = _jvm_of(session)
    if wrong := "" if _Borrowed(jvm).usable() else jar.problem() or "the checker's jar is not on Spark's class path":
        raise MachineError(wrong)
    try:
        first = "\n".join(map(str, first_state(model, init, {}, set())))
    except Shape as wrong_shape:
        raise BadInput(f"expected {wrong_shape.expected}, got {show(wrong_shape.got)}") from None
    try:
        said = _translated(
            lambda: jvm.stormproof.spark.Keys.check(
                "\n".join(map(str, paths)), model, first, float(time_limit_s), memory_mib * 2**20, MAX_REPORTED_PER_PART
            ),
            lambda: "the Spark job failed",
        )
    except JvmDied as error:
        return Verdict(law=PROMISE.name, validity=Validity.UNKNOWN, why=str(error))
    parts = json.loads(said)
    names = ("keys", "operations", "valid", "invalid", "undecided")
    counts = {name: sum(part[name] for part in parts) for name in names}
    told = [one for part in parts for one in part["results"]]
    histories = [history_of(model, one["result"]["id"], one["rows"]) for one in told]
    results = [result_of(one["result"], history) for one, history in zip(told, histories, strict=True)]
    verdict = _verdict(histories, results)
    if not counts["keys"]:
        return replace(verdict, counts=counts, why="there is not one operation in it: nothing to judge")
    validity = Validity.INVALID if counts["invalid"] else Validity.UNKNOWN if counts["undecided"] else Validity.VALID
    return replace(verdict, validity=validity, counts=counts)


def _jvm_of(session: Any) -> Any:
    """py4j's view of the JVM of a session, ours or pyspark's."""
    if hasattr(session, "open_jvm"):
        session.wait()
        return session.open_jvm()
    return getattr(session, "sparkContext", session)._jvm
