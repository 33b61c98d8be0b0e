"""Readers go on from where they stand, unless they are sent elsewhere."""

from __future__ import annotations

from tests.checkers.log.logs import Logs, X, Y, check, judged

FIVE = [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]


def sent() -> Logs:
    return Logs().put(*FIVE)


def test_a_reader_that_goes_past_a_message() -> None:
    skipped = sent().poll({X: FIVE[:2]}).poll({X: FIVE[3:]}).read_all(*FIVE)
    inside = sent().poll({X: [*FIVE[:2], *FIVE[3:]]}).read_all(*FIVE)
    by_a_pull = sent()
    by_a_pull.pull(0, 0, 2, offsets=(0, 2))
    gap = Logs().put((0, 0), (1, 1), (3, 3)).tried(2, type="fail").poll({X: [(0, 0), (1, 1)]}).poll({X: [(3, 3)]})
    two_readers = sent().poll({X: FIVE[:2]}).poll({X: FIVE[3:]}, process="other.0")
    check(
        bad=[
            (skipped, ["poll-skip"]),
            (inside, ["int-poll-skip"]),
            (by_a_pull.read_all(*FIVE), ["int-poll-skip"]),
        ],
        good=[gap.read_all((0, 0), (1, 1), (3, 3)), two_readers.read_all(*FIVE)],
    )


def test_a_reader_that_goes_back() -> None:
    again = sent().poll({X: FIVE[:3]}).poll({X: FIVE[1:]}).read_all(*FIVE)
    same = sent().poll({X: FIVE[:3]}).poll({X: FIVE[2:]}).read_all(*FIVE)
    inside = sent().poll({X: [(1, 1), (0, 0)]}).read_all(*FIVE)
    twice = sent().poll({X: [(1, 1), (1, 1), (2, 2)]}).read_all(*FIVE)
    check(
        bad=[
            (again, ["nonmonotonic-poll"]),
            (same, ["nonmonotonic-poll"]),
            (inside, ["int-nonmonotonic-poll"]),
            (twice, ["int-nonmonotonic-poll"]),
        ],
        good=[sent().poll({X: FIVE[:3]}).poll({X: FIVE[3:]}).read_all(*FIVE)],
    )


def test_a_reader_that_is_sent_elsewhere_goes_on_from_there() -> None:
    ahead = sent().poll({X: FIVE[:2]}).move("seek", queue=X, offset=3).poll({X: FIVE[3:]})
    back = sent().poll({X: FIVE[:3]}).move("seek", queue=X, offset=0).poll({X: FIVE})
    in_vain = sent().poll({X: FIVE[:2]}).move("seek", queue=X, offset=3, type="fail").poll({X: FIVE[3:]})
    perhaps = sent().poll({X: FIVE[:2]}).move("seek", queue=X, offset=3, type="info").poll({X: FIVE[3:]})
    too_far = sent().poll({X: FIVE[:2]}).move("seek", queue=X, offset=3).poll({X: FIVE[4:]})
    before = sent().poll({X: FIVE[:2]}).move("seek", queue=X, offset=3).poll({X: FIVE[2:]})
    check(
        bad=[
            (in_vain.read_all(*FIVE), ["poll-skip"]),
            (too_far.read_all(*FIVE), ["poll-skip"]),
            (before.read_all(*FIVE), ["nonmonotonic-poll"]),
        ],
        good=[ahead.read_all(*FIVE), back.read_all(*FIVE), perhaps.read_all(*FIVE)],
    )


def test_what_a_reader_keeps_it_goes_on_with() -> None:
    def assigned(queues: list[int], following: dict[str, int], *then: tuple[int, int]) -> Logs:
        begun = sent().put(*FIVE, queue=Y).move("assign", queues=[X], following={"0": 0}).poll({X: FIVE[:2]})
        moved = begun.move("assign", queues=queues, following=following)
        return moved.poll({X: [*then]}).read_all(*FIVE).read_all(*FIVE, queue=Y)

    lost = sent().put(*FIVE, queue=Y).move("assign", queues=[X], following={"0": 0}).poll({X: FIVE[:2]})
    lost.move("assign", queues=[Y], following={"1": 0}).move("assign", queues=[X], following={"0": 0}).poll({X: FIVE})
    check(
        bad=[
            (assigned([X, Y], {"0": 2, "1": 0}, *FIVE[3:]), ["poll-skip"]),
            (assigned([X, Y], {"0": 2, "1": 0}, *FIVE[1:]), ["nonmonotonic-poll"]),
            (sent().move("assign", queues=[X], following={"0": 0}).poll({X: FIVE[1:]}).read_all(*FIVE), ["poll-skip"]),
        ],
        good=[
            assigned([X, Y], {"0": 2, "1": 0}, *FIVE[2:]),
            lost.read_all(*FIVE).read_all(*FIVE, queue=Y),
        ],
    )


def test_members_of_groups_may_go_back_and_ahead_but_no_read_of_theirs_leaves_anything_out() -> None:
    def member(*places: tuple[int, int]) -> Logs:
        joined = sent().move("join", queues=[X], following={"0": 0}).poll({X: FIVE[:2]})
        return joined.poll({X: [*places]}).read_all(*FIVE)

    check(bad=[(member(FIVE[2], FIVE[4]), ["int-poll-skip"])], good=[member(*FIVE[3:]), member(*FIVE[1:])])


def test_a_transaction_that_was_not_committed_leaves_its_reader_where_it_stood() -> None:
    def after(type: str, *places: tuple[int, int]) -> Logs:
        begun = sent()
        begun.txn("eos").poll({X: FIVE[:1]}).end()
        begun.txn("eos").poll({X: FIVE[1:3]}).end(type)
        begun.txn("eos").poll({X: [*places]}).end()
        return begun.read_all(*FIVE)

    check(
        bad=[
            (after("fail", *FIVE[3:]), ["poll-skip"]),
            (after("info", *FIVE[3:]), ["poll-skip"]),
            (after("ok", *FIVE[1:]), ["nonmonotonic-poll"]),
        ],
        good=[after("fail", *FIVE[1:]), after("info", *FIVE[1:]), after("ok", *FIVE[3:])],
    )


def test_reads_of_one_transaction_are_one_read() -> None:
    def reads(*then: tuple[int, int]) -> Logs:
        begun = sent()
        begun.txn("eos").poll({X: FIVE[:2]}).poll({X: [*then]}).end()
        return begun.read_all(*FIVE)

    check(
        bad=[(reads(*FIVE[3:]), ["int-poll-skip"]), (reads(*FIVE[1:]), ["int-nonmonotonic-poll"])],
        good=[reads(*FIVE[2:])],
    )


def test_producers_and_transactions_keep_their_order() -> None:
    def two(first: int, second: int, type: str = "ok") -> Logs:
        begun = Logs().put((9, 9))
        begun.txn().send(0, first).send(1, second).end(type)
        places = sorted([(first, 0), (second, 1)]) if type != "fail" else []
        return begun.read_all(*places, (9, 9))

    apart = Logs()
    apart.txn().send(0, 3).end()
    apart.txn().send(1, 2).end()
    others = Logs().put((3, 0)).put((2, 1), process="other.0").read_all((2, 1), (3, 0))
    check(
        bad=[
            (two(3, 2), ["int-nonmonotonic-send"]),
            (two(3, 2, "info"), ["int-nonmonotonic-send"]),
            (apart.read_all((2, 1), (3, 0)), ["nonmonotonic-send"]),
            (Logs().put((3, 0), (2, 1)).read_all((2, 1), (3, 0)), ["nonmonotonic-send"]),
        ],
        good=[two(2, 3), two(3, 2, "fail"), others],
    )


def test_messages_of_others_between_two_of_a_transaction_are_counted() -> None:
    mixed = Logs().put((3, 3), process="other.0")
    mixed.txn().send(0, 2).send(1, 4).end()
    mixed.read_all((2, 0), (3, 3), (4, 1))
    check(bad=[], good=[mixed])
    assert [one.name for one in judged(mixed).anomalies] == ["int-send-skip"]
