"""Histories of registers, locks, maps, queues and metadata are judged by a search, in Java where there is Java.

The functions that others call: :func:`check`, :func:`examine` and, for millions of objects, :func:`check_keys`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from chaos.errors import BadInput, MachineError
from chaos.judging import class_archive
from chaos.verdict import Anomaly, Validity, Verdict, worst
from checkers.linearizable import gateway, jar
from checkers.linearizable.batches import JvmDied, Stream, history_of, result_of, settled
from checkers.linearizable.formats import files
from checkers.linearizable.formats.operation_mapping import Shape, first_state, show
from checkers.linearizable.history import History, Result
from checkers.linearizable.law import NOT_LINEARIZABLE, PROMISE
from checkers.linearizable.limits import ENGINES, LEAST_MEMORY_MIB, MEMORY_MIB, TIME_LIMIT_S, Limits
from checkers.linearizable.python.checker import examine as examine_in_python
from checkers.linearizable.witness import explanation as explain

#: The models that :func:`check_keys` knows, memory for one key, and how many results are reported of each part.
KEY_MODELS = ("register", "cas-register", "kv", "mutex", "fifo-queue", "counter")
KEY_MEMORY_MIB = 128
MAX_REPORTED_PER_PART = 4


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

    ``model`` is one of :data:`checkers.linearizable.models.JUDGED_AS`; it may be left out where the history knows it.
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
    on after a violation, until each object has a verdict; ``orders``: return a linearization of each object.
    ``engine``: jvm, python, or auto, which is the JVM unless there is no Java at all. A JVM that dies leaves the
    history that it was at undecided, and is started again for the others. Raises :class:`chaos.errors.MachineError`
    when Java or the jar is missing or the jar is of another version.
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
    return Stream(limits, lambda: gateway.jvm(limits.memory_mib), gateway.forget).results(histories)


def _has_java() -> bool:
    try:
        class_archive.find_java()
    except MachineError:
        return False
    return True


def _in_python(histories: Iterable[History], limits: Limits) -> Iterator[Result]:
    for history in histories:
        result = settled(history) or examine_in_python(
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
    if wrong := "" if gateway.is_usable(jvm) else jar.problem() or "the checker's jar is not on Spark's class path":
        raise MachineError(wrong)
    try:
        first = "\n".join(map(str, first_state(model, init, {}, set())))
    except Shape as wrong_shape:
        raise BadInput(f"expected {wrong_shape.expected}, got {show(wrong_shape.got)}") from None
    try:
        said = gateway.translated(
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
    reported = [one for part in parts for one in part["results"]]
    histories = [history_of(model, one["result"]["id"], one["rows"]) for one in reported]
    results = [result_of(one["result"], history) for one, history in zip(reported, histories, strict=True)]
    verdict = _verdict(histories, results)
    if not counts["operations"]:
        return replace(verdict, counts=counts, why="there is not one operation in it: nothing to judge")
    validity = Validity.INVALID if counts["invalid"] else Validity.UNKNOWN if counts["undecided"] else Validity.VALID
    return replace(verdict, validity=validity, counts=counts)


def _jvm_of(session: Any) -> Any:
    """py4j's view of the JVM of a session, ours or pyspark's."""
    if hasattr(session, "open_jvm"):
        session.wait()
        return session.open_jvm()
    return getattr(session, "sparkContext", session)._jvm
