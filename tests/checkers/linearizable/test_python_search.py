"""The checker in Python: what it says beside its verdict, and what it does when its budget ends."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from chaos.errors import BadInput
from checkers.linearizable.certificate import verify
from checkers.linearizable.history import NIL, Argument, Function, History, Operation
from checkers.linearizable.python.checker import examine
from tests.checkers.linearizable.brute_force import linearizable
from tests.checkers.linearizable.random_histories import Shape, lawful, numbered

F = Function


def history(model: str, *operations: Operation, init: tuple[Argument, ...] = ()) -> History:
    return History(id="h", model=model, operations=operations, init=init)


def op(
    f: Function, *arguments: Argument, at: tuple[int, int | None], key: str | None = None, by: str = "0"
) -> Operation:
    return Operation(process=by, f=f, arguments=arguments, call=at[0], ret=at[1], key=key)


def hopeless(key: str) -> list[Operation]:
    """Crashed additions of powers of two, and a sum that needs all of them but one too many: nothing prunes that."""
    additions = [op(F.ADD, 1 << i, at=(i, None), key=key) for i in range(40)]
    return [*additions, op(F.READ, (1 << 39) - 3, at=(40, 41), key=key), op(F.READ, 1, at=(42, 43), key=key)]


def test_a_stale_read_is_explained() -> None:
    told = examine(
        history(
            "register",
            op(F.WRITE, "1", at=(0, 1)),
            op(F.WRITE, "9", at=(2, 3), by="1"),
            op(F.READ, "9", at=(4, 5), by="1"),
            op(F.WRITE, "2", at=(6, 7)),
            op(F.READ, "1", at=(8, 9), by="1"),
            op(F.WRITE, "3", at=(10, 11)),
        )
    )
    witness = told.witness
    assert told.valid is False and witness is not None
    assert witness.blocked == 4
    assert witness.prefix == (0, 1, 2, 3)
    assert [(end.order, end.state, end.illegal) for end in witness.dead_ends] == [((0, 1, 2, 3), "2", (4,))]
    assert witness.minimal in ((4,), (3, 4)), "1 was surely overwritten; nothing else belongs to the story"


def test_a_read_of_a_value_keeps_the_write_that_it_may_have_seen() -> None:
    """Without its write every read is illegal, for a silly reason."""
    told = examine(
        history(
            "register",
            op(F.WRITE, "1", at=(0, 20)),
            op(F.READ, "1", at=(1, 2), by="1"),
            op(F.READ, NIL, at=(3, 4), by="1"),
            op(F.READ, NIL, at=(5, 6), by="1"),
        )
    )
    assert told.witness is not None
    assert told.witness.minimal == (0, 1, 2)


def test_every_object_is_judged_or_only_up_to_the_first_violation() -> None:
    bad = [op(F.READ, "7", at=(0, 1), key="bad"), op(F.WRITE, "1", at=(2, 3), key="good")]
    worse = [op(F.WRITE, str(i), at=(10 + i, None), key="worse") for i in range(5)]
    worse += [op(F.READ, "8", at=(20 + 2 * i, 21 + 2 * i), key="worse") for i in range(3)]
    for every_key in (True, False):
        told = examine(history("register", *bad, *worse), every_key=every_key)
        assert told.valid is False and told.witness is not None and told.witness.key == "bad"


def test_an_illegal_object_is_found_beside_a_hopeless_one() -> None:
    operations = [
        *hopeless("hopeless"),
        op(F.ADD, 1, at=(100, 101), key="bad"),
        op(F.READ, 0, at=(102, 103), key="bad"),
    ]
    told = examine(history("counter", *operations), max_configs=20_000)
    assert told.valid is False and told.witness is not None and told.witness.key == "bad"
    assert [(one.key, one.of) for one in told.undecided] == [("hopeless", 2)]
    assert examine(history("counter", *operations), every_key=False).configs < 100_000


def test_a_budget_that_ends_is_undecided_and_says_so() -> None:
    few = examine(history("counter", *hopeless("k")), max_configs=5_000)
    assert few.valid is None and few.configs <= 5_000
    assert [(one.key, one.reason) for one in few.undecided] == [("k", "5,000 configurations")]
    start = time.perf_counter()
    brief = examine(history("counter", *hopeless("k")), max_configs=10**9, max_seconds=0.2)
    assert brief.valid is None and brief.undecided[0].reason == "time"
    assert time.perf_counter() - start < 5


def test_many_equal_crashed_operations_are_one_class() -> None:
    crashed = [op(F.WRITE, "5", at=(i, None)) for i in range(60)]
    reads = [op(F.READ, "5", at=(100, 101)), op(F.WRITE, "6", at=(102, 103)), op(F.READ, "7", at=(104, 105))]
    assert examine(history("register", *crashed, *reads)).configs < 50


def test_crashed_writes_that_nobody_read_cost_nothing() -> None:
    crashed = [op(F.WRITE, str(i), at=(i, None)) for i in range(60)]
    told = examine(history("register", *crashed, op(F.WRITE, "a", at=(100, 101)), op(F.READ, "b", at=(102, 103))))
    assert told.valid is False and told.configs < 200


def test_crashed_holders_of_a_mutex_cost_little() -> None:
    operations = []
    for i in range(40):
        operations += [op(F.ACQUIRE, at=(10 * i, None)), op(F.RELEASE, at=(10 * i + 1, None))]
    operations += [op(F.ACQUIRE, at=(1000, 1001)), op(F.ACQUIRE, at=(1002, 1003))]
    told = examine(history("mutex", *operations), orders=True)
    assert told.valid is True and told.configs < 1_000
    assert verify(history("mutex", *operations), None, told.orders[None]) == ""


def test_a_lock_is_taken_away_with_its_release() -> None:
    times = [(F.ACQUIRE, "0", 0), (F.RELEASE, "0", 2), (F.ACQUIRE, "1", 4), (F.ACQUIRE, "2", 6), (F.RELEASE, "1", 8)]
    operations = [op(f, at=(moment, moment + 1), by=process) for f, process, moment in times]
    told = examine(history("mutex", *operations))
    assert told.witness is not None and told.witness.minimal == (2, 3)


def test_a_register_of_a_long_run_takes_no_time() -> None:
    """2,000 operations of eight clients, a few of them crashed: the work of a second, counted in configurations."""
    for values in (5, 1_000):
        shape = Shape(operations=2_000, processes=8, crash=0.02, values=values, linger=0.5)
        told = examine(lawful("cas-register", shape, 1), orders=True)
        assert told.valid is True and told.configs < 50_000
        assert verify(lawful("cas-register", shape, 1), None, told.orders[None]) == ""


def test_the_minimal_part_of_a_long_history_is_short() -> None:
    base = lawful("register", Shape(operations=400, processes=5, crash=0.01, values=4, linger=0.3), 7)
    end = 2 * len(base.operations)
    operations = [*base.operations, op(F.WRITE, "0", at=(end, end + 1)), op(F.READ, "1", at=(end + 2, end + 3))]
    broken = numbered(base, [o for o in operations if o.ret is not None])
    told = examine(broken)
    assert told.valid is False and told.witness is not None
    assert told.witness.blocked == len(broken.operations) - 1
    assert len(told.witness.minimal) < 10 and not linearizable(broken, told.witness.minimal)


def test_reads_of_unknown_values_restrict_nothing() -> None:
    unknown = op(F.READ, None, at=(2, 3))
    assert examine(history("register", op(F.WRITE, "1", at=(0, 1)), unknown)).valid is True
    assert examine(history("register", replace(unknown, ret=None)), orders=True).orders == {None: ()}


def test_a_history_without_operations_has_nothing_wrong() -> None:
    assert examine(history("register")).valid is True


@pytest.mark.parametrize(
    ("model", "operation", "word"),
    [
        ("register", op(F.ENQUEUE, "1", at=(0, 1)), "enqueue"),
        ("mutex", op(F.READ, "1", at=(0, 1)), "read"),
        ("fifo-queue", op(F.READ, "1", at=(0, 1)), "read"),
        ("stack", op(F.READ, "1", at=(0, 1)), "stack"),
    ],
)
def test_what_a_model_does_not_know_is_refused(model: str, operation: Operation, word: str) -> None:
    with pytest.raises(BadInput, match=word):
        examine(history(model, operation))
