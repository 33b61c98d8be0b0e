"""The checkers in Python and in Java against the definition of linearizability, and against each other.

A wrong verdict is the one bug that nobody would notice, so nothing here rests on what the checkers have in common:
``brute_force`` knows neither, certificates are replayed by ``checkers.linearizable.certificate``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import pytest

from checkers.linearizable import checker
from checkers.linearizable.certificate import verify
from checkers.linearizable.history import NIL, Argument, Function, History, Operation, Result
from checkers.linearizable.models import MODELS, restricts_nothing
from checkers.linearizable.python.checker import examine
from tests.checkers.linearizable.brute_force import linearizable
from tests.checkers.linearizable.random_histories import mixed

F = Function
HISTORIES = 500
FULL_HISTORIES = 15_000

#: What can be done to one object, two values wide.
ALPHABETS: dict[str, list[tuple[Function, tuple[Argument, ...]]]] = {
    "register": [(F.READ, (NIL,)), *((f, (v,)) for f in (F.READ, F.WRITE) for v in "01")],
    "cas-register": [
        (F.READ, (NIL,)),
        *((f, (v,)) for f in (F.READ, F.WRITE) for v in "01"),
        *((f, (v, n)) for f in (F.CAS, F.CAS_FAILED) for v, n in (("0", "1"), ("1", "0"), (NIL, "0"))),
    ],
    "multi-register": [
        (F.TXN, (0, '"x"', "0")),
        (F.TXN, (1, '"x"', "0", 1, '"y"', "0")),
        (F.TXN, (0, '"x"', "0", 0, '"y"', NIL)),
        (F.TXN, (0, '"x"', NIL, 1, '"y"', "0")),
        (F.TXN, (1, '"x"', "0", 0, '"x"', "0")),
        (F.TXN, (1, '"y"', NIL, 0, '"x"', None)),
    ],
    "mutex": [(F.ACQUIRE, ()), (F.RELEASE, ())],
    "fenced-lock": [
        (f, (process, token)) for f in (F.ACQUIRE, F.RELEASE) for process in (0, 1) for token in (1, 2, None)
    ],
    "kv": [
        (F.DELETE, ()),
        *((F.READ, (v,)) for v in (NIL, '""', '"a"', '"aa"')),
        *((f, (v,)) for f in (F.WRITE, F.APPEND) for v in ('""', '"a"')),
    ],
    "set": [
        *((f, (v, told)) for f in (F.ADD, F.REMOVE) for v in "01" for told in (0, 1, None)),
        *((F.CONTAINS, (v, told)) for v in "01" for told in (0, 1)),
        *((F.READ, elements) for elements in ((), ("0",), ("0", "1"))),
    ],
    "fifo-queue": [(F.ENQUEUE, ("0",)), (F.ENQUEUE, ("1",)), *((F.DEQUEUE, (v,)) for v in ("0", "1", NIL, None))],
    "unordered-queue": [
        (F.ENQUEUE, ("0",)),
        (F.ENQUEUE, ("1",)),
        *((F.DEQUEUE, (v,)) for v in ("0", "1", NIL, None)),
        (F.DEQUEUE, ("0", 7)),
        (F.DRAINED, (7,)),
    ],
    "counter": [(F.ADD, (1,)), (F.ADD, (-1,)), *((F.READ, (number,)) for number in (-1, 0, 1, 2))],
    "replica-info": [
        *((F.READ, info) for info in ((0,), (1, '"a"'), (2, '"b"'))),
        (F.CAS, (0, 1, '"a"')),
        (F.CAS, (0, None, '"a"')),
        (F.CAS, (1, 2, '"b"')),
        (F.CAS_FAILED, (0,)),
        (F.CAS_FAILED, (1,)),
        (F.WRITE, (1, '"a"')),
    ],
}


def shapes(operations: int) -> Iterator[list[tuple[int, int | None]]]:
    """Yield all ways in which the calls and returns of so many operations, crashed ones among them, can lie in time;
    the operations are named in the order of their calls."""

    def go_on(moment: int, spans: list[tuple[int, int | None]], undecided: list[int]) -> Iterator[Any]:
        if len(spans) == operations:
            yield spans  # whoever has not returned crashed, or returns after all calls
        else:
            yield from go_on(moment + 1, [*spans, (moment, None)], [*undecided, len(spans)])
        for one in undecided:
            closed = [(call, moment) if place == one else (call, ret) for place, (call, ret) in enumerate(spans)]
            yield from go_on(moment + 1, closed, [other for other in undecided if other != one])

    return go_on(0, [], [])


def small_histories(model: str, operations: int, at_most: int) -> list[History]:
    """Return all histories of so many operations over the model's alphabet, or, beyond ``at_most``, a random part."""
    spans = list(shapes(operations))
    words: Sequence[Any] = list(product(ALPHABETS[model], repeat=operations))
    everything = len(spans) * len(words)
    rng = Random(f"{model} {operations}")
    chosen: Iterable[int] = (
        range(everything) if everything <= at_most else (rng.randrange(everything) for _ in range(at_most))
    )
    return [
        History(
            id=f"{model}-{number}",
            model=model,
            operations=[
                Operation(process=str(i), f=f, arguments=arguments, call=call, ret=ret)
                for i, ((f, arguments), (call, ret)) in enumerate(
                    zip(words[number // len(spans)], spans[number % len(spans)], strict=True)
                )
            ],
        )
        for number in chosen
    ]


def complaints(history: History, result: Result, truth: bool) -> list[str]:
    """Return what is wrong with the result."""
    if result.valid is not truth:
        vacuous = all(operation.ret is None for operation in history.operations)
        return [] if vacuous and result.valid is None else [f"{result.valid} instead of {truth}"]
    if truth:
        refuted = {key: verify(history, key, result.orders.get(key, ())) for key in keys(history)}
        return [f"the order of {key!r} proves nothing: {why}" for key, why in refuted.items() if why]
    witness = result.witness
    if witness is None:
        return ["a violation without a witness"]
    found = []
    if linearizable(history, witness.minimal):
        found.append(f"the minimal part {witness.minimal} is linearizable")
    if not witness.minimal:
        found.append("the minimal part is empty")
    if witness.blocked not in range(len(history.operations)) or history.operations[witness.blocked].ret is None:
        return [*found, f"{witness.blocked} is no completed operation that could be blocked"]
    before, after = cut(history, witness.blocked, including=False), cut(history, witness.blocked, including=True)
    mine = same_element(history, witness.blocked)
    if linearizable(after, mine):
        found.append("with the blocked operation, it is still linearizable")
    parts = (same_object(history, witness.blocked), mine)
    refuted = [verify(only(before, part), witness.key, witness.prefix) for part in parts]
    if all(refuted):
        found.append(f"the prefix is no linearization of what was before: {refuted[0]}")
    return found


def keys(history: History) -> set[str | None]:
    return {operation.key for operation in history.operations}


def cut(history: History, blocked: int, *, including: bool) -> History:
    """Return the history as it was known just before, or just after, the return of an operation. Numbers stay: what
    was called later is put aside, under a key of its own."""
    moment = (history.operations[blocked].ret or 0) + including
    operations = [
        replace(
            o, ret=o.ret if o.ret is not None and o.ret < moment else None, key=o.key if o.call < moment else "later"
        )
        for o in history.operations
    ]
    return replace(history, operations=operations)


def only(history: History, numbers: set[int]) -> History:
    """Return the history with all other operations put aside; numbers stay."""
    operations = [o if n in numbers else replace(o, key="elsewhere") for n, o in enumerate(history.operations)]
    return replace(history, operations=operations)


def same_object(history: History, blocked: int) -> set[int]:
    return {n for n, o in enumerate(history.operations) if o.key == history.operations[blocked].key}


def same_element(history: History, blocked: int) -> set[int]:
    """Return the operations on the same object; elements of a set that is never read as a whole are objects too, which
    a checker may take one by one, and so are the values of an unordered queue that nothing saw empty."""
    mine = same_object(history, blocked)
    whole = any(_concerns_all(history.operations[n]) for n in mine)
    if history.model not in ("set", "unordered-queue") or whole:
        return mine
    element = history.operations[blocked].arguments[:1]
    return {n for n in mine if history.operations[n].arguments[:1] == element}


def _concerns_all(operation: Operation) -> bool:
    if operation.f is F.DEQUEUE:  # one that completed took whatever was there
        return operation.arguments[0] == NIL or (operation.arguments[0] is None and operation.ret is not None)
    return operation.f is F.DRAINED or (operation.f is F.READ and not restricts_nothing(operation))


def compare(histories: Sequence[History], results: Iterable[Result], undecided: int = 0) -> None:
    """At most so many may be beyond what the checker is allowed to spend; none may be wrong."""
    wrong = {}
    verdicts: dict[tuple[str, bool], int] = {}
    for history, result in zip(histories, results, strict=True):
        truth = linearizable(history)
        verdicts[history.model, truth] = verdicts.get((history.model, truth), 0) + 1
        if result.valid is None and result.undecided and undecided:
            undecided -= 1
        elif found := complaints(history, result, truth):
            wrong[history.id] = found
    assert not wrong
    lopsided = [model for model, truth in verdicts if verdicts.get((model, not truth), 0) < 5]
    assert not lopsided, "a comparison that sees one verdict only shows nothing"


def in_python(histories: Iterable[History]) -> Iterator[Result]:
    return (examine(history, orders=True) for history in histories)


def in_java(histories: Iterable[History]) -> Iterator[Result]:
    return checker.examine(histories, time_limit_s=60, memory_mib=256, threads=1, orders=True, engine="jvm")


ENGINES = {"python": in_python, "java": in_java}


@pytest.mark.parametrize("engine", ENGINES)
def test_random_histories_get_the_verdict_of_the_definition(engine: str) -> None:
    histories = [mixed(seed) for seed in range(HISTORIES)]
    compare(histories, ENGINES[engine](histories))


@pytest.mark.full
@pytest.mark.parametrize("engine", ENGINES)
def test_very_many_random_histories_get_the_verdict_of_the_definition(engine: str) -> None:
    for start in range(HISTORIES, FULL_HISTORIES, 10_000):
        histories = [mixed(seed) for seed in range(start, min(start + 10_000, FULL_HISTORIES))]
        compare(histories, ENGINES[engine](histories), undecided=3 if engine == "python" else 0)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("engine", ENGINES)
def test_small_histories_get_the_verdict_of_the_definition(engine: str, model: str) -> None:
    histories = small_histories(model, 2, at_most=800) + small_histories(model, 3, at_most=800)
    compare(histories, ENGINES[engine](histories))


@pytest.mark.full
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("engine", ENGINES)
def test_all_histories_of_three_operations_get_the_verdict_of_the_definition(engine: str, model: str) -> None:
    histories = small_histories(model, 3, at_most=10**9)
    compare(histories, ENGINES[engine](histories))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_queue_that_was_empty_between_equal_values_is_lawful(engine: str) -> None:
    """Four enqueues of one value and two dequeues of it, around two answers that it was empty: which dequeue took what
    is told by the empty answers alone. An algorithm for queues once found no way."""
    spans = [
        (F.DEQUEUE, NIL, 0, 13),
        (F.ENQUEUE, "0", 1, 10),
        (F.DEQUEUE, "0", 2, 14),
        (F.ENQUEUE, "0", 3, 5),
        (F.ENQUEUE, "0", 4, 7),
        (F.DEQUEUE, NIL, 6, 15),
        (F.ENQUEUE, "0", 8, 9),
        (F.DEQUEUE, "0", 11, 12),
    ]
    operations = [
        Operation(process=str(i), f=f, arguments=(value,), call=call, ret=ret)
        for i, (f, value, call, ret) in enumerate(spans)
    ]
    history = History(id="empty-between", model="fifo-queue", operations=operations)
    assert linearizable(history)
    for result in ENGINES[engine]([history]):
        assert complaints(history, result, True) == []


def test_the_brute_force_knows_a_violation_and_the_real_time_rule() -> None:
    """The judge of the others, judged by hand."""
    write = Operation(process="0", f=F.WRITE, arguments=("1",), call=0, ret=1)
    stale = Operation(process="1", f=F.READ, arguments=(NIL,), call=2, ret=3)
    assert not linearizable(History(id="stale", model="register", operations=[write, stale]))
    early = replace(stale, call=-1)
    assert linearizable(History(id="early", model="register", operations=[early, write]))
    assert linearizable(History(id="crashed", model="register", operations=[replace(write, ret=None), stale]))
    assert linearizable(History(id="part", model="register", operations=[write, stale]), [1])


def test_a_certificate_with_a_flaw_is_refused() -> None:
    write = Operation(process="0", f=F.WRITE, arguments=("1",), call=0, ret=1)
    read = Operation(process="1", f=F.READ, arguments=("1",), call=2, ret=3)
    other = Operation(process="2", f=F.WRITE, arguments=("2",), call=4, ret=None, key="k")
    history = History(id="h", model="register", operations=[write, read, other])
    assert verify(history, None, (0, 1)) == ""
    assert "missing" in verify(history, None, (0,))
    assert "twice" in verify(history, None, (0, 1, 1))
    assert "none of the operations" in verify(history, None, (0, 1, 2))
    assert "none of the operations" in verify(history, None, (0, 1, 3))
    assert "returned before" in verify(history, None, (1, 0))
    assert verify(history, "k", ()) == verify(history, "k", (2,)) == ""
    wrong = replace(history, operations=[write, replace(read, arguments=("2",))])
    assert "illegal" in verify(wrong, None, (0, 1))
