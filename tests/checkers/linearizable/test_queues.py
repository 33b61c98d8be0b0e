"""Queues without order and their drains, in every form in which Jepsen's tests record them, and the check whether all
that went in came out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from chaos.errors import BadInput
from chaos.verdict import Validity
from checkers.linearizable import jar as _jar
from checkers.linearizable import total_queue
from checkers.linearizable.checker import check, examine
from checkers.linearizable.formats.files import of_events, read
from checkers.linearizable.history import NIL, Function, History, Operation
from tests.checkers.linearizable.brute_force import linearizable
from tests.checkers.linearizable.random_histories import Shape, arbitrary, damaged, lawful

F = Function
ENGINES = ["jvm", "python"]


@pytest.fixture(scope="module", autouse=True)
def jar() -> None:
    _jar.build()


def history(model: str, *rows: tuple, init: object = None) -> History:
    """Of events as (process, type, f, value, error)."""
    names = ("process", "type", "f", "value", "error")
    return of_events([dict(zip(names, row, strict=False)) for row in rows], model, init)


def verdicts(one: History) -> set[bool | None]:
    return {result.valid for engine in ENGINES for result in examine([one], engine=engine, memory_mib=256)}


def put(value: int) -> list[tuple]:
    return [(0, "invoke", "enqueue", value), (0, "ok", "enqueue", value)]


def take(value: int | None, process: int = 1) -> list[tuple]:
    """A dequeue that took the value; None: it found nothing."""
    return [(process, "invoke", "dequeue"), (process, "ok", "dequeue", value)]


def begin(process: int = 1) -> tuple:
    return (process, "invoke", "drain")


def end(*elements: int, process: int = 1) -> tuple:
    return (process, "ok", "drain", list(elements))


def drain(*elements: int, process: int = 1) -> list[tuple]:
    return [begin(process), end(*elements, process=process)]


PUT = [*put(1), *put(2)]
CRASHED = [(2, "invoke", "dequeue"), (2, "info", "dequeue")]
CRASHED_DRAIN = [begin(), (1, "info", "drain")]
FAILED_DRAIN = [begin(), (1, "fail", "drain")]
EXHAUSTED = (1, "ok", "drain", "exhausted")
#: The last dequeue in a drain, which ends it.
NO_MORE = [(1, "invoke", "dequeue"), (1, "fail", "dequeue", None, "exhausted"), EXHAUSTED]
TIMED_OUT = [(1, "invoke", "dequeue"), (1, "fail", "dequeue", None, "timeout"), EXHAUSTED]


def logged(*values: int) -> list[tuple]:
    """A drain as RabbitMQ's test of 2014 logged it."""
    rows = [row for value in values for row in (begin(), (1, "ok", "dequeue", value))]
    return [*rows, EXHAUSTED]


#: What happened after 1 and 2 were put in, and whether that is linearizable.
UNORDERED: dict[str, tuple[list[tuple], bool]] = {
    "nothing taken": ([], True),
    "out of order": ([*take(2), *take(1)], True),
    "taken twice": ([*take(2), *take(2, 2)], False),
    "never put in": ([*take(3)], False),
    "found empty after all was taken": ([*take(2), *take(1), *take(None)], True),
    "found empty while 1 is in it": ([*take(2), *take(None)], False),
    "found empty, and a dequeue that crashed may have it": ([*CRASHED, *take(2), *take(None)], True),
    "found empty, and one that crashed may have only one": ([*CRASHED, *take(None)], False),
    "what a crashed dequeue took stays gone": ([*CRASHED, *take(2), *take(None), *take(1)], False),
    "a drain of all": (drain(2, 1), True),
    "a drain that leaves one": (drain(2), False),
    "a drain of nothing": (drain(), False),
    "a drain of more than there was": (drain(2, 1, 1), False),
    "two drains at once share it": ([begin(1), begin(2), end(2), end(1, process=2)], True),
    "the same one after the other": ([*drain(2), *drain(1, process=2)], False),
    "a drain while another takes": ([begin(), *take(1, 2), end(2)], True),
    "a drain ends after its own takes": ([*take(1), *take(2), begin(), *put(3), *put(4), end(4)], False),
    "what comes after a drain's end stays": (
        [*take(1), *take(2), begin(), *put(3), (0, "invoke", "enqueue", 4), end(3), (0, "ok", "enqueue", 4)],
        True,
    ),
    "a drain that crashed may have taken any": ([*CRASHED_DRAIN, *drain(process=2)], True),
    "a drain that never ended": ([begin(), *drain(1, process=2)], True),
    "a drain that failed took nothing": ([*FAILED_DRAIN, *drain(process=2)], False),
    "dequeues within a drain (Disque)": ([begin(), *take(2), *take(1), *NO_MORE], True),
    "dequeues within a drain that leaves one": ([begin(), *take(2), *NO_MORE], False),
    "a drain that ended by a timeout saw nothing": ([begin(), *take(2), *TIMED_OUT], True),
    "a drain that timed out in a dequeue": (
        [begin(), *take(2), (1, "invoke", "dequeue"), (1, "info", "drain", None, "timeout"), *drain(process=2)],
        True,
    ),
    "two drains that crashed": ([*CRASHED_DRAIN, begin(4), *drain(process=2)], True),
    "a drain as RabbitMQ's test logged it": (logged(2, 1), True),
    "so logged, and leaves one": (logged(2), False),
    "so logged, and takes one twice": (logged(2, 2), False),
}


@pytest.mark.parametrize("what", UNORDERED)
def test_a_queue_without_order(what: str) -> None:
    rows, valid = UNORDERED[what]
    one = history("unordered-queue", *PUT, *rows)
    assert verdicts(one) == {valid}
    assert linearizable(one) is valid


@pytest.mark.parametrize(("ended", "valid"), [(3, False), (None, True)])
def test_a_dequeue_of_an_unknown_value_took_something_unless_it_crashed(ended: int | None, valid: bool) -> None:
    """The Java engine judged each value alone, and such a dequeue with none: nothing was missing then."""
    operations = [
        Operation(process="0", f=F.ENQUEUE, arguments=("1",), call=0, ret=1),
        Operation(process="1", f=F.DEQUEUE, arguments=(None,), call=2, ret=ended),
        Operation(process="2", f=F.DEQUEUE, arguments=("1",), call=4, ret=5),
    ]
    one = History(id="taken", model="unordered-queue", operations=operations)
    assert verdicts(one) == {valid} and linearizable(one) is valid


def test_nothing_is_unknown_and_a_first_state_counts() -> None:
    for model in ("unordered-queue", "total-queue"):
        assert verdicts(history(model)) == {None}
    assert verdicts(history("unordered-queue", *take(7), init=[8, 7])) == {True}
    assert verdicts(history("unordered-queue", *take(7), init=[8])) == {False}
    assert verdicts(history("total-queue", *put(1), *drain(1, 7), init=[7])) == {True}
    assert verdicts(history("total-queue", *put(1), *drain(1), init=[7])) == {False}


def test_long_queues_are_decided_without_a_search() -> None:
    rng = Random(1)
    values = list(range(1_500))
    shuffled = values[:]
    rng.shuffle(shuffled)
    rows = [row for value in values for row in put(value)]
    rows += [row for value in shuffled[:1_000] for row in take(value)]
    good = history("unordered-queue", *rows, *drain(*shuffled[1_000:]))
    lossy = history("unordered-queue", *rows, *drain(*shuffled[1_001:]))
    twice = history("unordered-queue", *rows, *take(shuffled[5]))
    results = list(examine([good, lossy, twice], engine="jvm", memory_mib=512))
    assert [one.valid for one in results] == [True, False, False]
    assert [one.configs for one in results] == [0, 0, 0]
    # Where the time for it runs out, on a busy machine, what is shown has forgotten what was put in.
    assert results[1].witness is not None
    assert any(words in results[1].witness.reason for words in ("something was in the queue", "than were taken"))


def test_a_drain_that_is_no_list_or_of_another_model_is_refused() -> None:
    with pytest.raises(BadInput, match="expected the list of the elements that the drain took"):
        history("unordered-queue", begin(), (1, "ok", "drain", 5))
    with pytest.raises(BadInput, match=r"fifo-queue has no .drain.*unordered-queue and total-queue know drains"):
        history("fifo-queue", *drain(5))
    with pytest.raises(BadInput, match="before its drain of op 0 has ended"):
        history("unordered-queue", begin(), (1, "invoke", "enqueue", 5))


# What went in must come out.

CRASHED_PUT = [(3, "invoke", "enqueue", 3), (3, "info", "enqueue", 3)]
FAILED_PUT = [(3, "invoke", "enqueue", 3), (3, "fail", "enqueue", 3)]
LEFT = {"outstanding": {"2": 1}}
#: What happened after 1 and 2 were put in; the verdict, and what is reported.
TOTAL: dict[str, tuple[list[tuple], bool | None, dict[str, dict[str, int]]]] = {
    "all came out": (drain(2, 1), True, {}),
    "all came out without a drain": ([*take(2), *take(1)], True, {}),
    "one is lost": ([*take(1), *drain()], False, {"lost": {"2": 1}}),
    "one came out of nowhere": (drain(2, 1, 3), False, {"unexpected": {"3": 1}}),
    "a duplicate is reported and no failure": ([*take(1), *drain(2, 1)], True, {"duplicated": {"1": 1}}),
    "an enqueue that crashed is recovered": ([*CRASHED_PUT, *drain(3, 2, 1)], True, {"recovered": {"3": 1}}),
    "an enqueue that failed was attempted": ([*FAILED_PUT, *drain(3, 2, 1)], True, {"recovered": {"3": 1}}),
    "an enqueue that crashed need not come out": ([*CRASHED_PUT, *drain(2, 1)], True, {}),
    "no drain": (take(1), None, LEFT),
    "a drain that crashed": ([*take(1), *CRASHED_DRAIN], None, LEFT),
    "a drain that never ended": ([*take(1), begin()], None, LEFT),
    "a drain that crashed beside one that ended": ([begin(), *drain(1, process=2)], None, LEFT),
    "a drain that crashed when all was out": ([*take(1), *take(2), *CRASHED_DRAIN], True, {}),
    "a drain that failed": ([*take(1), *FAILED_DRAIN], None, LEFT),
    "a drain that ended by a timeout": ([begin(), *take(1), *TIMED_OUT], None, LEFT),
    "a drain that ended for want of elements": ([begin(), *take(1), *NO_MORE], False, {"lost": {"2": 1}}),
    "a drain before the last enqueue": ([*drain(2, 1), *put(3)], None, {"outstanding": {"3": 1}}),
    "a dequeue that crashed may have it": ([*CRASHED, *drain(1)], None, LEFT),
    "one that crashed can't have both": ([*CRASHED, *drain()], False, {"lost": {"1": 1, "2": 1}}),
    "unexpected in spite of a drain that crashed": (
        [*take(9), *CRASHED_DRAIN],
        False,
        {"unexpected": {"9": 1}, "outstanding": {"1": 1, "2": 1}},
    ),
}


@pytest.mark.parametrize("what", TOTAL)
def test_what_went_in_must_come_out(what: str) -> None:
    rows, valid, reported = TOTAL[what]
    one = history("total-queue", *PUT, *rows)
    result = total_queue.examine(one)
    kinds = ("lost", "unexpected", "duplicated", "recovered", "outstanding")
    found = {kind: dict(of) for kind in kinds if result.tally is not None and (of := getattr(result.tally, kind))}
    assert (result.valid, found) == (valid, reported)
    assert bool(result.undecided) is (valid is None)
    assert verdicts(one) == {valid}


def test_nothing_acknowledged_proves_nothing() -> None:
    (result,) = examine([history("total-queue", *CRASHED_PUT, *drain())])
    assert result.valid is None and "no enqueue was acknowledged" in result.undecided[0].reason


def test_keys_are_queues_of_their_own() -> None:
    ops: list[dict[str, object]] = []
    for key, given, taken in (("a", 1, [1]), ("b", 2, [])):
        ops += [{"process": 0, "type": t, "f": "enqueue", "value": given, "key": key} for t in ("invoke", "ok")]
        ops += [{"process": 0, "type": "invoke", "f": "drain", "key": key}]
        ops += [{"process": 0, "type": "ok", "f": "drain", "value": taken, "key": key}]
    verdict = check(ops, "total-queue")
    assert verdict.validity is Validity.INVALID
    assert "lost 1: 2" in verdict.anomalies[0].explanation


def lost_by_hand(one: History) -> bool:
    """Whether something surely is lost: strike out, from what was acknowledged before the last look at an empty queue,
    one entry for each element that came out and one for each dequeue that crashed; a drain that crashed strikes all."""
    looks = [o.call for o in one.operations if o.ret is not None and (o.f is F.DRAINED or o.arguments[0] == NIL)]
    if not looks or any(o.f is F.DRAINED and o.ret is None for o in one.operations):
        return False
    owed = [*one.init]
    owed += [o.arguments[0] for o in one.operations if o.f is F.ENQUEUE and o.ret is not None and o.ret < max(looks)]
    for o in one.operations:
        if o.f is F.DEQUEUE and o.ret is not None and o.arguments[0] in owed:
            owed.remove(o.arguments[0])
    return len(owed) > sum(o.f is F.DEQUEUE and o.ret is None for o in one.operations)


def test_random_queues_lose_what_a_list_says_and_no_lawful_one_loses_any() -> None:
    """Against striking out entries of a list; and what this calls lost or unexpected is no linearizable queue."""
    counts: dict[object, int] = {}
    for seed in range(600):
        rng = Random(f"total {seed}")
        shape = Shape(operations=rng.randint(1, 9), crash=rng.choice((0.0, 0.0, 0.2)), values=rng.choice((2, 4, 30)))
        one = rng.choice((lawful, damaged, arbitrary))("unordered-queue", shape, seed)
        result = total_queue.examine(replace(one, model="total-queue"))
        assert result.tally is not None
        put_in = {*one.init, *(o.arguments[0] for o in one.operations if o.f is F.ENQUEUE)}
        out = {o.arguments[0] for o in one.operations if o.f is F.DEQUEUE and o.ret is not None} - {NIL, None}
        assert bool(result.tally.lost) is lost_by_hand(one), one
        assert set(result.tally.unexpected) == out - put_in, one
        assert (result.valid is False) is (lost_by_hand(one) or bool(out - put_in)), one
        if result.valid is False:
            assert not linearizable(one), one
        counts[result.valid] = counts.get(result.valid, 0) + 1
    assert min(counts.get(valid, 0) for valid in (True, False, None)) > 50, counts


def test_jepsens_log_with_drains_is_read(tmp_path: Path) -> None:
    log = tmp_path / "jepsen.log"
    prefix = "2025-06-23 17:56:59,640{GMT}\tINFO\t[jepsen worker 0] jepsen.util: "
    rows = [
        "0\t:invoke\t:enqueue\t1",
        "0\t:ok\t:enqueue\t1",
        "1\t:invoke\t:dequeue\tnil",
        "1\t:fail\t:dequeue\t:exhausted",
        "1\t:invoke\t:drain\tnil",
        "1\t:invoke\t:dequeue\tnil",
        "1\t:ok\t:dequeue\t1",
        "1\t:invoke\t:dequeue\tnil",
        "1\t:fail\t:dequeue\t:exhausted",
        "1\t:ok\t:drain\t:exhausted",
    ]
    log.write_text("".join(f"{prefix}{row}\n" for row in rows))
    for model in ("unordered-queue", "total-queue"):
        (found,) = read(log, "", model)
        assert verdicts(found) == {True}
    log.write_text("".join(f"{prefix}{row}\n" for row in [*rows[:6], *rows[8:]]))
    for model in ("unordered-queue", "total-queue"):
        (found,) = read(log, "", model)
        assert verdicts(found) == {False}
