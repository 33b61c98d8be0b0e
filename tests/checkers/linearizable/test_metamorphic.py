"""Histories too large for the brute force: what must not change a verdict does not change it.

A lawful history stays linearizable when a call is stretched, when it crashes instead of completing, when the history is
cut off at any moment, when crashed calls join it. One that is not linearizable stays so when calls are shortened, when
crashed ones are taken away, when it goes on. Names never matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from checkers.linearizable import checker
from checkers.linearizable.certificate import verify
from checkers.linearizable.history import NIL, Argument, Function, History, Operation, Result
from checkers.linearizable.models import MODELS
from checkers.linearizable.python.checker import examine
from tests.checkers.linearizable.random_histories import Shape, arbitrary, damaged, lawful, numbered
from tests.checkers.linearizable.test_differential import ENGINES, keys

F = Function
Change = Callable[[History, Random], History]


def in_python(histories: list[History]) -> Iterator[Result]:
    return (examine(history, orders=True, max_configs=10_000) for history in histories)


def in_java(histories: list[History]) -> Iterator[Result]:
    return checker.examine(histories, time_limit_s=5, memory_mib=256, threads=1, orders=True, engine="jvm")


JUDGES = {"python": in_python, "java": in_java}
assert set(JUDGES) == set(ENGINES)


# What keeps a linearizable history linearizable.


def stretched(history: History, rng: Random) -> History:
    """Some calls began earlier and returned later."""
    operations = [
        replace(
            o,
            call=o.call - rng.choice((0, 0, 0, 1, 7)) - 0.25,
            ret=None if o.ret is None else o.ret + rng.choice((0, 0, 0, 1, 7)) + 0.25,
        )
        for o in history.operations
    ]
    return numbered(history, operations)


def cut_off(history: History, rng: Random) -> History:
    """The recording ended somewhere: what had not returned by then crashed."""
    moment = rng.randrange(1, 2 * len(history.operations) + 1)
    kept = [o for o in history.operations if o.call < moment]
    return numbered(history, [o if o.ret is None or o.ret < moment else crashed(history, o) for o in kept])


def some_crashed(history: History, rng: Random) -> History:
    """Some clients never learned how their calls ended."""
    return numbered(history, [crashed(history, o) if rng.random() < 0.03 else o for o in history.operations])


def joined_by_crashed(history: History, rng: Random) -> History:
    """Clients whose calls never ended took part."""
    others = arbitrary(history.model, Shape(operations=4, crash=1.0, values=3), rng.random()).operations
    strangers = [
        replace(o, call=rng.randrange(2 * len(history.operations)) + 0.5, key=rng.choice(history.operations).key)
        for o in others
    ]
    return numbered(history, [*history.operations, *strangers])


def crashed(history: History, operation: Operation) -> Operation:
    """Return the operation with its result forgotten."""
    f, arguments = operation.f, operation.arguments
    if f is F.CAS_FAILED:
        f, arguments = (F.READ, (None,)) if history.model == "replica-info" else (F.CAS, arguments)
    elif f is F.DEQUEUE or f is F.READ:
        arguments = (None, *arguments[1:]) if f is F.DEQUEUE else (None,)
    elif f is F.ACQUIRE and arguments:
        arguments = (arguments[0], None)
    elif f is F.TXN:
        arguments = tuple(None if i % 3 == 2 and arguments[i - 2] == F.READ else a for i, a in enumerate(arguments))
    elif history.model == "set":
        arguments = (arguments[0], None)
    return replace(operation, f=f, arguments=arguments, ret=None)


# What keeps an illegal history illegal.


def shortened(history: History, rng: Random) -> History:
    """Some calls began later and returned earlier, yet not all in one moment."""
    operations = []
    for o in history.operations:
        if o.ret is not None and rng.random() < 0.3:
            third = (o.ret - o.call) / 3
            o = replace(o, call=o.call + third, ret=o.ret - third)
        operations.append(o)
    return numbered(history, operations)


def without_crashed(history: History, rng: Random) -> History:
    """Some of the crashed calls are known not to have happened."""
    return numbered(history, [o for o in history.operations if o.ret is not None or rng.random() < 0.5])


def gone_on(history: History, rng: Random) -> History:
    """The recording went on for some more calls."""
    more = arbitrary(history.model, Shape(operations=10, values=3), rng.random()).operations
    end = 2 * len(history.operations) + 1
    later = [
        replace(o, call=o.call + end, ret=None if o.ret is None else o.ret + end, key=history.operations[-1].key)
        for o in more
    ]
    return numbered(history, [*history.operations, *later])


# What changes nothing.


def renamed_values(history: History, rng: Random) -> History:
    """Other values in their places; nil stays nil."""
    letters = list("abcdefghijklmnopqrstuvwxyz")
    rng.shuffle(letters)
    table = str.maketrans(dict(zip("abcdefghijklmnopqrstuvwxyz0123456789", letters + list("5678901234"), strict=True)))

    def rename(argument: Argument) -> Argument:
        return argument.translate(table) if isinstance(argument, str) and argument != NIL else argument

    if history.model == "multi-register":
        return history  # the keys are values too

    def renamed(f: Function, arguments: tuple[Argument, ...]) -> tuple[Argument, ...]:
        new: tuple[Any, ...] = tuple(map(rename, arguments))
        return tuple(sorted(new)) if history.model == "set" and f is F.READ and None not in new else new

    operations = [replace(o, arguments=renamed(o.f, o.arguments)) for o in history.operations]
    return replace(history, operations=operations, init=tuple(map(rename, history.init)))


def renamed_keys(history: History, rng: Random) -> History:
    return replace(history, operations=[replace(o, key=f'"{o.key}" ☃') for o in history.operations])


def renamed_processes(history: History, rng: Random) -> History:
    def other(process: Any) -> Any:
        return process if process in (None, -1) else 1_000 - process

    if history.model != "fenced-lock":
        return replace(history, operations=[replace(o, process=f"client {o.process}") for o in history.operations])
    operations = [replace(o, arguments=(other(o.arguments[0]), o.arguments[1])) for o in history.operations]
    return replace(history, operations=operations, init=(*map(other, history.init[:1]), *history.init[1:]))


def twice(history: History, rng: Random) -> History:
    """The same once more on other objects, at the same time."""
    copies = [replace(o, key=f"{o.key} copy", call=o.call + 0.5, ret=o.ret and o.ret + 0.5) for o in history.operations]
    return numbered(history, [*history.operations, *copies])


NEUTRAL: list[Change] = [renamed_values, renamed_keys, renamed_processes, twice]
KEEP_LEGAL: list[Change] = [stretched, cut_off, some_crashed, joined_by_crashed, *NEUTRAL]
KEEP_ILLEGAL: list[Change] = [shortened, without_crashed, gone_on, *NEUTRAL]


def shape(model: str, rng: Random) -> Shape:
    locks = model in ("mutex", "fenced-lock")  # whose holder crashes, nobody goes on
    return Shape(
        operations=rng.randint(40, 120),
        processes=rng.choice((3, 5, 8)),
        crash=rng.choice((0.0, 0.0, 0.01) if locks else (0.0, 0.02, 0.05)),
        values=rng.choice((2, 5, 1_000)),
        keys=rng.choice((1, 1, 3)),
        linger=rng.choice((0.2, 0.5)),
    )


def judge(engine: str, histories: list[History], truth: bool | None, about: list[str]) -> list[bool | None]:
    """Return the verdicts; none of them may contradict the truth, where it is known."""
    wrong = []
    verdicts = []
    for history, result, what in zip(histories, JUDGES[engine](histories), about, strict=True):
        verdicts.append(result.valid)
        if truth is not None and result.valid is (not truth):
            wrong.append(f"{history.id} {what}: {result.valid}")
        if result.valid:
            flaws = {key: verify(history, key, result.orders.get(key, ())) for key in keys(history)}
            wrong += [f"{history.id} {what}, {key}: {flaw}" for key, flaw in flaws.items() if flaw]
    assert not wrong
    return verdicts


def check_lawful(engine: str, model: str, seeds: range) -> None:
    histories, about = [], []
    for seed in seeds:
        rng = Random(f"{model} {seed}")
        base = lawful(model, shape(model, rng), seed)
        if not base.operations:  # a lock that nobody here holds
            continue
        histories += [base, *(change(base, rng) for change in KEEP_LEGAL)]
        about += ["as it was", *(change.__name__ for change in KEEP_LEGAL)]
    verdicts = judge(engine, histories, True, about)
    assert True in verdicts


def check_illegal(engine: str, model: str, seeds: range) -> None:
    bases = []
    for seed in seeds:
        rng = Random(f"{model} {seed}")
        bases.append(damaged(model, shape(model, rng), seed))
    verdicts = judge(engine, bases, None, ["damaged"] * len(bases))
    illegal = [base for base, verdict in zip(bases, verdicts, strict=True) if verdict is False]
    assert illegal
    histories, about = [], []
    for base in illegal[: max(2, len(bases) // 5)]:
        rng = Random(base.id)
        histories += [change(base, rng) for change in KEEP_ILLEGAL]
        about += [change.__name__ for change in KEEP_ILLEGAL]
    judge(engine, histories, False, about)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("engine", JUDGES)
def test_what_cannot_break_a_lawful_history_does_not(engine: str, model: str) -> None:
    check_lawful(engine, model, range(2))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("engine", JUDGES)
def test_what_cannot_heal_an_illegal_history_does_not(engine: str, model: str) -> None:
    check_illegal(engine, model, range(10))


@pytest.mark.full
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("engine", JUDGES)
def test_many_large_histories_keep_their_verdicts(engine: str, model: str) -> None:
    check_lawful(engine, model, range(2, 15))
    check_illegal(engine, model, range(10, 40))
