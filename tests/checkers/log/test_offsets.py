"""Offsets that a group commits in a transaction count if its messages do, and only then."""

from __future__ import annotations

from tests.checkers.log.logs import Logs, X, Y, check


def moved(type: str, given: int, *, before: int = -1, after: int = -1, missing: bool = False) -> Logs:
    """A group reads two messages of X, and commits that in the transaction that sends one to Y. ``given``: the offset
    that it is given later."""
    begun = Logs().put((0, 0), (1, 1))
    if before >= 0:
        begun.commit(before)
    txn = begun.txn("eos").send(0, 0, queue=Y).commit(2)
    txn.end(type)
    if after >= 0:
        begun.commit(after)
    begun.committed(given)
    found = [] if missing or type == "fail" else [(0, 0)]
    return begun.read_all((0, 0), (1, 1)).read_all(*found, queue=Y, end=1)


def open_yet(*, asked: bool) -> Logs:
    """The group asks for its offset while its transaction is open."""
    begun = Logs().put((0, 0), (1, 1))
    txn = begun.txn("eos").send(0, 0, queue=Y).commit(2)
    if asked:
        txn.ask()
    begun.committed(2)
    txn.end(asked=not asked)
    return begun.read_all((0, 0), (1, 1)).read_all((0, 0), queue=Y)


def test_offsets_that_count_though_messages_do_not() -> None:
    check(
        bad=[
            (moved("fail", 2), ["offset-without-output"]),
            (open_yet(asked=False), ["offset-without-output"]),
            (moved("info", 2, missing=True), ["offset-without-output"]),
        ],
        good=[
            moved("ok", 2),
            moved("fail", -1),
            moved("fail", 1, before=1),
            moved("fail", 2, after=2),
            moved("info", -1, missing=True),
            moved("info", 2),
            open_yet(asked=True),
        ],
    )


def late(given: int) -> Logs:
    """A message of a transaction of unknown outcome is read, and then the group asks for its offset."""
    begun = Logs().put((0, 0), (1, 1))
    begun.commit(1)
    begun.txn("eos").send(0, 0, queue=Y).commit(2).end("info")
    begun.poll({Y: [(0, 0)]})
    begun.committed(given)
    return begun.read_all((0, 0), (1, 1)).read_all((0, 0), queue=Y)


def test_messages_that_count_though_offsets_do_not() -> None:
    check(
        bad=[
            (moved("ok", -1), ["output-without-offset"]),
            (moved("ok", 1, before=1), ["output-without-offset"]),
            (late(1), ["output-without-offset"]),
        ],
        good=[
            moved("ok", 1, after=1),
            moved("ok", 3, after=3),
            late(2),
            moved("info", 1, before=1),
        ],
    )


def test_other_groups_and_queues_have_offsets_of_their_own() -> None:
    begun = Logs().put((0, 0), (1, 1))
    begun.txn("eos").send(0, 0, queue=Y).commit(2).commit(1, queue=Y).end()
    begun.committed(-1, group="other")
    begun.committed(1, queue=Y)
    check(bad=[], good=[begun.read_all((0, 0), (1, 1)).read_all((0, 0), queue=Y), moved("ok", 2)])
    assert X != Y
