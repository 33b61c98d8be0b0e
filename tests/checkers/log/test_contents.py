"""Each offset holds one message, each message stands once, and nothing is missing that readers went past."""

from __future__ import annotations

from tests.checkers.histories import content, m
from tests.checkers.log.logs import Logs, X, Y, check, violations


def test_two_messages_at_one_offset() -> None:
    two_acks = Logs().put((0, 0), (1, 1)).put((1, 2)).read_all((0, 0), (1, 2))
    ack_and_read = Logs().put((0, 0)).tried(1).poll({X: [(0, 1)]}).read_all((0, 0))
    apart = Logs().put((0, 0), (1, 1)).put((0, 0), (1, 1), queue=Y)
    check(
        bad=[
            (two_acks, ["inconsistent-offsets", "lost-write", "unseen", "nonmonotonic-send"]),
            (ack_and_read, ["inconsistent-offsets"]),
        ],
        good=[apart.read_all((0, 0), (1, 1)).read_all((0, 0), (1, 1), queue=Y)],
    )


def test_a_message_at_two_offsets() -> None:
    stored_twice = Logs().put((0, 0), (1, 1)).poll({X: [(0, 0), (1, 1), (2, 0)]}).read_all((0, 0), (1, 1), (2, 0))
    refused_once = Logs().put((0, 0)).tried(0, type="fail").read_all((0, 0), (1, 0))
    sent_twice = Logs().put((0, 0)).tried(0).read_all((0, 0), (1, 0))
    check(bad=[(stored_twice, ["duplicate"]), (refused_once, ["duplicate"])], good=[sent_twice])


def test_a_message_that_an_idempotent_producer_sent_again() -> None:
    def again(*places: tuple[int, int], type: str = "info") -> Logs:
        history = Logs().put((9, 9)).tried(0)
        op = history.invoke("send", process="again.0", queue=X, message=m(0, X), hash=content(m(0, X)))
        history.complete(op, type, value={"again": 1}, offset=places[0][0] if type == "ok" else -1)
        return history.read_all(*places, (9, 9))

    for type in ("info", "fail", "ok"):
        check(bad=[(again((0, 0), (1, 0), type=type), ["duplicate"])], good=[again((0, 0), type=type)])


def test_a_message_that_readers_went_past() -> None:
    lost = Logs().put((0, 0), (1, 1), (2, 2)).poll({X: [(0, 0), (2, 2)]}).read_all((0, 0), (2, 2))
    behind = Logs().put((0, 0), (1, 1)).poll({X: [(0, 0)]}).read_all((0, 0), (1, 1))
    of_unknown_outcome = Logs().put((0, 0), (2, 2)).tried(1).read_all((0, 0), (2, 2))
    check(bad=[(lost, ["lost-write", "unseen", "int-poll-skip"])], good=[behind, of_unknown_outcome])


def test_a_message_at_the_end_that_nobody_saw() -> None:
    unseen = Logs().put((0, 0), (1, 1)).read_all((0, 0), end=2)
    check(bad=[(unseen, ["unseen"])], good=[Logs().put((0, 0), (1, 1)).read_all((0, 0), (1, 1))])


def test_what_lies_below_the_beginning_of_the_queue_is_not_owed() -> None:
    trimmed = Logs().put((0, 0), (1, 1), (2, 2))
    trimmed.bounds(2, 3)
    check(bad=[], good=[trimmed.read_all((2, 2))])


def test_what_a_slave_gives_counts_as_well() -> None:
    history = Logs().put((0, 0), (1, 1), (2, 2))
    history.pull(0, 0, 2, node="broker-1", from_="broker-1", offsets=(0, 2))
    assert violations(history.read_all((0, 0), (1, 1), (2, 2))) == {"int-poll-skip"}
