"""Histories like those that Jepsen tests its Kafka workload with have the verdicts that Jepsen gives them.

Jepsen reads no queue to its end after a run, so ``unseen`` is left out where it would say the same of the end of such a
history; and its readers have no other position than what they read last."""

from __future__ import annotations

import pytest

from chaos.verdict import Validity
from tests.checkers.log.logs import Logs, Places, X, Y, judged, violations


def of_x(*offsets: int) -> Places:
    """Return messages of X, each of which stands at the offset of its sequence."""
    return [(offset, offset) for offset in offsets]


def found(history: Logs) -> set[str]:
    return violations(history) - {"unseen", "torn"}


def test_offsets_of_a_transaction_of_unknown_outcome_count_if_a_message_of_it_was_read() -> None:
    def conflicting(*, is_read: bool) -> Logs:
        begun = Logs()
        begun.txn().send(1, 0).send(1, 5, queue=Y).end("info")
        begun.put((0, 2))
        return begun.poll({Y: [(5, 1)]}) if is_read else begun

    assert found(conflicting(is_read=False)) == set()
    assert "inconsistent-offsets" in found(conflicting(is_read=True))


def test_two_acknowledged_messages_at_one_offset() -> None:
    assert found(Logs().put((537, 1)).put((537, 2), process="other.0")) == {"inconsistent-offsets"}


def test_a_failed_write_that_is_read() -> None:
    begun = Logs().tried(2, type="fail").tried(3, queue=Y, type="fail")
    assert found(begun.poll({X: [(0, 2)]})) == {"G1a"}


def test_messages_below_one_that_was_read_are_lost() -> None:
    begun = Logs().put((0, 0))
    begun.txn().send(1, 1).send(3, 3).end()
    assert found(begun.tried(2).poll({X: [(2, 2)]})) == {"lost-write"}


def test_a_message_is_lost_whose_offset_another_one_has() -> None:
    begun = Logs().put((0, 0))
    begun.txn().send(1, 0).send(2, 2).end()
    assert found(begun.poll({X: [(0, 1), (2, 2)]})) == {"lost-write", "inconsistent-offsets"}


@pytest.mark.parametrize(("is_read", "names"), [(False, set[str]()), (True, {"lost-write"})])
def test_a_transaction_of_unknown_outcome_is_atomic(is_read: bool, names: set[str]) -> None:
    begun = Logs()
    begun.txn().send(0).send(0, 0, queue=Y).end("info")
    begun.tried(1, queue=Y)
    if is_read:
        begun.poll({X: [(0, 0)]}, process="a.0")
    assert found(begun.poll({Y: [(1, 1)]}, process="b.0")) == names


def skipping(*moves: tuple[str, list[int]]) -> Logs:
    """A reader is given 1, 2, then 4, then 7; others show that there are 3 and 6. Of 5 nobody knows anything. The moves
    come before 4, and before 7."""
    begun = Logs().tried(1, 2, 3, 4, 7)
    begun.poll({X: of_x(1, 2)}).poll({X: of_x(3)}, process="other.0")
    for f, queues in moves[:1]:
        begun.move(f, queues=queues)
    begun.poll({X: of_x(4)}).put((6, 6))
    for f, queues in moves[1:]:
        begun.move(f, queues=queues)
    return begun.poll({X: of_x(7)})


def test_a_reader_goes_past_messages_unless_it_gave_the_queue_up_meanwhile() -> None:
    assert found(skipping()) == {"poll-skip", "lost-write"}
    assert found(skipping(("assign", [X, Y]), ("assign", [X, Y]))) == {"poll-skip", "lost-write"}
    assert found(skipping(("assign", [Y]), ("assign", [Y]))) == {"lost-write"}


@pytest.mark.parametrize("type", ["fail", "info"])
def test_an_aborted_transaction_takes_its_reads_back(type: str) -> None:
    def after(*polls: tuple[str, Places]) -> Logs:
        begun = Logs().put(*of_x(0, 1, 2, 3, 4, 5))
        begun.txn("eos").poll({X: of_x(0)}).end()
        for how, places in polls:
            begun.txn("eos").poll({X: places}).end(how)
        return begun.poll({X: of_x(0, 1, 2, 3, 4, 5)}, process="all.0")

    rewound = [(type, of_x(1, 2)), ("info", of_x(1, 2)), ("ok", of_x(1, 2))]
    assert found(after(*rewound)) == set()
    assert found(after((type, of_x(1, 2)), (type, of_x(3, 4)), ("ok", of_x(5)))) == {"poll-skip"}
    assert found(after((type, of_x(1, 2)), (type, of_x(3, 4)))) == {"poll-skip"}


def test_a_reader_goes_back_unless_it_gave_the_queue_up_meanwhile() -> None:
    def again(*queues: int) -> Logs:
        begun = Logs().put(*of_x(1, 2, 3, 4)).poll({X: of_x(1, 2, 3)})
        if queues:
            begun.move("assign", queues=[*queues])
        return begun.poll({X: of_x(2, 3, 4)})

    assert found(again()) == {"nonmonotonic-poll"}
    assert found(again(X, Y)) == {"nonmonotonic-poll"}
    assert found(again(Y)) == set()


def test_a_process_sends_behind_what_it_had_sent() -> None:
    begun = Logs()
    begun.txn().send(3, 3).send(4, 4).end()
    begun.txn().send(1, 1).send(2, 2).end()
    assert found(begun) == {"nonmonotonic-send"}


def test_what_a_reader_gives_up_excuses_no_producer() -> None:
    """Jepsen lets a process send out of order once it has given up reading the queue; here producers read nothing."""
    begun = Logs()
    begun.txn().send(3, 3).send(4, 4).end()
    begun.move("assign", queues=[Y], process="producer.0")
    begun.txn().send(1, 1).send(2, 2).end()
    assert found(begun) == {"nonmonotonic-send"}


def test_a_history_in_which_nothing_was_done_is_not_valid() -> None:
    assert judged(Logs().move("assign", queues=[X])).validity is not Validity.VALID


def test_one_read_goes_past_a_message() -> None:
    begun = Logs().tried(1, 2, 4).poll({X: of_x(1, 4)}).poll({X: of_x(2)}, process="other.0")
    assert found(begun) == {"int-poll-skip"}
    begun = Logs().tried(1, 2, 4)
    begun.txn("eos").poll({X: of_x(1)}).poll({X: of_x(4)}).end()
    assert found(begun.poll({X: of_x(2)}, process="other.0")) == {"int-poll-skip"}


def test_messages_of_others_between_those_of_a_transaction_are_no_violation() -> None:
    begun = Logs()
    begun.txn().send(1, 1).send(3, 3).end()
    assert found(begun.tried(2).poll({X: of_x(2, 3)})) == {"lost-write"}  # of 1, as Jepsen says too


def test_one_read_goes_back() -> None:
    begun = Logs().tried(1, 2, 3).poll({X: of_x(3, 1)})
    assert found(begun) == {"int-nonmonotonic-poll"}
    begun = Logs().tried(1, 2, 3)
    begun.txn("eos").poll({X: of_x(2, 3)}).poll({X: of_x(3)}).end()
    assert found(begun) == {"int-nonmonotonic-poll"}


def test_messages_of_one_transaction_change_places() -> None:
    begun = Logs()
    begun.txn().send(3, 3).send(1, 1).end()
    assert found(begun) == {"int-nonmonotonic-send"}
    begun = Logs().tried(3)
    begun.txn().send(4).send(2).end("info")
    assert found(begun.poll({X: of_x(2, 3, 4)})) == {"int-nonmonotonic-send"}


def test_a_message_stands_at_two_offsets() -> None:
    assert "duplicate" in found(Logs().put((1, 0)).tried(1).poll({X: [(2, 1), (3, 0)]}))
    begun = Logs()
    for sequence in range(10):
        begun.put((0, sequence), process=f"sender-{sequence}.0").poll({X: [(1, sequence)]}, process=f"r-{sequence}.0")
    assert {"duplicate", "inconsistent-offsets"} <= found(begun)


def test_reads_of_aborted_transactions_show_duplicates_but_aborted_writes_do_not() -> None:
    begun = Logs().put((1, 0))
    begun.txn().send(1, 2).end("fail")
    begun.txn("eos").poll({X: [(11, 0), (12, 1)]}).end("fail")
    assert found(begun) == {"duplicate", "G1a", "resurrected"}  # Jepsen holds no aborted read against a failed poll


def test_what_nobody_has_read_is_unseen() -> None:
    def read(*offsets: int) -> Logs:
        return Logs().put((0, 0), (1, 1)).poll({X: of_x(*offsets)}).read_all(end=2)

    assert violations(read(0)) == {"unseen"}
    assert violations(read(0, 1)) == set()


def test_a_transaction_that_reads_what_it_wrote() -> None:
    begun = Logs()
    begun.txn().send(0, 0).poll({X: of_x(0)}).end()
    assert found(begun) == {"precommitted-read"}
