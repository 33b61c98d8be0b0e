"""What was committed is there as a whole; what was aborted, or is open, is not read."""

from __future__ import annotations

import pytest

from tests.checkers.log.logs import Logs, X, Y, check, judged


def test_an_aborted_message_that_is_read() -> None:
    refused = Logs().put((0, 0)).tried(1, type="fail").read_all((0, 0), (1, 1))
    back = Logs().put((0, 0))
    back.txn().send(1, 1).end("fail")
    dirty = Logs().put((0, 0))
    open_ = dirty.txn().send(1, 1)
    dirty.poll({X: [(0, 0), (1, 1)]})
    open_.end("fail")
    again = Logs().put((0, 0))
    again.txn().send(1, 1).end("fail")
    again.txn().send(1, 2).end()
    check(
        bad=[
            (refused, ["G1a"]),
            (back.read_all((0, 0), (1, 1)), ["G1a", "resurrected"]),
            (dirty.read_all((0, 0)), ["G1a"]),
        ],
        good=[again.read_all((0, 0), (2, 1))],
    )


def test_a_message_that_is_read_before_its_transaction_is_committed() -> None:
    own = Logs().put((0, 0))
    own.txn().send(1, 1).poll({X: [(0, 0), (1, 1)]}).end()
    early = Logs().put((0, 0))
    open_ = early.txn().send(1, 1)
    early.poll({X: [(0, 0), (1, 1)]})
    open_.end()
    in_time = Logs().put((0, 0))
    asked = in_time.txn().send(1, 1).ask()
    in_time.poll({X: [(0, 0), (1, 1)]})
    asked.end(asked=False)
    check(
        bad=[
            (own.read_all((0, 0), (1, 1)), ["precommitted-read"]),
            (early.read_all((0, 0), (1, 1)), ["precommitted-read"]),
        ],
        good=[in_time.read_all((0, 0), (1, 1))],
    )


def spread(type: str, *, in_y: bool, y_to_end: bool = True) -> Logs:
    """Send in one transaction to X and to Y; the one in X is read."""
    begun = Logs().put((0, 0)).put((0, 0), queue=Y)
    begun.txn().send(1, 1).send(1, 1, queue=Y).end(type)
    begun.read_all((0, 0), (1, 1))
    found = [(0, 0), (1, 1)] if in_y else [(0, 0)]
    return begun.read_all(*found, queue=Y, end=2 if y_to_end else 1)


def test_a_transaction_of_which_a_part_is_missing() -> None:
    passed = Logs().put((0, 0)).put((0, 0), (2, 2), queue=Y)
    passed.txn().send(1, 1).send(1, 1, queue=Y).end("info")
    passed.read_all((0, 0), (1, 1)).read_all((0, 0), (2, 2), queue=Y)
    taken = Logs().put((0, 0)).put((0, 0), (1, 3), queue=Y)
    taken.txn().send(1, 1).send(1, 1, queue=Y).end("info")
    taken.read_all((0, 0), (1, 1)).read_all((0, 0), (1, 3), queue=Y)
    nothing = Logs().put((0, 0)).put((0, 0), queue=Y)
    nothing.txn().send(1, 1).send(1, 1, queue=Y).end("info")
    check(
        bad=[
            (spread("ok", in_y=False), ["torn", "unseen"]),
            (spread("info", in_y=False), ["torn"]),
            (passed, ["torn", "lost-write"]),
            (taken, ["torn", "lost-write", "inconsistent-offsets"]),
        ],
        good=[
            spread("ok", in_y=True),
            spread("info", in_y=True),
            nothing.read_all((0, 0), end=2).read_all((0, 0), queue=Y, end=2),
        ],
    )


def test_a_message_that_was_sent_again_proves_nothing_of_its_first_transaction() -> None:
    again = Logs().put((0, 0)).put((0, 0), queue=Y)
    again.txn().send(1, 1).send(1, 1, queue=Y).end("info")
    again.txn().send(1, 2).end()
    check(bad=[], good=[again.read_all((0, 0), (2, 1)).read_all((0, 0), queue=Y, end=2)])


def held_up(type: str, *, taken_over: bool = False, wait_s: float = 0.0, end: int = 1) -> Logs:
    """A final read that is held up at offset 1, where a message of a transaction stands."""
    begun = Logs().put((0, 0))
    begun.txn("first", "t").send(1, 1).end(type)
    if taken_over:
        op = begun.invoke("take_over", process="second-0.0", value={"id": "t"})
        begun.complete(op, value={"epoch": 2})
    begun.put((3, 3))
    begun.wait(wait_s)
    return begun.read_all((0, 0), end=4, maximum=end)


@pytest.mark.parametrize(
    ("history", "also"),
    [
        (held_up("fail", wait_s=5), []),
        (held_up("info", taken_over=True, wait_s=5), []),
        (held_up("info", wait_s=80), []),
        (held_up("ok", wait_s=5), ["torn"]),
    ],
)
def test_readers_that_a_transaction_holds_up_which_had_to_be_over(history: Logs, also: list[str]) -> None:
    check(bad=[(history, ["lso-stalled", "unseen", *also])], good=[])


def test_a_transaction_that_may_be_open_leaves_it_open_what_is_behind() -> None:
    for history in (held_up("info", wait_s=5), held_up("info", taken_over=True)):
        found = judged(history)
        assert {one.name for one in found.anomalies} == {"unseen"}
        assert "by a transaction that may still be open" in found.why
