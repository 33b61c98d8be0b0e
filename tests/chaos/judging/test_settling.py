"""What laws defer is settled as if it had not been: here or on Spark, and what comes to nothing is a gap of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from chaos.judging import masters, settling
from chaos.judging.engine import Examined, examine_shard, verdicts
from chaos.judging.law_answers import partial_of
from chaos.judging.plan import WHOLE
from chaos.judging.registry import Registry
from chaos.judging.settling import Left, settle, settled, settled_on
from chaos.judging.shard import Shard
from chaos.judging.spark import Session
from chaos.law import Deferred, Key, Law, Partial, Rows
from chaos.law_declaration import kernel_of
from chaos.operations import CreateObject
from chaos.verdict import Validity, Verdict
from checkers.linearizable.law import PROMISE, Linearizable
from tests.chaos.judging import spark_work
from tests.chaos.judging.test_many_runs import Workers, killed
from tests.checkers.linearizable.test_law import Objects

#: The law as all processes know it.
NUMBER = ("linearizable", 0)
KNOWN = Registry({NUMBER: kernel_of(Linearizable())}, {})
LEFT = Left(NUMBER, Deferred(about="the rest", given={}))


def clients(*names: str, wrong: Sequence[str] = ()) -> Objects:
    history = Objects()
    history.phase("load")
    for name in names:
        history.made(name)
        history.end(history.began("write", "register", name, address="a"))
        history.end(history.began("read", "register", name), address="b" if name in wrong else "a")
    return history


def examined(history: Objects) -> Examined:
    return examine_shard(WHOLE, Shard(history.table()), history.context(), KNOWN)


@pytest.fixture
def hard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every search takes long."""
    monkeypatch.setattr("checkers.linearizable.law.EASY", 0)
    monkeypatch.setattr("checkers.linearizable.law.EASY_EACH", 0)


def verdict_on(history: Objects, found: Examined) -> Verdict:
    (verdict,) = verdicts(history.context(), found, KNOWN)
    return verdict


@pytest.mark.usefixtures("hard")
def test_what_many_runs_deferred_is_settled_in_one_job() -> None:
    histories = [clients("a", "b"), clients("c", wrong=["c"]), Objects()]
    found = [examined(history) for history in histories]
    assert [sum(len(partial.deferred) for _, partial in one) for one in found] == [2, 1, 0]
    with Workers() as session:
        there = settled_on(session, found)  # type: ignore[arg-type]
        assert session.jobs == 1
    assert not any(partial.deferred for one in there for _, partial in one)
    assert there == [settled(one, KNOWN) for one in found]
    validities = [verdict_on(*both).validity for both in zip(histories, there, strict=True)]
    assert validities == [Validity.VALID, Validity.INVALID, Validity.NOT_APPLICABLE]


@pytest.mark.usefixtures("hard")
@pytest.mark.parametrize("wrong", ["a", ""])
def test_an_object_that_kills_its_worker_is_unknown_and_no_other(wrong: str) -> None:
    def kills(tasks: Sequence[Any]) -> None:
        if "poison (register)" in [task.deferred.about for task in tasks]:
            killed(tasks)

    history = clients("a", "poison", wrong=[wrong])
    with Workers(kills) as session:
        (found,) = settled_on(session, [examined(history)])  # type: ignore[arg-type]
    gaps = [gap for _, partial in found for gap in partial.gaps]
    assert gaps == ["poison (register) was not decided: the Spark job failed: the worker was killed"]
    assert verdict_on(history, found).validity is (Validity.INVALID if wrong else Validity.UNKNOWN)


@pytest.mark.spark
@pytest.mark.usefixtures("hard")
def test_an_object_that_kills_its_worker_of_spark_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "settle", spark_work.settle_all_but_one)
    history = clients("a", "poison", wrong=["a"])
    with Session(masters.parse("local[2]")) as session:
        (found,) = settled_on(session, [examined(history)])
    (gap,) = [gap for _, partial in found for gap in partial.gaps]
    assert gap.startswith("poison (register) was not decided: the Spark job failed: a Python worker died each time")
    assert verdict_on(history, found).validity is Validity.INVALID


@pytest.mark.spark
def test_what_python_leaves_undecided_is_decided_on_a_jvm_of_the_worker() -> None:
    """Any subset of the writes may have come first, and Python tries them all."""
    history = Objects().made()
    writes = [history.began("write", "register", address=f"{number}") for number in range(22)]
    for one in writes:
        history.end(one)
    history.read_address("what nobody wrote")
    found = examined(history)
    assert [one.about for _, partial in found for one in partial.deferred] == ["o (register)"]
    assert verdict_on(history, found).validity is Validity.UNKNOWN, "this law has no search but that in Python"
    with Session(masters.parse("local[2]")) as session:
        (there,) = settled_on(session, [found])
    assert verdict_on(history, there).validity is Validity.INVALID


class Defers(Law):
    promise, key, reads = PROMISE, Key.RUN, (CreateObject,)

    def __init__(self, answer: Callable[[], Any] | None = None) -> None:
        self.answer = answer

    def examine(self, rows: Rows) -> Partial:
        return Partial(deferred=(LEFT.deferred,))

    def settle(self, deferred: Deferred) -> Partial:
        found: Partial = self.answer() if self.answer else super().settle(deferred)
        return found

    def judge(self, partial: Partial) -> Verdict:
        return Verdict(law=PROMISE.name, validity=Validity.VALID)


def starves() -> Partial:
    raise MemoryError


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "does not settle what it defers"),
        (lambda: 1 // 0, "division"),
        (lambda: "nonsense", "not a Partial"),
        (starves, "a worker ran out of memory when it was to decide about the rest"),
        (lambda: Partial(deferred=(LEFT.deferred,)), "the rest was not decided: it was deferred again"),
    ],
)
def test_what_is_not_settled_is_unknown(answer: Callable[[], Any] | None, words: str) -> None:
    history, known = Objects().made(), Registry({NUMBER: kernel_of(Defers(answer))}, {})
    partial = partial_of(PROMISE, lambda: Partial(deferred=(LEFT.deferred,)))
    (verdict,) = verdicts(history.context(), [(NUMBER, partial)], known)
    assert verdict.validity is Validity.UNKNOWN and words in verdict.why


def test_a_law_that_is_not_there_settles_nothing() -> None:
    (gap,) = settle(LEFT, Registry({}, {})).gaps
    assert gap == "the rest was not decided: there is no law here that settles it"
