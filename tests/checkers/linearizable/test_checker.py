"""The seam: verdicts come over it, in order and as they come, and a checker that fails is UNKNOWN and says why."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.errors import BadInput, MachineError
from chaos.judging import class_archive
from chaos.verdict import Validity
from checkers import linearizable
from checkers.linearizable import batches, gateway
from checkers.linearizable import jar as _jar
from checkers.linearizable.batches import Jvm, JvmDied
from checkers.linearizable.checker import check, examine
from checkers.linearizable.formats.files import of_events
from checkers.linearizable.history import Function, History, Operation
from checkers.linearizable.limits import MEMORY_MIB, Limits
from tests.checkers.names import A, L


@pytest.fixture(scope="module", autouse=True)
def jar() -> None:
    _jar.build()


@pytest.fixture
def fresh() -> Iterator[None]:
    """No JVM before, and none that a test has ill-treated afterwards."""
    gateway.forget()
    yield
    gateway.forget()


def register(*rows: tuple, name: str | int = "h") -> History:
    """Calls one after the other: (f, value)."""
    operations = [
        Operation(
            process="0",
            f=Function.WRITE if f == "write" else Function.READ,
            arguments=(str(value),),
            call=2 * n,
            ret=2 * n + 1,
            rows=(2 * n, 2 * n + 1),
        )
        for n, (f, value) in enumerate(rows)
    ]
    return History(id=name, model="register", operations=operations)


GOOD = register(("write", 1), ("read", 1))
BAD = register(("write", 1), ("write", 2), ("read", 1))


def test_a_verdict_names_the_calls_behind_it():
    valid = check(GOOD)
    assert (valid.law, valid.validity, valid.anomalies, valid.why) == (L.LINEARIZABLE, Validity.VALID, (), "")
    assert valid.counts["operations"] == 2 and valid.counts["objects"] == 1
    invalid = check(BAD)
    (anomaly,) = invalid.anomalies
    assert invalid.validity is Validity.INVALID and anomaly.name == A.NOT_LINEARIZABLE
    assert {4, 5} <= set(anomaly.rows) and "read 1" in anomaly.explanation
    empty = check(register())
    assert empty.validity is Validity.UNKNOWN and "nothing to judge" in empty.why


def test_a_history_may_be_events_or_a_file(tmp_path):
    events = [
        {"process": 0, "type": "invoke", "f": "write", "value": 1},
        {"process": 0, "type": "ok", "f": "write", "value": 1},
        {"process": 1, "type": "invoke", "f": "read", "value": None},
        {"process": 1, "type": "ok", "f": "read", "value": 2},
    ]
    assert check(events, "register").validity is Validity.INVALID
    path = tmp_path / "h.edn"
    path.write_text("[{:process 0, :type :invoke, :f :write, :value 1} {:process 0, :type :ok, :f :write, :value 1}]")
    assert check(path, "register").validity is Validity.VALID
    assert check(str(path), "cas-register", engine="python").validity is Validity.VALID
    with pytest.raises(BadInput, match="No such file"):
        check(tmp_path / "gone", "register")
    with pytest.raises(BadInput, match='no "write"'):
        check(events, "mutex")


@pytest.mark.parametrize("engine", ["jvm", "python"])
def test_results_come_in_order_with_witnesses_and_orders(engine):
    histories = [GOOD if n % 3 else register(("write", 1), ("read", 2), name=n) for n in range(50)]
    results = list(examine(histories, engine=engine, every_key=True, orders=True))
    assert [result.valid for result in results] == [bool(n % 3) for n in range(50)]
    assert [result.id for result in results] == [history.id for history in histories]
    assert results[1].orders == {None: (0, 1)} and results[1].witness is None
    witness = results[0].witness
    assert witness is not None and witness.blocked == 1 and 1 in witness.minimal and witness.dead_ends


def test_results_stream_while_histories_are_still_being_made():
    results = None
    seen = []

    def endless() -> Iterator[History]:
        for n in range(10_000):
            seen.append(n)
            yield register(("write", 1), ("read", 1), name=n)

    results = examine(endless(), engine="jvm")
    assert next(results).id == 0
    assert len(seen) < 20
    results.close()
    assert len(seen) < 20


def test_what_was_read_before_an_error_is_still_judged():
    def broken() -> Iterator[History]:
        yield GOOD
        yield BAD
        raise BadInput("line 3 makes no sense")

    results = examine(broken(), engine="jvm")
    assert [next(results).valid, next(results).valid] == [True, False]
    with pytest.raises(BadInput, match="line 3"):
        next(results)


def test_ten_thousand_small_histories_need_no_round_trip_each():
    histories = [GOOD if n % 2 else BAD for n in range(10_000)]
    results = list(examine(histories, engine="jvm"))
    assert [result.valid for result in results] == [bool(n % 2) for n in range(10_000)]


def test_budgets_must_make_sense():
    for wrong in ({"memory_mib": 3}, {"time_limit_s": 0.0}, {"engine": "prolog"}):
        with pytest.raises(BadInput, match="expected"):
            list(examine([GOOD], **wrong))


def test_an_operation_that_is_none_of_its_model_is_bad_input_and_spoils_no_other():
    strange = History(id="strange", model="mutex", operations=GOOD.operations)
    results = examine([GOOD, BAD, GOOD, strange, GOOD], engine="jvm")
    assert [next(results).valid for _ in range(3)] == [True, False, True]
    with pytest.raises(BadInput, match="mutex"):
        list(results)


# A checker that fails.


def test_a_jvm_that_is_killed_between_two_checks_is_started_again(fresh):
    assert check(GOOD, engine="jvm").validity is Validity.VALID
    first = gateway.jvm(MEMORY_MIB)
    os.kill(first.process_id, signal.SIGKILL)
    first._process.wait()
    assert check(BAD, engine="jvm").validity is Validity.INVALID
    assert gateway.jvm(MEMORY_MIB) is not first


def test_a_jvm_that_dies_in_a_check_leaves_that_history_unknown_and_judges_the_others(fresh):
    jvm = gateway.jvm(64)
    os.kill(jvm.process_id, signal.SIGSTOP)  # it stands still in the middle of the first history
    threading.Timer(0.3, os.kill, (jvm.process_id, signal.SIGKILL)).start()
    first, second = examine([GOOD, BAD], engine="jvm", memory_mib=64)
    assert first.valid is None and "ended by signal 9" in first.undecided[0].reason
    assert second.valid is False


def test_a_jvm_that_answers_no_more_is_ended_in_time(fresh, monkeypatch):
    monkeypatch.setattr(batches, "GRACE_S", 0.1)
    jvm = gateway.jvm(64)
    os.kill(jvm.process_id, signal.SIGSTOP)
    verdict = check(GOOD, engine="jvm", memory_mib=64, time_limit_s=0.1)
    assert verdict.validity is Validity.UNKNOWN and "did not answer in time" in verdict.why
    assert not jvm.alive()


class Fragile:
    """A checker that dies of the histories named so."""

    def __init__(self, jvm: Jvm) -> None:
        self.jvm = jvm

    def check(self, batch: bytes, limits: Limits) -> str:
        if b"deadly" in batch:
            raise JvmDied("its JVM was ended by signal 11")
        return self.jvm.check(batch, limits)

    def kill(self) -> None:
        self.jvm.kill()


def test_one_deadly_history_in_a_batch_costs_only_itself_and_many_end_it(monkeypatch):
    real = gateway.jvm(MEMORY_MIB)
    monkeypatch.setattr(gateway, "jvm", lambda memory_mib: Fragile(real))
    deadly = register(("write", 1), name="deadly")
    found = [one.valid for one in examine([*[GOOD] * 40, deadly, *[GOOD] * 40], engine="jvm")]
    assert found == [*[True] * 40, None, *[True] * 40]
    last = list(examine([deadly] * 60, engine="jvm"))[-1]
    assert last.valid is None and "for the 4th time" in last.undecided[0].reason


def test_a_missing_jar_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(_jar, "JAR", tmp_path / "stormproof.jar")
    verdict = check(GOOD)
    assert verdict.validity is Validity.UNKNOWN
    assert "stormproof.jar is missing: build it with `python -m checkers.linearizable`" in verdict.why
    with pytest.raises(MachineError, match="is missing"):
        examine([GOOD])
    assert check(GOOD, engine="python").validity is Validity.VALID


def test_a_jar_of_another_version_judges_nothing(tmp_path, monkeypatch):
    other = tmp_path / "stormproof.jar"
    with zipfile.ZipFile(_jar.JAR) as current, zipfile.ZipFile(other, "w") as made:
        for name in current.namelist():
            made.writestr(name, b"0123456789abcdef" if name == _jar.VERSION_FILE else current.read(name))
    monkeypatch.setattr(_jar, "JAR", other)
    assert "is of version 0123456789abcdef, expected" in check(GOOD).why
    other.write_bytes(b"no zip")
    assert "is of version unknown" in check(GOOD).why


def test_a_jvm_with_other_classes_than_the_jar_says_judges_nothing(fresh, monkeypatch):
    monkeypatch.setattr(_jar, "wanted_version", lambda: "fedcba9876543210")
    monkeypatch.setattr(_jar, "jar_version", lambda: "fedcba9876543210")
    verdict = check(GOOD)
    assert verdict.validity is Validity.UNKNOWN and "expected fedcba9876543210" in verdict.why


def test_without_java_python_judges_unless_the_jvm_is_asked_for(monkeypatch):
    def none() -> Path:
        raise MachineError("no Java here")

    monkeypatch.setattr(class_archive, "find_java", none)
    assert check(BAD).validity is Validity.INVALID
    unknown = check(BAD, engine="jvm")
    assert unknown.validity is Validity.UNKNOWN and "no Java here" in unknown.why


def test_a_java_that_does_not_start_says_why(fresh, tmp_path, monkeypatch):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'not today' >&2\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setattr(class_archive, "find_java", lambda: java)
    verdict = check(GOOD)
    assert verdict.validity is Validity.UNKNOWN and "did not start" in verdict.why and "not today" in verdict.why


# The jar.


@pytest.mark.full
def test_the_same_sources_give_the_same_jar(tmp_path, monkeypatch):
    first = _jar.JAR.read_bytes()
    monkeypatch.setattr(_jar, "JAR", tmp_path / "stormproof.jar")
    _jar.build(force=True)
    assert _jar.JAR.read_bytes() == first
    assert _jar.jar_version() == _jar.wanted_version() != ""


def test_a_changed_or_moved_source_makes_the_jar_stale(tmp_path, monkeypatch):
    copy = tmp_path / "jvm"
    shutil.copytree(_jar.JVM, copy)
    monkeypatch.setattr(_jar, "JVM", copy)
    assert _jar.problem() == ""
    function = copy / "stormproof" / "model" / "Function.java"
    text = function.read_text()
    function.write_text(text + "\n// new\n")
    assert "build it again" in _jar.problem()
    function.write_text(text)
    assert _jar.problem() == ""
    function.rename(copy / "stormproof" / "util" / "Function.java")
    assert "build it again" in _jar.problem()


def test_the_law_brings_its_jar_into_the_jvm_of_spark(tmp_path, monkeypatch):
    assert class_archive.law_jars() == (_jar.JAR,)
    monkeypatch.setattr(linearizable, "JARS", (tmp_path / "missing.jar",))
    assert class_archive.law_jars() == (), "one that is not built is left out"


def test_a_jar_that_is_older_than_its_sources_is_not_sent_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_jar, "wanted_version", lambda: "newer")
    assert class_archive.law_jars() == ()


# What Java says of each model is what Python says.


def test_first_states_arrive():
    rows = [("invoke", None), ("ok", 5)]
    events = [{"process": 0, "type": kind, "f": "read", "value": value} for kind, value in rows]
    for init, expected in ((5, True), (6, False), (None, False)):
        assert [one.valid for one in examine([of_events(events, "register", init)], engine="jvm")] == [expected]
