"""What transactions over queues show, in the smallest histories that show it, and in ones that look alike and show
nothing."""

from __future__ import annotations

import pytest

from chaos.driver import Profile
from chaos.testing.laws import check_law
from chaos.verdict import Validity
from tests.checkers.isolation.logged import CONTEXT, LAWS, Logged, context


def each_reads_the_other() -> Logged:
    history = Logged()
    history.begin(1)
    history.begin(2)
    history.send(1, (0, 0))
    history.send(2, (1, 0))
    history.commit(1)
    history.commit(2)
    history.poll_together((1, 0), (0, 0))
    history.end(1)
    history.end(2)
    return history


def interleaved(*, read: bool = True) -> Logged:
    """Two transactions of which each stands behind the other one, in one of two queues."""
    history = Logged()
    history.begin(1)
    history.begin(2)
    history.send(1, (0, 0), (1, 1))
    history.send(2, (0, 1), (1, 0))
    history.end(1)
    history.end(2)
    if read:
        history.poll((0, 0), (0, 1), (1, 0), (1, 1))
    return history


def read_before(offset: int, *, process: str = "producer.0") -> Logged:
    """A message is read, and one that is sent afterwards gets this offset."""
    history = one_read()
    begun = history.begin_send((0, 5))
    history.poll((0, 5))
    history.end_send(begun, (0, 5), "info")
    history.sent((0, offset), process)
    return history


def one_read() -> Logged:
    """A transaction that somebody has read: what all histories need to show anything."""
    history = Logged()
    history.begin(0, "zero.0")
    history.send(0, (9, 0))
    history.end(0)
    history.poll((9, 0))
    return history


def sent_before(*, process: str = "other.0", txn: bool = False) -> Logged:
    history = one_read()
    if txn:
        history.begin(1)
        history.send(1, (0, 5))
        history.end(1)
    else:
        history.sent((0, 5))
    history.sent((0, 3), process)
    return history


def read_before_its_commit(*, asked: bool) -> Logged:
    history = one_read()
    history.begin(1)
    history.send(1, (0, 0))
    if asked:
        history.commit(1)
    history.poll((0, 0))
    history.end(1)
    return history


def read_before_it_read(*, late: bool) -> Logged:
    """Somebody is given a message of a transaction before that polls another one, which comes after a later send."""
    history = one_read()
    history.begin(1)
    history.begin(2)
    history.send(1, (0, 0))
    history.send(2, (1, 0))
    history.commit(1)
    history.commit(2)
    if not late:
        history.poll((1, 0))
    history.sent((2, 0))
    history.poll((2, 0), txn=1)
    history.poll((0, 0), txn=2)
    if late:
        history.poll((1, 0))
    history.end(1)
    history.end(2)
    return history


def read_what_came_later(*, process: str) -> Logged:
    history = one_read()
    history.begin(1, "one.0")
    history.poll((0, 0), txn=1, process="one-0.0")
    history.end(1)
    history.begin(2, process)
    history.send(2, (0, 0))
    history.end(2)
    return history


BAD = [
    (each_reads_the_other(), ["G1c"]),
    (read_before(3), ["G1c-realtime"]),
    (read_before(3, process="reader.0"), ["G1c-process"]),
    (sent_before(), ["G0-realtime"]),
    (sent_before(process="producer.0"), ["G0-process"]),
    (sent_before(txn=True), ["G0-realtime"]),
    (read_before_its_commit(asked=False), ["G1c-realtime"]),
    (read_before_it_read(late=False), ["G1c-realtime"]),
    (read_what_came_later(process="one.0"), ["G1c-process"]),
    (read_what_came_later(process="two.0"), ["G1c-realtime"]),
]
NEAR_MISS = [
    interleaved(),
    read_before(7),
    read_before_its_commit(asked=True),
    read_before_it_read(late=True),
    one_read(),
]


def test_the_law_keeps_its_contract() -> None:
    bad = [(history.table(), names) for history, names in BAD]
    check_law(LAWS, bad=bad, near_miss=[history.table() for history in NEAR_MISS], context=CONTEXT)


def test_writes_that_are_not_isolated_are_counted_and_allowed() -> None:
    verdict = interleaved().judge()
    assert verdict.validity is Validity.VALID and verdict.counts["allowed_G0"] == 1
    (found,) = verdict.anomalies
    assert found.lawful and found.explanation.startswith("G0: transaction 2 stands directly behind 1 (offset 1 of")


def test_a_cycle_that_needs_writes_that_are_not_isolated_is_allowed() -> None:
    history = Logged()
    history.begin(1)
    history.begin(2)
    history.send(1, (0, 0))
    history.send(2, (0, 1), (1, 0))
    history.end(2)
    history.poll((1, 0), txn=1)
    history.end(1)
    verdict = history.judge()
    assert verdict.validity is Validity.VALID and verdict.counts["allowed_G1c"] == 1


def test_the_rows_of_a_cycle_tell_its_story() -> None:
    verdict = each_reads_the_other().judge()
    (found,) = [anomaly for anomaly in verdict.anomalies if not anomaly.lawful]
    assert found.explanation == (
        "G1c: transaction 2 was given what 1 had sent (offset 0 of queue 0);"
        " transaction 1 was given what 2 had sent (offset 0 of queue 1)."
    )
    assert len(found.rows) == 6 and [*found.rows] == sorted(found.rows)
    assert [(one.before, one.after, one.kind, one.shown) for one in found.cycle] == [
        ("transaction 1", "transaction 2", "wr: read by", "offset 0 of queue 0"),
        ("transaction 2", "transaction 1", "wr: read by", "offset 0 of queue 1"),
    ]


@pytest.mark.parametrize(("history", "names"), BAD)
def test_every_violation_is_a_circle(history: Logged, names: list[str]) -> None:
    for found in history.judge().anomalies:
        assert [one.after for one in found.cycle] == [*(one.before for one in found.cycle[1:]), found.cycle[0].before]


@pytest.mark.parametrize("type", ["info", "fail"])
def test_one_whose_end_is_unknown_counts_if_it_was_read(type: str) -> None:
    history = one_read()
    history.begin(1)
    history.begin(2)
    history.send(1, (0, 0))
    history.send(2, (1, 0))
    history.commit(1)
    history.commit(2)
    history.poll_together((1, 0), (0, 0))
    history.end(1, type)
    history.end(2)
    assert history.names() == ({"G1c"} if type == "info" else set())


def test_what_the_profile_lets_be_taken_back_orders_nothing() -> None:
    weak = context(profile=Profile(acks="master", unclean=True))
    cut = sent_before()
    cut.fault()
    assert cut.names(weak) == set() and cut.names() == {"G0-realtime"}
    assert sent_before().names(weak) == {"G0-realtime"}
    history = each_reads_the_other()
    history.fault()
    assert history.names(weak) == {"G1c"}


def test_a_message_that_stands_at_two_offsets_orders_nothing() -> None:
    history = sent_before()
    begun = history.begin_send((0, 8))
    history.end_send(begun, (0, 8))
    assert history.names() == {"G0-realtime"}
    twice = one_read()
    twice.sent((0, 5))
    again = twice.begin_send((0, 5), "other.0")
    twice.end_send(again, (0, 3))
    assert twice.names() == set()


def test_what_a_slave_gives_counts_as_well() -> None:
    history = one_read()
    history.begin(1)
    history.send(1, (0, 0))
    history.poll((0, 0), node="broker-1")
    history.end(1)
    assert history.names() == {"G1c-realtime"}


def test_nothing_that_was_read_is_unknown_and_nothing_that_was_done_is_not_applicable() -> None:
    assert "no reader was given" in interleaved(read=False).judge().why
    empty = Logged()
    empty.poll()
    assert empty.judge().validity is Validity.UNKNOWN
    assert empty.judge(context(uses=frozenset(("queues",)))).validity is Validity.NOT_APPLICABLE
    assert interleaved().judge(context(uses=frozenset(("queues",)))).validity is Validity.NOT_APPLICABLE
    aborted = one_read()
    assert aborted.judge(context(uses=frozenset(("logs",)))).validity is Validity.VALID
