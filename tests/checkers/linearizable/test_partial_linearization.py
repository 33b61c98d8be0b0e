"""A dead end is told so that a person can follow it: the state after each step, and what can't come next, and why."""

from __future__ import annotations

import pytest

from checkers.linearizable.history import Argument, DeadEnd, Function, History, Operation, Witness
from checkers.linearizable.python.checker import examine
from checkers.linearizable.witness.partial_linearization import dead_ends, linearization, minimal_dead_ends

#: (process, f, arguments, call, ret)
Told = tuple[str, Function, tuple[Argument, ...], int, int | None]
F = Function


def history(model: str, *calls: Told, init: tuple[Argument, ...] = ()) -> History:
    operations = [
        Operation(process=process, f=f, arguments=arguments, call=call, ret=ret)
        for process, f, arguments, call, ret in calls
    ]
    return History(id="h", model=model, operations=operations, init=init)


STALE = history(
    "register",
    ("0", F.WRITE, ("1",), 0, 1),
    ("0", F.WRITE, ("2",), 2, 3),
    ("9", F.READ, ("2",), 4, 5),
    ("1", F.READ, ("1",), 6, 7),
)


def witness(of: History) -> Witness:
    found = examine(of).witness
    assert found is not None
    return found


def test_each_step_has_its_state_and_what_is_left_its_reason() -> None:
    (step,) = dead_ends(STALE, witness(STALE))
    assert (step.order, step.states) == ((0, 1, 2), ("1", "2", "2"))
    assert step.illegal == {3: "it read 1, the object then holds 2"}


def test_the_minimal_part_alone_keeps_the_numbers_of_the_whole() -> None:
    (step,) = minimal_dead_ends(STALE, (1, 3))
    assert (step.order, step.states, step.illegal) == ((1,), ("2",), {3: "it read 1, the object then holds 2"})


@pytest.mark.parametrize("part", [(), (0, 1), tuple(range(400))])
def test_a_part_that_is_empty_or_lawful_or_large_has_no_dead_end(part: tuple[int, ...]) -> None:
    calls: list[Told] = [("0", F.WRITE, ("1",), 2 * at, 2 * at + 1) for at in range(400)]
    assert minimal_dead_ends(history("register", *calls), part) == ()


def test_a_linearization_has_every_state() -> None:
    lawful = history("counter", ("0", F.ADD, (2,), 0, 1), ("0", F.ADD, (-1,), 2, 3), ("0", F.READ, (1,), 4, 5))
    step = linearization(lawful, [0, 1, 2])
    assert (step.states, step.state, step.illegal) == (("2", "1", "1"), "1", {})


def test_a_violation_found_without_a_search_has_its_prefix_or_nothing() -> None:
    found = Witness(key=None, reason="a pattern", prefix=(), blocked=-1, dead_ends=(), minimal=(3,))
    assert dead_ends(STALE, found) == ()
    with_prefix = Witness(key=None, reason="", prefix=(0,), blocked=3, dead_ends=(), minimal=())
    assert [(step.order, list(step.illegal)) for step in dead_ends(STALE, with_prefix)] == [((0,), [3])]


def test_a_long_state_is_cut() -> None:
    value = '"' + "x" * 5_000 + '"'
    one = history("kv", ("0", F.WRITE, (value,), 0, 1))
    assert len(linearization(one, [0]).state) == 200


@pytest.mark.parametrize(
    ("model", "f", "arguments", "reason"),
    [
        ("register", F.READ, ("1",), "it read 1, the object then holds nil"),
        ("cas-register", F.CAS, ("1", "2"), "it changed what was 1, the object then holds nil"),
        ("cas-register", F.CAS_FAILED, ("null", "2"), "it found another one than nil, the object then holds nil"),
        ("replica-info", F.READ, (3, "1", "2"), "it read epoch 3 {1, 2}, the object then holds epoch 0 {}"),
        ("replica-info", F.CAS, (3, 4, "1"), "it changed what was epoch 3, the object then holds epoch 0 {}"),
        ("set", F.CONTAINS, ("1", 1), "it found 1 in the set, which then is {}"),
        ("set", F.ADD, ("1", 0), "it found 1 in the set, which then is {}"),
        ("set", F.REMOVE, ("1", 1), "it found 1 in the set, which then is {}"),
        ("set", F.READ, ("1",), "it read {1}, the object then holds {}"),
        ("fifo-queue", F.DEQUEUE, ("1",), "it took 1, the queue then is []"),
        ("mutex", F.RELEASE, (), "the lock then is free"),
        ("counter", F.READ, (7,), "it read 7, the object then holds 0"),
        ("multi-register", F.TXN, (0, '"x"', "1"), "it does not fit all nil"),
    ],
)
def test_the_reason_names_what_was_seen_and_what_is(
    model: str, f: Function, arguments: tuple[Argument, ...], reason: str
) -> None:
    one = history(model, ("0", f, arguments, 0, 1))
    found = Witness(
        key=None, reason="", prefix=(), blocked=0, dead_ends=(DeadEnd(order=(), state="?", illegal=(0,)),), minimal=(0,)
    )
    assert dead_ends(one, found)[0].illegal == {0: reason}
    assert examine(one).valid is False
